"""Where the job's report goes: a file on the driver's machine, or anything Hadoop's file systems reach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.core.wire.report_mac import sign
from airflow_provider_kafka_spark.jobs import local_files
from airflow_provider_kafka_spark.jobs.hadoop_files import delete, overwrite, write_whole

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext


def write_report(report: JobReport, uri: str, key: str, spark: HasContext | None, job_folder: Path) -> None:
    """Write the report whole or not at all: the worker must never read half of it.

    :param key: of the request, for the report's MAC.
    :param spark: None if it did not start; only a local disk can then be written to.
    :param job_folder: of the request. If it is gone, so is the worker, and it must not come back.
    :raises OSError: if it cannot be written.
    """
    text = sign(report.to_json(), key)
    if spark is not None and "://" in uri:
        write_whole(spark, uri, text)
        return
    local = uri.removeprefix("file://")
    if "://" in local:
        raise RuntimeError(f"No Spark, so the report cannot be written to {uri}.")
    path = Path(local)
    local_files.write_whole(path, text, replace=True, makes_folder=path.parent != job_folder)


def write_file(text: str, uri: str, spark: HasContext) -> None:
    """Write another small file beside the report, or replace it.

    :raises OSError: if it cannot be written.
    """
    if "://" not in uri:
        local_files.write_whole(Path(uri), text, replace=True)
    else:
        overwrite(spark, uri, text)


def remove_file(uri: str, spark: HasContext | None) -> None:
    """Remove a file beside the report, if it is there.

    :raises OSError: if it is there and cannot be removed.
    """
    if "://" not in uri:
        Path(uri).unlink(missing_ok=True)
    elif spark is not None:
        delete(spark, uri)
