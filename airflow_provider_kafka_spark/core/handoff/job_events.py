"""Events of a running job on its standard output, one line each. No I/O.

A driver's output also quotes data, such as the value of a record in an error of Spark. So each event has the token of
its request, a random value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from airflow_provider_kafka_spark.core.codec import decode, encode
from airflow_provider_kafka_spark.core.errors import ProtocolError

_PREFIX = "@airflow-kafka-spark"
#: A host, optionally a port and a path, and nothing that hides the destination, such as a user's name.
_WEB_ADDRESS = re.compile(r"https?://([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[!-~]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobStarted:
    """The Spark application has started.

    :param application_id: as the cluster manager knows it.
    :param ui_url: http or https address of the Spark UI, or None if it is off.
    """

    application_id: str
    ui_url: str | None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of the copy.

    :param records: read until now.
    :param planned: to be read at most.
    :param seconds: since reading began.
    """

    records: int
    planned: int
    seconds: float

    def __str__(self) -> str:
        # Rounded down: 100% means all.
        percent = min(100, self.records * 100 // self.planned) if self.planned else 100
        rate = self.records / self.seconds if self.seconds > 0 else 0.0
        left = f", about {(self.planned - self.records) / rate:,.0f} s left" if rate and percent < 100 else ""
        return f"{percent}%: {self.records:,} of at most {self.planned:,} records, {rate:,.0f} records/s{left}"


JobEvent = JobStarted | JobProgress
_KINDS: dict[str, type[JobStarted] | type[JobProgress]] = {"started": JobStarted, "progress": JobProgress}


def format_event(event: JobEvent, token: str) -> str:
    """One line of output; :func:`take_event` reads it back.

    :param token: of the request.
    """
    kind = next(name for name, cls in _KINDS.items() if isinstance(event, cls))
    return f"{_PREFIX} {token} " + json.dumps({"event": kind, **encode(event)}, sort_keys=True)


def take_event(line: str, token: str) -> tuple[str, JobEvent | None]:
    """Split a line of output into the text for the log, without the token, and the event in it or None.

    An event may come after text of another process that did not end its line. A damaged event is ignored.
    """
    before, marker, text = line.partition(f"{_PREFIX} {token} ")
    event = _parse(text) if marker else None
    return (line.replace(token, "***"), None) if event is None else (before, event)


def is_web_address(text: str) -> bool:
    """Whether it can be a link in Airflow's UI."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def _parse(text: str) -> JobEvent | None:
    try:
        fields = json.loads(text)
        event = decode(_KINDS[fields.pop("event")], fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ProtocolError):
        return None
    if isinstance(event, JobStarted) and event.ui_url is not None and not is_web_address(event.ui_url):
        return replace(event, ui_url=None)
    return event
