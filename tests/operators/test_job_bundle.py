"""Promises of a job that another operator submits: the same plan, the same proof, nothing twice, and no secret outside
of ``secrets``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_kafka_spark.core.errors import (
    DeliveryError,
    ExpressionError,
    InvalidInputError,
    JobFolderError,
    JobReportForgedError,
    JobReportMissingError,
    OptionError,
    ProtocolError,
    ReportLocationError,
    TargetRecreatedError,
)
from airflow_provider_kafka_spark.core.spark.file_names import CODE, LOGINS, REQUEST
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest, RangeReport
from airflow_provider_kafka_spark.core.wire.report_mac import sign
from airflow_provider_kafka_spark.operators.job_bundle import JobBundle
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import Batch, numbered, once

pytestmark = pytest.mark.broker

PASSWORD = "the-right-password"
PLACE = {"spark_version": "4.0.0", "scala_version": "2.13"}


@dataclass
class Planner:
    """A task that makes bundles, and its tries. The report is left beside the files."""

    kafka: KafkaBroker
    source: str
    target: str
    home: Path
    store: TaskStateStore = field(default_factory=TaskStateStore)

    @property
    def folder(self) -> str:
        return str(self.home / "job")

    def bundle(self, number: int = 1, *, clear_number: int = 0, **parameters: Any) -> JobBundle:
        place = {**PLACE, "folder": self.folder, "report_location": str(self.home / "reports")}
        place |= {name: parameters.pop(name) for name in tuple(place) if name in parameters}
        given = {"topics": [self.source], "target_topic": self.target, **parameters}
        ti = Try(try_number=number, max_tries=3 + clear_number)
        context: Any = task_context(self.store, clear_number=clear_number, ti=ti)
        bundle = Batch(task_id="copy", **given).bundle(context, **place)
        bundle.write(self.folder)
        return bundle

    def read(self, bundle: JobBundle) -> JobBundle:
        """The bundle as another task has it."""
        return JobBundle.from_json(json.loads(json.dumps(bundle.to_json())), self.folder)

    def values(self) -> Counter[bytes]:
        return Counter(record.value or b"" for record in self.kafka.consume(self.target))


def run(spark: InProcessSpark, bundle: JobBundle) -> int:
    """As Spark runs the script, with what the other operator was told."""
    (request_file,) = bundle.arguments
    return spark.run(Path(bundle.script).stem, Path(request_file))


@pytest.fixture
def planner(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> Planner:
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka.produce(source, numbered(0, 10))
    return Planner(kafka, source, target, tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_another_bundle_of_the_task_writes_only_what_is_missing(
    planner: Planner, in_process_spark: InProcessSpark
) -> None:
    """That of a retry, whose first try was not proved, and that of a clear."""
    first = planner.bundle()
    run(in_process_spark, first)
    for bundle in (lambda: planner.bundle(2), lambda: planner.bundle(clear_number=1)):
        second = bundle()
        run(in_process_spark, second)
        result = second.prove(second.read_report())

        assert planner.values() == once(0, 10)
        assert (result["records_written"], result["delivered_before"]) == (10, 10)
        assert second.planned.run_id == first.planned.run_id
        assert second.report_uri != first.report_uri


def test_nothing_to_copy_is_no_job(planner: Planner) -> None:
    for on_empty in ("succeed", "skip"):
        with pytest.raises(AirflowSkipException, match="No records"):
            planner.bundle(starting_offsets={planner.source: {"0": 5, "1": 5}}, on_empty=on_empty)

    assert has_submitted_nothing(planner.store)


@pytest.mark.spark
def test_secrets_are_in_secrets_only(
    secured_broker: KafkaBroker, connection: Callable[..., None], tmp_path: Path, in_process_spark: InProcessSpark
) -> None:
    """And the job logs in with them."""
    connection("kafka_default", extra=secured_broker.sasl_client_config("copier", "SCRAM-SHA-512"))
    target = secured_broker.create_topic(f"secrets-{tmp_path.name}", 1)
    bundle = Batch(task_id="copy", topics=["orders"], target_topic=target).bundle(
        task_context(),  # type: ignore[arg-type]
        folder=str(tmp_path / "job"),
        report_location=str(tmp_path / "reports"),
        spark_version="3.5.7",
        scala_version="2.12",
    )
    request = JobRequest.from_json(bundle.secrets[REQUEST].decode())

    public = [repr(bundle), json.dumps(bundle.to_json()), repr(bundle.properties), *map(str, bundle.files.values())]
    for secret in (PASSWORD, request.report_key):
        assert len(secret) > 10
        assert not any(secret in text for text in public)
    assert PASSWORD.encode() in bundle.secrets[LOGINS]
    assert PASSWORD.encode() not in bundle.secrets[REQUEST]
    assert set(bundle.files) == {"batch.py", CODE}
    assert bundle.packages[0] == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"
    bundle.write(str(tmp_path / "job"))
    run(in_process_spark, bundle)
    assert bundle.prove(bundle.read_report())["records_written"] == 1


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_files_are_private_and_can_be_removed(planner: Planner, scheme: str) -> None:
    first, second = planner.bundle(), planner.bundle(2)
    second.write(f"{scheme}{planner.folder}")
    written = {path.name: path.stat().st_mode & 0o777 for path in Path(planner.folder).iterdir()}

    assert written == dict.fromkeys(["batch.py", CODE, REQUEST], 0o600)
    assert Path(planner.folder, REQUEST).read_bytes() == second.secrets[REQUEST] != first.secrets[REQUEST]
    Path(planner.folder).chmod(0o777)
    with pytest.raises(JobFolderError):
        # What is there may be another's.
        second.remove(f"{scheme}{planner.folder}")
    Path(planner.folder).chmod(0o700)
    planner.read(second).remove(f"{scheme}{planner.folder}")
    assert list(Path(planner.folder).iterdir()) == []


def test_files_may_be_sent_by_spark_or_be_in_pods(planner: Planner) -> None:
    bundle = planner.bundle(folder="s3://bucket/job/", report_location="s3a://bucket/reports")
    request = JobRequest.from_json(bundle.secrets[REQUEST].decode())
    in_pods = planner.bundle(folder="local:///etc/kafka-spark")

    assert (bundle.script, bundle.py_files) == ("s3://bucket/job/batch.py", (f"s3://bucket/job/{CODE}",))
    assert (bundle.attached, bundle.arguments) == ((f"s3://bucket/job/{REQUEST}",), (REQUEST,))
    assert bundle.report_uri == request.report_uri
    assert bundle.report_uri.startswith(f"s3a://bucket/reports/{request.run_id}-")
    assert in_pods.script == "local:///etc/kafka-spark/batch.py"
    assert in_pods.py_files == (f"local:///etc/kafka-spark/{CODE}",)
    assert (in_pods.arguments, in_pods.attached) == ((f"/etc/kafka-spark/{REQUEST}",), ())


def test_a_bundle_survives_json(planner: Planner) -> None:
    bundle = planner.bundle(columns={"value": "upper(string(value))"}, keys=["a", None], pause_while_lag=None)
    read = planner.read(bundle)

    assert replace(read, files=bundle.files, secrets=bundle.secrets) == bundle
    with pytest.raises(ProtocolError, match="version"):
        JobBundle.from_json({**bundle.to_json(), "version": 0}, planner.folder)
    for change in ({"script": "/other/batch.py"}, {"properties": {}}, {"seal": None}):
        with pytest.raises(InvalidInputError, match="was changed"):
            JobBundle.from_json({**bundle.to_json(), **change}, planner.folder)
    with pytest.raises(InvalidInputError, match=REQUEST):
        JobBundle.from_json(bundle.to_json(), str(planner.home))
    Path(planner.folder, REQUEST).write_text(bundle.secrets[REQUEST].decode().replace("report_key", "other_key"))
    with pytest.raises(InvalidInputError, match="it has another one"):
        planner.read(bundle)


def signed(bundle: JobBundle, **changes: Any) -> str:
    """A report of the bundle's job, of which everything was delivered but for the changes."""
    request = JobRequest.from_json(bundle.secrets[REQUEST].decode())
    report = JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=tuple(RangeReport(r, r.size, r.size) for r in request.ranges),
        target_topics=tuple(bundle.planned.plan.target_topics),
        application_id="local-1",
        spark_version="4.0.0",
        seconds=1.0,
    )
    return sign(replace(report, **changes).to_json(), request.report_key)


