"""What a driver in cluster mode says of its progress, by a file beside its report: its output stays on the cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from airflow_provider_kafka_spark.core.spark.file_names import progress_uri
from airflow_provider_kafka_spark.core.wire.job_events import JobProgress
from airflow_provider_kafka_spark.submission.remote_path import read_text, shared_path

#: Between two looks at a file.
LOOK_SECONDS = 15.0
_LARGEST = 4_096


def read_progress(report_uri: str) -> JobProgress | None:
    """The latest progress of a job; None if it has said nothing, or nothing that can be read."""
    # A courtesy: whatever the storage has against it, the report decides.
    with suppress(Exception):
        return JobProgress.from_json(read_text(shared_path(progress_uri(report_uri)), _LARGEST))
    return None


@contextmanager
def followed_progress(report_uri: str, on_progress: Callable[[JobProgress], None]) -> Iterator[None]:
    """Pass on what a job says of its progress, in a thread, inside ``with``."""
    stop = threading.Event()

    def follow() -> None:
        said = 0
        while not stop.wait(LOOK_SECONDS):
            progress = read_progress(report_uri)
            if progress is not None and progress.records > said:
                said = progress.records
                on_progress(progress)

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        # A storage that does not answer holds up nobody.
        thread.join(1.0)
