"""Requests to the REST interface of YARN's ResourceManager that the Spark provider does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import requests

if TYPE_CHECKING:
    from requests.auth import AuthBase

#: Of every application of this package.
COMMON_TAG = "airflow-kafka-spark"
#: Of applications that have not ended.
ALIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
YARN_ID = re.compile(r"application_\d+_\d+")
#: To connect, and to read, in seconds: those of the Spark provider.
_TIMEOUTS = (5, 30)


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
            answer.raise_for_status()
        except requests.RequestException as error:
            raise RuntimeError(f"The order to end application {application_id}: {error!r}") from error
