"""What a running job says on its standard output, one line an event, so that the worker can tell it from Spark's own log. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

#: Nothing else on a driver's output starts like this.
_PREFIX = "@airflow-kafka-spark "


@dataclass(frozen=True, slots=True)
class JobStarted:
    """The Spark application is up.

    :param application_id: as the cluster manager knows it.
    :param ui_url: the Spark UI, or None if it is off.
    """

    application_id: str
    ui_url: str | None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far the copy is.

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


def format_event(event: JobEvent) -> str:
    """One line of output; :func:`parse_event` reads it back."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(event, cls))
    fields = {name: getattr(event, name) for name in event.__slots__}
    return _PREFIX + json.dumps({"event": kind, **fields}, sort_keys=True)


def parse_event(line: str) -> JobEvent | None:
    """The event in a line of output, or None if it holds none; a damaged line is no event."""
    if not line.startswith(_PREFIX):
        return None
    try:
        fields: dict[str, Any] = json.loads(line[len(_PREFIX) :])
        event = _KINDS[fields.pop("event")](**fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return event if _is_sound(event) else None


def _is_sound(event: JobEvent) -> bool:
    """Whether the fields are of their types: what follows the log must not fail at showing an event."""
    if isinstance(event, JobStarted):
        return isinstance(event.application_id, str) and isinstance(event.ui_url, (str, type(None)))
    numbers = (event.records, event.planned, event.seconds)
    # JSON has numbers that cannot be shown: NaN, Infinity, and integers that no float holds.
    in_range = all(isinstance(n, (int, float)) and not isinstance(n, bool) and 0 <= n < 2**63 for n in numbers)
    return in_range and isinstance(event.records, int) and isinstance(event.planned, int)
