"""Events of a running job on its standard output, one line each. No I/O.

A driver's output also quotes data, such as the value of a record in an error of Spark. So each event has the token of
its request, a random value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.wire.codec import decode, encode

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
    :param rate: records/s of late; None while that says nothing yet.
    :param delivered_before: of the planned offsets, those that earlier tries had delivered.
    """

    records: int
    planned: int
    seconds: float
    rate: float | None = None
    delivered_before: int = 0

    def __str__(self) -> str:
        # What was committed before is read again first: it is there already, and counts from the beginning.
        there = max(self.records, self.delivered_before)
        # Rounded down: 100% means all.
        percent = min(100, there * 100 // self.planned) if self.planned else 100
        before = " with those of earlier tries" if self.delivered_before else ""
        parts = [f"{percent}%: {there:,} of at most {self.planned:,} records{before}"]
        if self.rate is not None:
            parts.append(f"{self.rate:,.0f} records/s")
            if self.rate > 0 and percent < 100:
                parts.append(f"about {(self.planned - self.records) / self.rate:,.0f} s left")
        return ", ".join(parts)

    def to_json(self) -> str:
        return json.dumps(encode(self))

    @classmethod
    def from_json(cls, text: str) -> JobProgress | None:
        """None for what :meth:`to_json` has not given."""
        try:
            return decode(cls, json.loads(text))
        except (ValueError, RecursionError, ProtocolError):
            return None


class RecentRate:
    """How many records are read per second of late: since the start says little about a copy that was paused, or whose
    first seconds went by without a record.

    :param window: in seconds; a look may reach back further, to the one before.
    :param warm_up: seconds for which nothing is said.
    """

    def __init__(self, began: float, window: float = 30.0, warm_up: float = 10.0) -> None:
        self._window = window
        self._speaks_from = began + warm_up
        self._looks = [(began, 0)]

    def at(self, now: float, records: int) -> float | None:
        """
        :param now: in seconds, on the clock of the start, and later than that of the last look.
        :param records: until now.
        """
        while len(self._looks) > 1 and self._looks[1][0] <= now - self._window:
            del self._looks[0]
        then, before = self._looks[0]
        self._looks.append((now, records))
        return (records - before) / (now - then) if now >= self._speaks_from and now > then else None


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


def is_loopback(address: str) -> bool:
    """Whether only the driver's own machine reaches an address.

    >>> is_loopback("http://localhost:4040"), is_loopback("http://driver.example.com:4040")
    (True, False)
    """
    return re.match(r"https?://(localhost|127\.[\d.]+|\[::1\])(:|/|$)", address) is not None


def _parse(text: str) -> JobEvent | None:
    try:
        fields = json.loads(text)
        event = decode(_KINDS[fields.pop("event")], fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ProtocolError):
        return None
    if isinstance(event, JobStarted) and event.ui_url is not None and not is_web_address(event.ui_url):
        return replace(event, ui_url=None)
    return event
