"""Requests to the REST interface of YARN's ResourceManager that the Spark provider does not have, and its address."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

import requests

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
_ACCEPTED, _LONGEST_ANSWER = 202, 300

log = logging.getLogger(__name__)


def is_on_yarn(application_id: str) -> bool:
    """Whether an application id is one of YARN."""
    return YARN_ID.fullmatch(application_id) is not None


@dataclass(frozen=True, slots=True)
class ResourceManager:
    """:param address: of its web interface, such as ``http://rm.example.com:8088``.
    :param auth: None without a login.
    """

    address: str
    auth: AuthBase | None = None

    def applications(self, tag: str, states: Sequence[str] = ()) -> dict[str, str]:
        """The states of the applications with a tag, by id.

        :param states: that are asked for; empty for all.
        :raises RuntimeError: if YARN does not answer, or something else does.
        """
        query = f"applicationTags={quote(tag)}" + (f"&states={','.join(states)}" if states else "")
        try:
            answer = requests.get(
                f"{self.address}/ws/v1/cluster/apps?{query}&deSelects=resourceRequests",
                auth=self.auth,
                timeout=_TIMEOUTS,
            )
            answer.raise_for_status()
            found = (answer.json()["apps"] or {}).get("app", [])
            # Proxies and other services answer too.
            return {str(app["id"]): str(app["state"]) for app in found if tag in str(app["applicationTags"]).split(",")}
        except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RuntimeError(f"The applications with the tag {tag!r}: {error!r}") from error

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
                f"{self.address}/ws/v1/cluster/apps/{quote(application_id)}/state",
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
