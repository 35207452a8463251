"""The frame of every job: read the request, start Spark, run, and leave a report whatever happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.secrets import redact, without_token_answer
from airflow_provider_kafka_spark.core.shown_text import shown_lines
from airflow_provider_kafka_spark.core.spark.java_properties import parse_properties
from airflow_provider_kafka_spark.core.spark.secret_references import dereferenced
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.job_events import JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.task_failures import failure_in
from airflow_provider_kafka_spark.jobs.progress import emit, remove_progress
from airflow_provider_kafka_spark.jobs.report_file import write_report
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner, wait_for_owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of an error of ours, which may quote an expression, names of topics, or an error of Spark.
_MAX_LINES, _LONGEST_LINE = 40, 2_000


@dataclass(frozen=True, slots=True)
class _Application:
    """The facts about Spark in a report, read at the start, since the JVM itself may fail later."""

    id: str = ""
    spark_version: str = ""
    ui_url: str | None = None


def run_job(
    job: Callable[[SparkApplication, Any], JobReport],
    argv: Sequence[str] | None = None,
    running: SparkSession | None = None,
) -> int:
    """Run the request in the file that the first argument names.

    :param job: that takes a request of this kind.
    :param running: a session to run it in, which goes on; otherwise one is started, and stopped.
    :return: the exit code; the report says how it went.
    """
    (request_file,) = sys.argv[1:] if argv is None else argv
    request = JobRequest.from_json(Path(request_file).read_text())
    if request.owner_pid is not None:
        end_with_owner(request.owner_pid)
    logins = [dereferenced(options, _properties_of) for options in (request.source_options, request.sink_options)]
    started = time.monotonic()
    spark: SparkApplication | None = None
    application = _Application()
    try:
        spark = SparkApplication(running)
        context = spark.sparkContext
        application = _Application(context.applicationId, context.version, context.uiWebUrl)
        emit(JobStarted(application.id, application.ui_url), request.event_token)
        if request.proceed_file is not None:
            wait_for_owner(Path(request.proceed_file))
        report = job(spark, request)
    except Exception as error:  # noqa: BLE001 - whatever it was, the worker must learn of it
        report = _report_failure(request, error, logins, application, time.monotonic() - started)
    write_report(report, request.report_uri, request.report_key, spark, Path(request_file).parent)
    remove_progress(request, spark)
    if spark is not None:
        # The report is there; a JVM that is gone need not be stopped.
        with suppress(Exception):
            spark.stop()
    return 0 if report.failure is None else 1


def _properties_of(path: str) -> Mapping[str, str]:
    """What a file has that options refer to. One that cannot be read here cannot be read by Kafka's clients either,
    which then have no secret to tell.
    """
    try:
        return parse_properties(Path(path).read_text(errors="replace"))
    except OSError:
        return {}


def _report_failure(
    request: JobRequest,
    error: Exception,
    logins: Iterable[Mapping[str, str]],
    application: _Application,
    seconds: float,
) -> JobReport:
    # First the secrets go, then the text is shortened: a cut could leave half of one.
    text = redact(
        without_token_answer(_text(error)),
        [*logins, {"event secret": request.event_token, "report secret": request.report_key}],
    )
    failure = (
        Fault(error.code, shown_lines(text, _MAX_LINES, _LONGEST_LINE))
        if isinstance(error, KafkaSparkError)
        else Fault.of(failure_in(text, request))
    )
    return JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=(),
        target_topics=(),
        application_id=application.id,
        spark_version=application.spark_version,
        seconds=seconds,
        failure=failure,
        ui_url=application.ui_url,
    )


def _text(error: Exception) -> str:
    """The message with those of all its causes on the Java side, which PySpark's own text often leaves out."""
    if isinstance(error, KafkaSparkError):
        return str(error)
    text = type(error).__name__
    # A JVM that has ended answers nothing, not even the message.
    with suppress(Exception):
        text = str(error)
        # PySpark's name for the Throwable, and py4j's.
        cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while cause is not None:
            text += f"\nCaused by: {cause.toString()}"
            cause = cause.getCause()
    return text
