"""Jobs in a Spark of the tests' own process, in place of ``spark-submit``: the driver's own frame runs each, without
the start of a JVM. All else is as it is in production.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_kafka_spark.core.spark.file_names import REPORT
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted, take_event
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.jobs import audit, available_now, batch, expression_check
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.submission import spark_submission
from airflow_provider_kafka_spark.submission.job_files import write_request
from airflow_provider_kafka_spark.submission.local_driver import LocalDriver
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

OnEvent = Callable[[JobEvent], None]

_JOBS: Mapping[str, Callable[[SparkApplication, JobRequest], JobReport]] = {
    "batch": batch.copy,
    "available_now": available_now.copy_stream,
    "audit": audit.audit,
}


@dataclass
class InProcessSpark:
    """What was submitted to this process."""

    spark: SparkSession
    requests: list[JobRequest] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    def run(self, job: str, request_file: Path, on_event: OnEvent = lambda _: None) -> int:
        """Run a job as its driver does.

        :param job: name of the module in ``jobs``.
        :return: the driver's exit code.
        """
        # The owner is this very process.
        request = replace(JobRequest.from_json(request_file.read_text()), owner_pid=None)
        request_file.write_text(request.to_json())
        self.requests.append(request)
        self.jobs.append(job)
        with redirect_stdout(_DriversOutput(sys.stdout, request.event_token, on_event)):
            return run_job(_JOBS[job], [str(request_file)], self.spark)

    def report(self, job: str, request: JobRequest) -> JobReport:
        """The report of a job that is submitted without an operator.

        :raises KafkaSparkError: the failure that it reports.
        """
        with temporary_folder() as folder:
            path = folder / REPORT
            self.run(job, write_request(folder, replace(request, report_uri=str(path))))
            report = JobReport.from_json(verified(path.read_text(), request.report_key))
        error = report.error((request.source_options, request.sink_options))
        if error is not None:
            raise error
        return report


@contextmanager
def jobs_in_process(spark: SparkSession) -> Iterator[InProcessSpark]:
    """Whatever operators submit inside ``with`` runs in this session."""
    found = InProcessSpark(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_submission, "SparkSubmission", partial(_Submission, found))
        patch.setattr(LocalDriver, "run", partialmethod(_compile, spark))
        yield found


@pytest.fixture
def in_process_spark(spark: SparkSession) -> Iterator[InProcessSpark]:
    """Operators of this test submit to the tests' own Spark."""
    with jobs_in_process(spark) as found:
        yield found


def _compile(driver: LocalDriver, spark: SparkSession, *_: object) -> tuple[None, str]:
    """What a plan asks of Spark."""
    assert driver.script == "expression_check"
    asked, answered = driver.arguments
    expression_check.answer(spark, Path(asked), Path(answered))
    return None, ""


class _Submission:
    """What a hook asks of ``spark-submit``, as far as it concerns a driver on this machine."""

    log_tail = ""
    pod_state = None
    fate = "was ordered to end"

    def __init__(self, target: InProcessSpark, *arguments: Any, application_args: list[str], **_: Any) -> None:
        self.application_id: str | None = None
        self._target = target
        _, _, self._on_event, _ = arguments
        (self._request_file,) = application_args

    def submit(self, application: str, **_: Any) -> None:
        if self._target.run(Path(application).stem, Path(self._request_file), self._hear):
            raise AirflowException("The driver's exit code is not 0")

    def on_kill(self) -> None:
        self._target.spark.sparkContext.cancelAllJobs()

    def end(self) -> None:
        pass

    def _hear(self, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            self.application_id = event.application_id
        self._on_event(event)


class _DriversOutput(io.TextIOBase):
    """The driver's standard output, which the worker reads."""

    def __init__(self, output: TextIO, token: str, on_event: OnEvent) -> None:
        self._output = output
        self._token = token
        self._on_event = on_event

    def write(self, text: str) -> int:
        _, event = take_event(text.strip(), self._token)
        if event is not None:
            self._on_event(event)
        return self._output.write(text)

    def flush(self) -> None:
        self._output.flush()