def test_a_report_is_judged_in_another_task(planner: Planner) -> None:
    bundle = planner.read(planner.bundle())
    ranges = bundle.planned.ranges
    short = tuple(RangeReport(r, r.size, r.size - 1) for r in ranges)
    failure = Fault.of(ExpressionError("no_such_column"))

    result = bundle.prove(signed(bundle))
    assert (result["records_read"], result["records_written"]) == (10, 10)
    assert (result["run_id"], result["application_id"]) == (bundle.planned.run_id, "local-1")
    assert result["evidence"]["transform"]["topic"] == planner.target
    for changes, error in (
        ({"ranges": short}, DeliveryError),
        ({"ranges": short[:1]}, DeliveryError),
        ({"plan_digest": "another"}, DeliveryError),
        ({"run_id": "another"}, DeliveryError),
        ({"failure": failure}, ExpressionError),
        ({"target_ids": {planner.target: "another"}}, TargetRecreatedError),
    ):
        with pytest.raises(error):
            bundle.prove(signed(bundle, **changes))
    report, other = signed(bundle), planner.bundle(2)
    for altered in (report.replace("local-1", "local-2"), report.splitlines()[0], ""):
        with pytest.raises(JobReportForgedError):
            bundle.prove(altered)
    with pytest.raises(JobReportForgedError):
        other.prove(report)
    assert other.read_report() is None
    with pytest.raises(JobReportMissingError, match="logs of its driver"):
        other.prove(None)


