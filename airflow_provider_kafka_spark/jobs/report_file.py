"""Where the job's report goes: a file on the driver's machine, or anything Hadoop's file systems reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.protocol import JobReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_report(report: JobReport, uri: str, spark: SparkSession | None) -> None:
    """Write the report whole or not at all: the worker must never read half of it.

    :param spark: needed where ``uri`` has a scheme.
    """
    if "://" not in uri:
        partial = Path(f"{uri}.partial")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(report.to_json())
        partial.rename(uri)
        return
    if spark is None:
        raise RuntimeError(f"No Spark session, so the report cannot be written to {uri}.")
    jvm = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    path, partial_path = hadoop.Path(uri), hadoop.Path(f"{uri}.partial")
    file_system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    # A local folder would get a hidden checksum file beside the report, which nobody removes.
    file_system.setWriteChecksum(False)
    stream = file_system.create(partial_path, True)
    try:
        stream.write(bytearray(report.to_json().encode()))
    finally:
        stream.close()
    if not file_system.rename(partial_path, path):
        raise RuntimeError(f"The report could not be moved to {uri}: does it exist already?")
