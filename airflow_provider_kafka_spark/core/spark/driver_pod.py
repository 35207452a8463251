"""Names, files and states of a job's driver on Kubernetes. No I/O.

The worker lets ``spark-submit`` create the driver's pod, under a name that Airflow stored before. Then it creates a
Secret of the same name, with the job's files, that the pod owns: **without this Secret the pod cannot start**. So a pod
whose worker died before it made the Secret has done nothing, and another try may delete it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import PurePath
from typing import Any

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.shown_text import one_line

#: Where driver and executors find the job's files.
FOLDER = "/etc/airflow-kafka-spark"
#: Of every driver's pod of this package; its value is the pod's name.
LABEL = "airflow-kafka-spark"
#: Spark's own label with the application's id.
APPLICATION_LABEL = "spark-app-selector"
POD_NAME = "spark.kubernetes.driver.pod.name"
NAMESPACE = "spark.kubernetes.namespace"
CONTEXT = "spark.kubernetes.context"
WAITS = "spark.kubernetes.submission.waitAppCompletion"
UPLOAD_PATH = "spark.kubernetes.file.upload.path"
#: What ``spark-submit`` logs in with, by the field of :class:`ApiAccess`.
_SUBMISSION = "spark.kubernetes.authenticate.submission."
_BY_FIELD = {
    "token": "oauthToken",
    "token_file": "oauthTokenFile",
    "ca_file": "caCertFile",
    "certificate_file": "clientCertFile",
    "key_file": "clientKeyFile",
}
#: Of all values of a Secret, in bytes: https://kubernetes.io/docs/concepts/configuration/secret/
LARGEST_SECRET = 1024 * 1024
#: The phase of a pod none of whose containers has started, as one whose Secret is not there.
WAITING = "Pending"
_ENDED = ("Succeeded", "Failed")
#: What the worker does: verb, and kind of thing.
RIGHTS = (
    ("create", "pods"),
    ("get", "pods"),
    ("list", "pods"),
    ("delete", "pods"),
    ("create", "services"),
    # Spark applies them.
    ("patch", "services"),
    ("create", "configmaps"),
    ("patch", "configmaps"),
    ("create", "secrets"),
    ("get", "secrets"),
    ("delete", "secrets"),
)


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """How to reach an API server, as ``spark-submit`` reaches it.

    Without files and token: by the kubeconfig of the process, or by the service account of its pod.

    :param address: such as ``https://api.example.com:6443``.
    :param namespace: of the job.
    :param context: of the kubeconfig; None for its current one.
    :param token: **Secret.**
    """

    address: str
    namespace: str = "default"
    context: str | None = None
    token: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @classmethod
    def of(cls, master: str, properties: Mapping[str, str]) -> ApiAccess:
        """
        :param master: such as ``k8s://https://api.example.com:6443``.
        :param properties: of the submission.
        """
        address = master.removeprefix("k8s://")
        found = {name: properties.get(f"{_SUBMISSION}{key}") or None for name, key in _BY_FIELD.items()}
        return cls(
            # As Spark does.
            address=address if "://" in address else f"https://{address}",
            namespace=properties.get(NAMESPACE) or "default",
            context=properties.get(CONTEXT) or None,
            **found,
        )

    def to_json(self) -> dict[str, str]:
        """Without a token, for a trigger."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "token"}

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> ApiAccess:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


@dataclass(frozen=True, slots=True)
class DriverPod:
    """What the API server says about a driver's pod.

    :param application_id: Spark's.
    :param reason: why it has not started, or how it ended, as far as Kubernetes says it.
    :param created: when, in seconds since 1970 by the API server's clock.
    """

    name: str
    uid: str
    application_id: str
    phase: str
    reason: str = ""
    created: float = 0.0

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> DriverPod:
        """
        :param pod: as the API server describes it.
        :raises KeyError: if it is no driver's.
        """
        metadata, status = pod["metadata"], pod.get("status") or {}
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            application_id=(metadata.get("labels") or {})[APPLICATION_LABEL],
            phase=status.get("phase") or WAITING,
            reason=_reason(status, is_ending="deletionTimestamp" in metadata),
            created=datetime.fromisoformat(metadata["creationTimestamp"].replace("Z", "+00:00")).timestamp(),
        )

    @property
    def has_ended(self) -> bool:
        return self.phase in _ENDED

    def describe(self) -> str:
        """Its phase and the reason, for logs and messages."""
        return f"{self.phase} ({self.reason})" if self.reason else self.phase


def _reason(status: Mapping[str, Any], *, is_ending: bool) -> str:
    # On a node that is gone, this may last.
    parts = ["it is being deleted" if is_ending else None, status.get("reason"), status.get("message")]
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        parts += [waiting.get("reason"), waiting.get("message")]
        if terminated.get("exitCode"):
            parts += [terminated.get("reason"), f"exit code {terminated['exitCode']}", terminated.get("message")]
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            parts += [condition.get("reason"), condition.get("message")]
    return one_line(", ".join(dict.fromkeys(str(part).strip() for part in parts if part))[:1_000])


def pod_conf(name: str) -> dict[str, str]:
    """The properties by which the driver's pod has its name, and driver and executors have the Secret."""
    return {
        POD_NAME: name,
        f"spark.kubernetes.driver.label.{LABEL}": name,
        f"spark.kubernetes.driver.secrets.{name}": FOLDER,
        f"spark.kubernetes.executor.secrets.{name}": FOLDER,
        WAITS: "false",
    }


def in_pod_path(file: PurePath) -> str:
    """Where a file of the job is in the pods."""
    return f"{FOLDER}/{file.name}"


def check_secret_size(files: Mapping[str, bytes]) -> None:
    """:raises OptionError: if a Secret cannot hold the files."""
    total = sum(map(len, files.values()))
    if total > LARGEST_SECRET:
        largest = max(files, key=lambda name: len(files[name]))
        raise OptionError(
            f"On Kubernetes the files of a job go by a Secret, which holds {LARGEST_SECRET:,} bytes; they have "
            f"{total:,}, of which {largest} has {len(files[largest]):,}. Plan fewer ranges at once, or use smaller key "
            "stores."
        )
