"""The report of a job in the storage that driver and worker both reach."""

from __future__ import annotations

import logging
import time

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, ReportLocationError
from airflow_provider_kafka_spark.core.spark.file_names import progress_uri
from airflow_provider_kafka_spark.submission.remote_path import read_text, shared_path

log = logging.getLogger(__name__)

#: In bytes, enough for some hundred thousand ranges.
_LARGEST_REPORT = 64 * 1024 * 1024
_READS = 3
#: Seconds between two tries to read a report.
READ_AGAIN_SECONDS = 2.0


def read_report(uri: str) -> str | None:
    """The text of a report that a driver has written, or None if it wrote none.

    :raises ReportLocationError: if Airflow cannot reach that kind of storage.
    :raises JobReportMissingError: if the storage fails repeatedly.
    """
    for tries_left in reversed(range(_READS)):
        try:
            return read_text(shared_path(uri), _LARGEST_REPORT)
        except FileNotFoundError:
            return None
        except (ValueError, ImportError) as error:
            raise ReportLocationError(
                f"The job's report at {uri} must be readable by the worker through Airflow's ObjectStoragePath; got "
                f"{error!r}. Install the provider of that storage (such as apache-airflow-providers-amazon), and "
                "check its connection."
            ) from error
        except OSError as error:
            if not tries_left:
                # The job may have delivered everything; the next try checks that.
                raise JobReportMissingError(
                    f"The job's report at {uri} must be readable by the worker; got {error!r}. Check the storage and "
                    "the worker's permissions on it."
                ) from error
            time.sleep(READ_AGAIN_SECONDS)
    return None


def remove_shared_report(uri: str) -> None:
    """Remove a report that was read, and what its job said of its progress; a failure is only logged."""
    for file in (uri, progress_uri(uri)):
        try:
            shared_path(file).unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("The job has ended, and its file could not be removed: %s (%r).", file, error)
