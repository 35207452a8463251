"""Requests to a Kubernetes API server about drivers' pods and their Secrets."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_kafka_spark.core.errors import ClusterUnavailableError, ConnectionConfigError
from airflow_provider_kafka_spark.core.secrets import without_user
from airflow_provider_kafka_spark.core.spark.driver_pod import APPLICATION_LABEL, LABEL, RIGHTS, ApiAccess, DriverPod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, AuthorizationV1Api, Configuration, CoreV1Api

_Answer = TypeVar("_Answer")
#: To connect, and to read, in seconds.
_TIMEOUTS = (5, 30)
#: Seconds that a driver has to end, and its executors with it.
_GRACE_SECONDS = 30
#: Of ended drivers whose Secrets are removed; Kubernetes keeps up to 12,500 ended pods.
_MOST_ENDED = 20
#: A worker makes the Secret within a second or two.
_ABANDONED_SECONDS = 600
_OF_DRIVERS = "spark-role=driver"
#: What the API server itself says of a thing, by HTTP status and reason; proxies and wrong addresses answer 404 too.
_NOT_FOUND, _EXISTS = (404, "NotFound"), (409, "AlreadyExists")
_REFUSED = (401, 403)


class RefusedError(RuntimeError):
    """The API server refuses the login."""


@dataclass(frozen=True)
class KubernetesApi:
    """One namespace of an API server.

    Each method raises RuntimeError if the API server does not answer or refuses.
    """

    access: ApiAccess

    def pod(self, name: str) -> DriverPod | None:
        """The driver's pod of that name, or None."""
        found = self._ask(lambda api: api.read_namespaced_pod(name, self.access.namespace, **_RAW), _NOT_FOUND)
        return None if found is None else _driver(found)

    def driver_of(self, application_id: str) -> DriverPod | None:
        """The driver's pod of an application, or None."""
        return next(iter(self.drivers(f"{_OF_DRIVERS},{APPLICATION_LABEL}={application_id}")), None)

    def alive(self) -> dict[str, str]:
        """The applications of this package that have not ended, and how each is, by id."""
        pods = self.drivers(f"{_OF_DRIVERS},{LABEL}", "status.phase!=Succeeded,status.phase!=Failed")
        return {pod.application_id: pod.describe() for pod in pods}

    def abandoned(self, than: DriverPod) -> list[str]:
        """Names of this package's drivers whose worker has not let them start: they were created ten minutes or more
        before another one, and have no Secret.
        """
        waiting = self.drivers(f"{_OF_DRIVERS},{LABEL}", "status.phase=Pending")
        old = [pod.name for pod in waiting if than.created - pod.created >= _ABANDONED_SECONDS]
        return [name for name in old if name != than.name and not self.has_secret(name)]

    def delete_left_secrets(self, application_id: str = "") -> None:
        """Delete the Secrets of this package's drivers that have ended: they have logins, and a worker that died left
        them.

        :param application_id: of one application; by default of the newest twenty.
        """
        labels = f"{_OF_DRIVERS},{LABEL}" + (f",{APPLICATION_LABEL}={application_id}" if application_id else "")
        ended = sorted((pod for pod in self.drivers(labels) if pod.has_ended), key=attrgetter("created"))
        for pod in ended[-_MOST_ENDED:]:
            self.delete_secret(pod.name)

    def kill(self, application_id: str) -> None:
        """Delete the driver's pod of an application; what it owns goes with it."""
        pod = self.driver_of(application_id)
        if pod is not None:
            self.delete_pod(pod.name)

    def delete_pod(self, name: str) -> None:
        """Delete a pod, if it is there."""
        namespace = self.access.namespace
        self._ask(
            lambda api: api.delete_namespaced_pod(name, namespace, grace_period_seconds=_GRACE_SECONDS, **_RAW),
            _NOT_FOUND,
        )

    def create_secret(self, owner: DriverPod, files: Mapping[str, bytes]) -> None:
        """Create the Secret with the name of the pod that owns it.

        :raises RuntimeError: also if one is there that is not the same: somebody else wants to decide what the driver
            runs.
        """
        body: dict[str, Any] = {
            "metadata": {
                "name": owner.name,
                "labels": {LABEL: owner.name},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}],
            },
            "immutable": True,
            "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
        }
        created = self._ask(lambda api: api.create_namespaced_secret(self.access.namespace, body, **_RAW), _EXISTS)
        # An earlier request may have been answered too late.
        found = (self._secret(owner.name) or {}) if created is None else body
        owners = [reference.get("uid") for reference in (found.get("metadata") or {}).get("ownerReferences") or ()]
        if found.get("data") != body["data"] or owners != [owner.uid]:
            raise RuntimeError(
                f"The Secret {owner.name} must be the worker's own, and one was there with other contents or another "
                "owner; see who may create Secrets in the namespace, and delete it"
            )

    def has_secret(self, name: str) -> bool:
        """Whether there is a Secret of that name."""
        return self._secret(name) is not None

    def _secret(self, name: str) -> Any:
        return self._ask(lambda api: api.read_namespaced_secret(name, self.access.namespace, **_RAW), _NOT_FOUND)

    def delete_secret(self, name: str) -> None:
        """Delete a Secret, if it is there."""
        self._ask(lambda api: api.delete_namespaced_secret(name, self.access.namespace, **_RAW), _NOT_FOUND)

    def check_rights(self, conn_id: str) -> None:
        """
        :param conn_id: of the Spark connection, for errors.
        :raises ConnectionConfigError: if the API server refuses the login, or that lacks a right.
        :raises ClusterUnavailableError: if it does not answer, or something else does.
        """
        try:
            missing = self.missing_rights()
        except RuntimeError as error:
            kind = ConnectionConfigError if isinstance(error, RefusedError) else ClusterUnavailableError
            raise kind(
                f"The API server of connection {conn_id!r} ({without_user(self.access.address)}) must answer the "
                f"worker; got {error}. Check the kubeconfig of the worker, or the service account of its pod."
            ) from error
        if missing:
            raise ConnectionConfigError(
                f"The worker must have these rights in namespace {self.access.namespace!r} of connection {conn_id!r}, "
                f"and lacks: {', '.join(missing)}. Give them by a Role and a RoleBinding, as the documentation has "
                "them."
            )

    def missing_rights(self) -> list[str]:
        """Those that this login lacks, such as ``create secrets``."""
        from kubernetes.client import AuthorizationV1Api

        lacking = []
        for verb, resource in RIGHTS:
            wanted = {"namespace": self.access.namespace, "verb": verb, "resource": resource}
            review = self._ask_with(AuthorizationV1Api, partial(_review, {"spec": {"resourceAttributes": wanted}}))
            try:
                allowed = review["status"]["allowed"]
            except (KeyError, TypeError):
                raise RuntimeError("an answer that says nothing of a right, as of a proxy") from None
            if not allowed:
                lacking.append(f"{verb} {resource}")
        return lacking

    def drivers(self, labels: str = _OF_DRIVERS, fields: str = "") -> list[DriverPod]:
        """The drivers' pods, of others too. One without the labels that Spark gives is none.

        :param labels: a selector.
        :param fields: likewise.
        """
        given = {"label_selector": labels, "field_selector": fields, **_RAW}
        found = self._ask(lambda api: api.list_namespaced_pod(self.access.namespace, **given))
        try:
            pods = [pod for pod in found["items"] if APPLICATION_LABEL in (pod["metadata"].get("labels") or {})]
        except (AttributeError, KeyError, TypeError):
            raise RuntimeError("an answer that is no list of pods, as of a proxy") from None
        return [_driver(pod) for pod in pods]

    def _ask(self, request: Callable[[CoreV1Api], Any], allowed: tuple[int, str] | None = None) -> Any:
        """
        :param allowed: a status and a reason that are no failure, for which the answer is None.
        """
        from kubernetes.client import CoreV1Api

        return self._ask_with(CoreV1Api, request, allowed)

    def _ask_with(
        self, kind: Callable[[Any], Any], request: Callable[[Any], Any], allowed: tuple[int, str] | None = None
    ) -> Any:
        from kubernetes.client.exceptions import ApiException

        try:
            return json.loads(request(kind(self._client)).data)
        except ApiException as error:
            said = _said(error.body)
            if allowed == (error.status, said.get("reason")):
                return None
            kind = RefusedError if error.status in _REFUSED else RuntimeError
            # The message names the user, the right and the thing.
            raise kind(f"HTTP {error.status}: {str(said.get('message', error.reason))[:1_000]}") from error
        except Exception as error:
            # Its client raises any error of its transport and of the login's plugin, and hides those of TLS.
            told = error.__context__ if isinstance(error.__context__, ApiException) else error
            raise RuntimeError(f"{type(told).__name__}: {told}") from error

    @cached_property
    def _client(self) -> ApiClient:
        from kubernetes.client import ApiClient, Configuration
        from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

        found, access = Configuration(), self.access
        try:
            # Without the name the client takes what the variable was when it was imported.
            load_kube_config(os.environ.get("KUBECONFIG"), context=access.context, client_configuration=found)
        except ConfigException:
            if access.context is not None:
                raise
            # Without it the files below must do.
            with suppress(ConfigException):
                load_incluster_config(client_configuration=found)
        found.retries = False
        self._direct(found)
        if access.token is not None or access.token_file:
            # Called before each request, if there is a key: a token in a file is soon replaced by a newer one.
            found.api_key, found.api_key_prefix = {"authorization": ""}, {}
            found.refresh_api_key_hook = self._log_in
        elif access.certificate_file:
            # The token that was found may be that of another cluster, and is not needed.
            found.api_key, found.refresh_api_key_hook = {}, None
        elif found.refresh_api_key_hook is not None:
            found.refresh_api_key_hook = partial(self._refresh, found.refresh_api_key_hook)
        return ApiClient(found)

    def _direct(self, configuration: Configuration) -> None:
        """Set the address and the files that the connection names, as ``spark-submit`` does."""
        configuration.host = self.access.address
        if self.access.ca_file:
            configuration.ssl_ca_cert = self.access.ca_file
        if self.access.certificate_file:
            configuration.cert_file, configuration.key_file = self.access.certificate_file, self.access.key_file

    def _refresh(self, loaded: Callable[[Configuration], None], configuration: Configuration) -> None:
        """As the client's own hook, which also sets the kubeconfig's address, and itself again."""
        loaded(configuration)
        configuration.refresh_api_key_hook = partial(self._refresh, loaded)
        self._direct(configuration)

    def _log_in(self, configuration: Configuration) -> None:
        token = self.access.token or Path(str(self.access.token_file)).read_text(encoding="utf-8").strip()
        configuration.api_key = {"authorization": f"Bearer {token}"}


#: The answer as text: the client's classes take long to make, and refuse what a newer server says.
_RAW: dict[str, Any] = {"_preload_content": False, "_request_timeout": _TIMEOUTS}


def _review(body: Mapping[str, Any], api: AuthorizationV1Api) -> Any:
    return api.create_self_subject_access_review(body, **_RAW)


def _driver(pod: Mapping[str, Any]) -> DriverPod:
    try:
        return DriverPod.of(pod)
    except (KeyError, TypeError) as error:
        raise RuntimeError(
            f"A driver's pod must have {error}, which Spark gives it; the API server's has none"
        ) from error


def _said(body: Any) -> Mapping[str, Any]:
    """The ``Status`` with which an API server says why it does not do something; empty if something else answered."""
    try:
        said = json.loads(body)
    except (TypeError, ValueError):
        return {}
    return said if isinstance(said, dict) and said.get("kind") == "Status" else {}
