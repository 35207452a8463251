"""Requests to the REST interface of YARN's ResourceManager that the Spark provider does not have, and its address."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import requests
from requests.auth import HTTPBasicAuth

if TYPE_CHECKING:
    from requests.auth import AuthBase

#: Of every application of this package.
COMMON_TAG = "airflow-kafka-spark"
#: Of applications that have not ended.
ALIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
YARN_ID = re.compile(r"application_\d+_\d+")
#: Another property in a value of Hadoop's.
_VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")
#: To connect, and to read, in seconds: those of the Spark provider.
_TIMEOUTS = (5, 30)
#: For the search of the active one: Airflow ends a worker five seconds after the signal that kills its task.
_SEARCH_TIMEOUTS = (1, 3)
_ACCEPTED, _NOT_FOUND, _LONGEST_ANSWER = 202, 404, 300
#: YARN's own answer about an application that it does not know.
_UNKNOWN = "NotFoundException"
#: Of the Spark provider's connection.
_ADDRESS_EXTRA = "yarn_resourcemanager_webapp_address"

log = logging.getLogger(__name__)


def is_on_yarn(application_id: str) -> bool:
    """Whether an application id is one of YARN."""
    return YARN_ID.fullmatch(application_id) is not None


@dataclass(frozen=True, slots=True)
class ResourceManager:
    """:param addresses: of its web interface, such as ``http://rm.example.com:8088``; with high availability those of
        all, of which the active one is found anew for each request. None has a login, since texts quote them.
    :param auth: None without a login.
    """

    addresses: tuple[str, ...]
    auth: AuthBase | None = None

    def address(self) -> str:
        """The one that is active now."""
        return active_address(self.addresses, self.auth)

    def applications(self, tag: str, states: Sequence[str] = ()) -> dict[str, str]:
        """The states of the applications with a tag, by id.

        :param states: that are asked for; empty for all.
        :raises RuntimeError: if YARN does not answer, or something else does.
        """
        query = f"applicationTags={quote(tag)}" + (f"&states={','.join(states)}" if states else "")
        try:
            answer = requests.get(
                f"{self.address()}/ws/v1/cluster/apps?{query}&deSelects=resourceRequests",
                auth=self.auth,
                timeout=_TIMEOUTS,
            )
            answer.raise_for_status()
            found = (answer.json()["apps"] or {}).get("app", [])
            # Proxies and other services answer too.
            return {str(app["id"]): str(app["state"]) for app in found if tag in str(app["applicationTags"]).split(",")}
        except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RuntimeError(f"The applications with the tag {tag!r}: {error!r}") from error

    def status(self, application_id: str) -> str | None:
        """The state of an application; of one that has ended, ``"SUCCEEDED"`` or ``"FAILED"``. None if YARN does not
        know it.

        :raises RuntimeError: if YARN does not answer, or something else does.
        """
        try:
            answer = requests.get(
                f"{self.address()}/ws/v1/cluster/apps/{quote(application_id)}", auth=self.auth, timeout=_TIMEOUTS
            )
            # Proxies and wrong addresses answer 404 too.
            if answer.status_code == _NOT_FOUND and _UNKNOWN in answer.text:
                return None
            answer.raise_for_status()
            found = answer.json()["app"]
            state, final = str(found["state"]), str(found["finalStatus"])
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"The state of application {application_id}: {error!r}") from error
        if state in ALIVE:
            return state
        return "SUCCEEDED" if (state, final) == ("FINISHED", "SUCCEEDED") else "FAILED"

    def alive(self) -> dict[str, str]:
        """The applications of this package that have not ended, and their states, by id.

        :raises RuntimeError: if YARN does not answer, or something else does.
        """
        return self.applications(COMMON_TAG, ALIVE)

    def kill(self, application_id: str) -> None:
        """Order the end of an application; YARN takes a moment.

        :raises RuntimeError: if YARN does not take the order.
        """
        try:
            answer = requests.put(
                f"{self.address()}/ws/v1/cluster/apps/{quote(application_id)}/state",
                json={"state": "KILLED"},
                auth=self.auth,
                timeout=_TIMEOUTS,
            )
        except requests.RequestException as error:
            raise RuntimeError(f"The order to end application {application_id}: {error!r}") from error
        if answer.status_code != _ACCEPTED and not _has_state(answer):
            raise RuntimeError(
                f"YARN must take the order to end application {application_id}; got HTTP {answer.status_code}: "
                f"{answer.text[:_LONGEST_ANSWER]!r}"
            )
        log.info("YARN has the order to end application %s.", application_id)


def _has_state(answer: requests.Response) -> bool:
    """As of an application that has ended. Without an active ResourceManager, a standby answers 200 with a text."""
    try:
        return answer.ok and "state" in answer.json()
    except (ValueError, TypeError):
        return False


def resource_manager_of(
    extra: Mapping[str, Any], options: Mapping[str, Any], environ: Mapping[str, str]
) -> ResourceManager:
    """The ResourceManager that the Spark provider would ask, or else the one that Hadoop's configuration names.

    :param extra: of the Spark connection.
    :param options: of the submission, as ``SparkSubmitHook`` has them.
    :param environ: of the submission.
    :raises ValueError: if the worker does not know its address.
    :raises RuntimeError: if its login lacks a library.
    """
    auth = options.get("yarn_rm_auth")
    keytab, principal = (options.get(name) or extra.get(name) for name in ("keytab", "principal"))
    if auth is None and keytab and (principal or options.get("use_krb5ccache")):
        try:
            auth = by_kerberos()
        except ImportError as error:
            raise RuntimeError(
                f"A login to YARN by Kerberos needs the Python package requests-kerberos: {error}"
            ) from error
    named = str(extra.get(_ADDRESS_EXTRA) or "").strip()
    if named:
        address, login = _without_login((named if "://" in named else f"http://{named}").rstrip("/"))
        return ResourceManager((address,), auth or login)
    addresses = resource_manager_addresses(environ)
    if not addresses:
        raise ValueError(f"neither {_ADDRESS_EXTRA!r} in the connection's Extra nor yarn-site.xml has it")
    return ResourceManager(tuple(addresses), auth)


def _without_login(address: str) -> tuple[str, HTTPBasicAuth | None]:
    """An address, and the user and password that it had, as ``requests`` would send them."""
    scheme, separator, rest = address.partition("://")
    login, _, host = rest.rpartition("@")
    user, has_password, password = (unquote(part).encode() for part in login.partition(":"))
    return f"{scheme}{separator}{host}", HTTPBasicAuth(user, password) if has_password else None


def by_kerberos() -> AuthBase:
    """The login by the tickets of this process's user.

    :raises ImportError: if the library is missing.
    """
    from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found]

    auth: AuthBase = HTTPKerberosAuth()
    return auth


def active_address(addresses: Sequence[str], auth: AuthBase | None = None) -> str:
    """The one of several ResourceManagers that is active; otherwise the first that answers, or the first.

    A standby redirects requests, but one that is down does not. Each says by itself what it is (``RMWebAppFilter``).

    :param addresses: at least one; a single one is not asked.
    """
    if len(addresses) == 1:
        return addresses[0]
    answered = []
    for address in addresses:
        try:
            answer = requests.get(f"{address}/ws/v1/cluster/info", auth=auth, timeout=_SEARCH_TIMEOUTS)
            answered.append(address)
            if answer.json()["clusterInfo"]["haState"] == "ACTIVE":
                return address
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            log.debug("The ResourceManager at %s does not say whether it is active: %r", address, error)
    return (answered or addresses)[0]


def resource_manager_addresses(environ: Mapping[str, str]) -> list[str]:
    """The ResourceManagers' web addresses, as the Hadoop configuration of this worker has them; often one, or none."""
    for variable in ("YARN_CONF_DIR", "HADOOP_CONF_DIR"):
        site = Path(environ.get(variable, "")) / "yarn-site.xml"
        if not environ.get(variable) or not site.is_file():
            continue
        properties = {
            (item.findtext("name") or "").strip(): (item.findtext("value") or "").strip()
            for item in ElementTree.parse(site).iter("property")  # noqa: S314 - the cluster's own configuration
        }
        secure = properties.get("yarn.http.policy") == "HTTPS_ONLY"
        scheme, kind, port = ("https", "webapp.https.address", 8090) if secure else ("http", "webapp.address", 8088)
        ids = [name.strip() for name in properties.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
        found = []
        for suffix in ("", *(f".{name}" for name in ids if name)):
            address = _expanded(properties, f"yarn.resourcemanager.{kind}{suffix}")
            host = _expanded(properties, f"yarn.resourcemanager.hostname{suffix}")
            if address or host:
                found.append(f"{scheme}://{address or f'{host}:{port}'}")
        if found:
            return found
    return []


def _expanded(properties: Mapping[str, str], name: str) -> str | None:
    """A value with others in it, as ``${yarn.resourcemanager.hostname}:8088``; None if one of those is not there.

    Hadoop's ``Configuration`` goes as deep.
    """
    value = properties.get(name, "")
    for _ in range(20):
        value = _VARIABLE.sub(lambda variable: properties.get(variable[1], variable[0]), value)
    return None if not value or _VARIABLE.search(value) else value
