"""Whether a watcher works: as metrics, and as an error in the log if it fails for long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from airflow_provider_kafka_spark import metrics

#: After so many seconds of failures the error is logged, and again after each of the second.
ALARM_SECONDS = 300.0
REPEAT_SECONDS = 3600.0
_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9._+-]")
_MAX_TAG = 100


class WatcherHealth:
    """What the evaluations of one watcher have given.

    :param name: as metrics and log lines have it, see :func:`watcher_name`.
    :param log: a logger of :mod:`logging`, or Airflow's.
    :param clock: monotonic, in seconds.
    """

    def __init__(self, name: str, log: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._log = log
        self._clock = clock
        self._failing_since: float | None = None
        self._failures = 0
        self._alarmed_at: float | None = None

    def succeeded(self) -> bool:
        """Note an evaluation that succeeded; return whether it ends an alarm."""
        was_alarmed = self._alarmed_at is not None
        if was_alarmed:
            self._log.info("The watcher %r works again, after %s failures.", self._name, f"{self._failures:,}")
        self._failing_since, self._failures, self._alarmed_at = None, 0, None
        self._send(metrics.WATCHER_EVALUATIONS, 1)
        self._send(metrics.WATCHER_ALIVE, 1)
        return was_alarmed

    def failed(self, error: Exception) -> bool:
        """Note an evaluation that failed; return whether this is an alarm."""
        now = self._clock()
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._failures += 1
        self._send(metrics.WATCHER_FAILURES, 1, error=type(error).__name__)
        self._send(metrics.WATCHER_ALIVE, 0)
        reference, seconds = (
            (self._failing_since, ALARM_SECONDS) if self._alarmed_at is None else (self._alarmed_at, REPEAT_SECONDS)
        )
        if now - reference < seconds:
            return False
        self._alarmed_at = now
        self._log.error(
            "The watcher %r has failed for %s s, %s times in a row; its asset gets no events, and the DAGs that it "
            "schedules do not start. %s: %s",
            self._name,
            f"{now - self._failing_since:,.0f}",
            f"{self._failures:,}",
            type(error).__name__,
            error,
        )
        return True

    def announced(self) -> None:
        """Note an event."""
        self._send(metrics.WATCHER_EVENTS, 1)
        self._send(metrics.WATCHER_LAST_EVENT, int(time.time()))

    def _send(self, metric: str, value: float, **tags: str) -> None:
        metrics.send(metric, value, {"watcher": self._name, **tags}, in_triggerer=True)


def watcher_name(name: str, topics: Sequence[str] | None, topic_pattern: str | None) -> str:
    """A watcher's tag: its name, or else what it watches, with the characters that every backend takes."""
    text = name or "+".join(topics or ()) or topic_pattern or ""
    return _NOT_IN_TAGS.sub("_", text)[:_MAX_TAG]
