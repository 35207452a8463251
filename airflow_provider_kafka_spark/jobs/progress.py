"""What a job says while it runs."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.spark.file_names import progress_uri
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobProgress, RecentRate, format_event
from airflow_provider_kafka_spark.jobs.report_file import remove_file, write_file

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
    from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext

#: Seconds between two versions of the file of progress.
_FILE_SECONDS = 15.0


def emit(event: JobEvent, token: str) -> None:
    """Print an event for the worker to read.

    :param token: of the request.
    """
    sys.stdout.write(format_event(event, token) + "\n")
    sys.stdout.flush()


class ProgressTeller:
    """Tells the worker how far a job is: by its output; and in cluster mode by a file beside its report as well, since
    the output stays on the cluster.
    """

    def __init__(self, spark: HasContext, request: JobRequest) -> None:
        self._spark = spark
        self._token = request.event_token
        self._uri = progress_uri(request.report_uri) if is_in_cluster(request) else None
        self._next_file = 0.0

    def say(self, progress: JobProgress) -> None:
        """By the output."""
        emit(progress, self._token)

    def keep(self, progress: JobProgress) -> None:
        """By the file, if there is one and its time has come."""
        now = time.monotonic()
        if self._uri is None or now < self._next_file:
            return
        self._next_file = now + _FILE_SECONDS
        try:
            write_file(progress.to_json(), self._uri, self._spark)
        except OSError as error:
            sys.stderr.write(f"Progress is not in Airflow's log: {error}\n")
            self._uri = None


def is_in_cluster(request: JobRequest) -> bool:
    """Whether the driver has no worker beside it, which it would watch."""
    return request.owner_pid is None and bool(request.report_uri)


def remove_progress(request: JobRequest, spark: HasContext | None) -> None:
    """Remove the file of progress at the end of a job. The worker does so for a driver that was killed."""
    if is_in_cluster(request):
        # It is small, and nobody takes it for a report.
        with suppress(Exception):
            remove_file(progress_uri(request.report_uri), spark)


@dataclass(frozen=True, slots=True)
class OverallProgress:
    """The copy that a job is a part of.

    :param done: records that were read before this part.
    :param planned: records to be read at most, in all parts.
    :param recent: the rate of all parts; None if this is the only one.
    :param delivered_before: of the planned offsets, those that earlier tries had delivered.
    :param committed: of these, the ones that are read again in this part.
    """

    done: int
    planned: int
    recent: RecentRate | None = None
    delivered_before: int = 0
    committed: int = 0

    def after(self, found: int, committed: int) -> OverallProgress:
        """This progress where earlier tries had delivered a part.

        :param found: offsets that are not read again.
        :param committed: offsets that are read again, and not written.
        """
        return replace(self, done=self.done + found, delivered_before=found + committed, committed=committed)


class ProgressLog:
    """Says at a bounded rate how many records were read, inside ``with``.

    :param monitor: of the writer.
    :param planned: records to be read at most.
    :param seconds: between two lines.
    :param teller: tells the worker.
    :param overall: if this is one of several parts; progress is then that of the whole.
    """

    def __init__(
        self,
        monitor: TaskMonitor,
        planned: int,
        seconds: float,
        teller: ProgressTeller,
        overall: OverallProgress | None = None,
    ) -> None:
        self._monitor = monitor
        self._planned = planned
        self._overall = overall or OverallProgress(0, planned)
        self._seconds = seconds
        self._teller = teller
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> ProgressLog:
        self._started = time.monotonic()
        self._recent = self._overall.recent or RecentRate(self._started)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        if error is None:
            now = time.monotonic()
            if self._overall.recent is not None:
                rate = self._recent.at(now, self._overall.done + self._planned)
            else:
                rate = (
                    (self._planned - self._overall.committed) / (now - self._started) if now > self._started else None
                )
            self._teller.say(self._progress(self._planned, rate))

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
                done = self._overall.done if self._overall.recent is not None else 0
                progress = self._progress(
                    min(records, self._planned), self._recent.at(time.monotonic(), done + records)
                )
                self._teller.say(progress)
                self._teller.keep(progress)

    def _progress(self, records: int, rate: float | None) -> JobProgress:
        done = self._overall.done + records
        planned, seconds = max(done, self._overall.planned), time.monotonic() - self._started
        return JobProgress(done, planned, seconds, rate, self._overall.delivered_before)
