"""The frame of every job: read the request, start Spark, run, and leave a report whatever happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.protocol import JobFailure, JobReport, JobRequest
from airflow_provider_kafka_spark.core.submission.failure_causes import find_cause
from airflow_provider_kafka_spark.core.submission.job_events import JobStarted
from airflow_provider_kafka_spark.core.submission.redaction import redact
from airflow_provider_kafka_spark.jobs.progress import end_with_owner, say
from airflow_provider_kafka_spark.jobs.report_file import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_job(job: Callable[[SparkSession, JobRequest], JobReport], argv: Sequence[str] | None = None) -> int:
    """Run the request in the file that the first argument names.

    :return: the exit code; the report says how it went.
    """
    from pyspark.sql import SparkSession

    (request_file,) = sys.argv[1:] if argv is None else argv
    request = JobRequest.from_json(Path(request_file).read_text())
    if request.owner_pid is not None:
        end_with_owner(request.owner_pid)
    started = time.monotonic()
    spark: SparkSession | None = None
    try:
        spark = SparkSession.builder.appName("kafka-to-kafka").getOrCreate()
        say(JobStarted(spark.sparkContext.applicationId, spark.sparkContext.uiWebUrl))
        report = job(spark, request)
    except Exception as error:  # noqa: BLE001 - whatever it was, the worker must learn of it
        report = _report_failure(request, error, spark, time.monotonic() - started)
    write_report(report, request.report_uri, spark)
    if spark is not None:
        spark.stop()
    return 0 if report.failure is None else 1


def _report_failure(request: JobRequest, error: Exception, spark: SparkSession | None, seconds: float) -> JobReport:
    # First the secrets go, then the text is shortened: a cut could leave half of one.
    text = redact(
        str(error) if isinstance(error, KafkaSparkError) else _full_text(error),
        (request.source_options, request.sink_options),
    )
    failure = (
        JobFailure(type(error).__name__, text) if isinstance(error, KafkaSparkError) else find_cause(text, request)
    )
    return JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=(),
        target_topics=(),
        application_id=spark.sparkContext.applicationId if spark else "",
        spark_version=spark.version if spark else "",
        seconds=seconds,
        failure=failure,
        ui_url=spark.sparkContext.uiWebUrl if spark else None,
    )


def _full_text(error: Exception) -> str:
    """The message with those of all its causes on the Java side, which PySpark's own text often leaves out."""
    text = str(error)
    # PySpark's name for the Throwable, and py4j's.
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        text += f"\nCaused by: {cause.toString()}"
        cause = cause.getCause()
    return text
