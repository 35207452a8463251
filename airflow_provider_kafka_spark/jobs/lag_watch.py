"""How far a consumer group is behind on the target, and whether the job has to pause for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

from airflow_provider_kafka_spark.core.errors import PausedTooLongError
from airflow_provider_kafka_spark.core.wire.protocol import PauseWhileLag
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin

_LOOK_SECONDS = 1.0
#: While the lag is unknown for longer, nothing is sent.
_UNKNOWN_SECONDS = 30.0


class LagWatch:
    """Looks at the lag once a second; the driver alone does.

    :param topics: that the job writes to; empty if it is not known, then all that the group consumes.
    :param log_seconds: between two lines about a pause.
    """

    def __init__(
        self,
        pause: PauseWhileLag,
        admin: KafkaAdmin,
        topics: Sequence[str],
        log_seconds: float,
    ) -> None:
        self._pause = pause
        self._admin = admin
        self._topics = topics
        self._log_seconds = log_seconds
        self._known_at = self._next_at = time.monotonic()
        self._next_line = 0.0
        self._paused_since: float | None = None
        self._total = 0.0
        self._not_consumed: set[str] = set()

    @property
    def seconds(self) -> float:
        """How long the job has paused, all together."""
        return self._total + (0.0 if self._paused_since is None else time.monotonic() - self._paused_since)

    def is_paused(self) -> bool:
        """Whether the job has to pause now.

        :raises PausedTooLongError: if a pause lasts longer than it may.
        """
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + _LOOK_SECONDS
            try:
                lag = self._lag()
            except Exception as error:  # noqa: BLE001 - the next look may succeed
                reason = next(iter(str(getattr(error, "java_exception", error)).splitlines()), "")
                if now - self._known_at > _UNKNOWN_SECONDS:
                    self._set_paused(now, f"the lag is unknown: {reason}", is_paused=True)
            else:
                self._known_at = now
                is_paused = self._pause.is_paused(lag, was_paused=self._paused_since is not None)
                self._set_paused(now, f"its lag is {lag:,} of {self._pause.max_lag:,}", is_paused=is_paused)
        since = self._paused_since
        if since is not None and now - since > self._pause.max_pause_seconds:
            raise PausedTooLongError(
                f"The consumer group {self._pause.group_id!r} must catch up within "
                f"max_pause={timedelta(seconds=round(self._pause.max_pause_seconds))}; it is still more than "
                f"{self._pause.max_lag:,} behind, or its lag is unknown. Look at its consumers. A retry continues "
                "where this try stopped."
            )
        return since is not None

    def _lag(self) -> int:
        committed = self._admin.committed(self._pause.group_id)
        topics = self._topics or sorted({topic for topic, _ in committed})
        ends = self._admin.end_offsets(topics)
        lag, not_consumed = lag_of({place: offset.offset for place, offset in committed.items()}, ends)
        if new := not_consumed - self._not_consumed:
            self._not_consumed |= new
            sys.stderr.write(
                f"The group {self._pause.group_id!r} has committed nothing for {', '.join(sorted(new)[:10])}: these "
                "partitions do not count for its lag.\n"
            )
        return lag

    def _set_paused(self, now: float, reason: str, *, is_paused: bool) -> None:
        group, since = self._pause.group_id, self._paused_since
        if is_paused and (since is None or now >= self._next_line):
            self._next_line = now + self._log_seconds
            lasts = "" if since is None else f" for {now - since:.0f} s"
            sys.stderr.write(f"Paused{lasts} for the consumer group {group!r}: {reason}.\n")
        if is_paused and since is None:
            self._paused_since = now
        if not is_paused and since is not None:
            self._total += now - since
            self._paused_since = None
            sys.stderr.write(f"Going on after a pause of {now - since:.0f} s: {reason}.\n")


def lag_of(committed: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> tuple[int, set[str]]:
    """How far a group is behind, and the partitions that it does not consume.

    One offset of each partition does not count: a copy's transaction ends with a marker there, and a consumer that
    commits the offset after its last record never passes it.

    >>> lag_of({("a", 0): 5, ("a", 1): 9, ("a", 2): 4}, {("a", 0): 8, ("a", 1): 7, ("a", 2): 5, ("a", 3): 100})
    (2, {'a[3]'})
    """
    lag = sum(max(0, end - 1 - committed[place]) for place, end in ends.items() if place in committed)
    return lag, {f"{topic}[{number}]" for topic, number in ends if (topic, number) not in committed}