def test_the_authors_properties_count(planner: Planner) -> None:
    bundle = planner.bundle(conf={"spark.executor.cores": 2, "spark.log.level": "INFO"})

    expected = {"spark.executor.cores": "2", "spark.log.level": "INFO", "spark.speculation": "false"}
    assert {name: bundle.properties[name] for name in expected} == expected
    assert "spark.redaction.regex" in bundle.properties


def test_what_no_bundle_can_be_made_of(planner: Planner) -> None:
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"delivery": "at_least_once"}, OptionError, "exactly_once"),
        ({"use_delegation_token": True}, OptionError, "renew"),
        ({"use_delegation_token": "spark"}, OptionError, "renew"),
        ({"on_rerun": "copy_again"}, OptionError, "missing_only"),
        ({"plan_only": True}, OptionError, "plan_only"),
        ({"conf": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}}, OptionError, "fs.s3a.secret.key"),
        ({"conf": {"spark.speculation": "true"}}, OptionError, "spark.speculation"),
        *(({"folder": folder}, OptionError, "absolute path") for folder in ("job", "/job:1", "/a folder", None)),
        ({"folder": "s3://user:s3cr3t@bucket/job"}, OptionError, "password"),
        ({"report_location": None}, ReportLocationError, "report_location"),
        ({"report_location": "reports"}, ReportLocationError, "report_location"),
        ({"report_location": "s3a://user:s3cr3t@bucket"}, ReportLocationError, "password"),
        ({"spark_version": "4"}, OptionError, "spark_version"),
        ({"scala_version": "2.13.1"}, OptionError, "scala_version"),
    ]
    for parameters, error, says in refused:
        with pytest.raises(AirflowFailException, match=f"^{error.__name__}: .*{says}") as raised:
            planner.bundle(**parameters)

        assert isinstance(raised.value.__context__, error)
        assert "s3cr3t" not in str(raised.value)
        assert has_submitted_nothing(planner.store)
        assert not Path(planner.folder).exists()


def test_folders_are_private_whatever_the_umask(planner: Planner) -> None:
    """And one that others may write gets no files: its name can be guessed from the run."""
    bundle, folder, opened = planner.bundle(), planner.home / "jobs" / "run", planner.home / "open"
    before = os.umask(0)
    try:
        bundle.write(str(folder))
        opened.mkdir()
    finally:
        os.umask(before)

    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    with pytest.raises(JobFolderError, match="writable by no other user"):
        bundle.write(str(opened))
    assert list(opened.iterdir()) == []


def test_a_folder_that_cannot_be_written(planner: Planner) -> None:
    bundle = planner.bundle()
    file = planner.home / "file"
    file.write_text("")

    with pytest.raises(JobFolderError, match="must take the files"):
        bundle.write(str(file))
