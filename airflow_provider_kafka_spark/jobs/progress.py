"""What a job says while it runs."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.handoff.job_events import JobEvent, JobProgress, RecentRate, format_event

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor


def emit(event: JobEvent, token: str) -> None:
    """Print an event for the worker to read.

    :param token: of the request.
    """
    sys.stdout.write(format_event(event, token) + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class OverallProgress:
    """The copy that a job is a part of.

    :param done: records that were read before this part.
    :param planned: records to be read at most, in all parts.
    """

    done: int
    planned: int


class ProgressLog:
    """Says at a bounded rate how many records were read, inside ``with``.

    :param monitor: of the writer.
    :param planned: records to be read at most.
    :param seconds: between two lines.
    :param token: of the request, for the events.
    :param overall: if this is one of several parts; progress is then that of the whole.
    """

    def __init__(
        self, monitor: TaskMonitor, planned: int, seconds: float, token: str, overall: OverallProgress | None = None
    ) -> None:
        self._monitor = monitor
        self._planned = planned
        self._overall = overall or OverallProgress(0, planned)
        self._seconds = seconds
        self._token = token
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> ProgressLog:
        self._started = time.monotonic()
        self._recent = RecentRate(self._started)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        if error is None:
            seconds = time.monotonic() - self._started
            self._emit(self._planned, self._planned / seconds if seconds > 0 else None)

    def _run(self) -> None:
        said = 0
        while not self._stop.wait(self._seconds):
            try:
                records = self._monitor.records
            except Exception as error:  # noqa: BLE001 - progress is a courtesy; the copy must not fail for it
                sys.stderr.write(f"No progress can be shown: {error}\n")
                return
            # Executors report with their heartbeats, which may be slower than we are.
            if records > said:
                said = records
                self._emit(min(records, self._planned), self._recent.at(time.monotonic(), records))

    def _emit(self, records: int, rate: float | None) -> None:
        done = self._overall.done + records
        progress = JobProgress(done, max(done, self._overall.planned), time.monotonic() - self._started, rate)
        emit(progress, self._token)
