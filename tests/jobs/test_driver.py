"""The frame of every driver: its report, how it ends, and from where it imports PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.errors import JobFailedError
from airflow_provider_kafka_spark.core.spark.java_properties import format_properties
from airflow_provider_kafka_spark.core.spark.secret_references import by_reference
from airflow_provider_kafka_spark.core.wire.job_events import JobStarted, take_event
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.report_file import remove_file, write_file, write_report
from airflow_provider_kafka_spark.jobs.spark_application import import_from_folder
from tests.core.job_requests import job_request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

_SECRET = "hunter2-0123456789abcdef"
_JAAS = f'PlainLoginModule required username="copier" password="{_SECRET}";'
_URL = "https://id.example.com/token"
_KEY = "5ea1" * 16


@pytest.fixture
def request_of_job(tmp_path: Path) -> JobRequest:
    """As a worker makes it: with the secrets in a file beside it."""
    file = tmp_path / "logins.properties"
    source = {"kafka.sasl.jaas.config": _JAAS, "kafka.sasl.oauthbearer.token.endpoint.url": _URL}
    source_options, of_source = by_reference(source, str(file), "source")
    sink_options, of_sink = by_reference({"kafka.ssl.key.password": "correct horse"}, str(file), "sink")
    file.write_text(format_properties({**of_source, **of_sink}))
    return job_request(
        source_options=source_options,
        sink_options=sink_options,
        report_uri=str(tmp_path / "report.json"),
        event_token="70ce" * 8,
        report_key=_KEY,
    )


def report_of(request: JobRequest) -> JobReport:
    return JobReport.from_json(verified(Path(request.report_uri).read_text(), _KEY))


@pytest.mark.spark
def test_a_report_has_no_secret(spark: SparkSession, request_of_job: JobRequest, tmp_path: Path) -> None:
    """Not a part of one either, where a long message is cut; the request itself has only references, and the worker
    sees what is left too late. A failure that quotes the request has neither its token nor its key.
    """
    secrets = " ".join([_SECRET, "correct horse", _JAAS.replace('"', "'"), _URL] * 20)
    (tmp_path / "request.json").write_text(request_of_job.to_json())

    def job(running: SparkApplication, request: JobRequest) -> JobReport:
        jvm: Any = running.sparkContext._jvm
        jvm.java.lang.Integer.parseInt(f"{request.event_token} {request.report_key} {secrets}")
        raise AssertionError("It is a number.")

    assert run_job(job, [str(tmp_path / "request.json")], spark) == 1

    report = report_of(request_of_job)
    assert report.failure is not None
    shown = f"*** *** *** *** PlainLoginModule required username='copier' password='***'; {_URL} ***"
    assert f'For input string: "{shown}' in report.failure.message
    text = (tmp_path / "report.json").read_text()
    assert not [part for part in (_SECRET[:5], "correct", "horse") if part in text]


_DRIVER = """
import os, signal, sys
from airflow_provider_kafka_spark.jobs.driver import run_job

def job(spark, request):
    assert (spark.sparkContext.appName, os.path.exists(request.proceed_file)) == ("the-name", True)
    assert spark.session.sql("select 5").first()[0] == 5
    assert not {"numpy", "pandas"} & set(sys.modules)
    import numpy
    assert numpy.ones(2).sum() == 2
    jvm = spark.sparkContext._gateway.proc
    os.kill(jvm.pid, signal.SIGKILL)
    jvm.wait()
    spark.session.range(1).count()

sys.exit(run_job(job))
"""


@pytest.mark.spark
def test_a_job_whose_jvm_dies_leaves_its_report(request_of_job: JobRequest, tmp_path: Path) -> None:
    """With what was known of Spark before. The job runs when the worker has recorded its application, which has the
    name that it was submitted with. PySpark would import NumPy and pandas for its own start and for the first call to
    the JVM, which takes a third of a second; code that needs them imports them as ever.
    """
    proceed = tmp_path / "proceed"
    request = replace(request_of_job, owner_pid=os.getpid(), proceed_file=str(proceed))
    (tmp_path / "request.json").write_text(request.to_json())
    options = "--master local[1] --name the-name --conf spark.ui.enabled=false --conf spark.log.level=ERROR"
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-c", _DRIVER, "request.json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as driver:
        output = []
        for text in driver.stdout or ():
            output.append(text)
            if isinstance(take_event(text, request.event_token)[1], JobStarted):
                proceed.touch()
    assert driver.returncode == 1, "".join(output)

    report = report_of(request)
    assert report.failure is not None
    assert report.failure.code == JobFailedError.code
    assert "The driver's JVM ended while the job ran" in report.failure.message
    assert report.application_id.startswith("local-")
    assert report.spark_version


_HOME = Path(pyspark.__file__).parent


def path_after(monkeypatch: pytest.MonkeyPatch, home: Path) -> tuple[str, list[str]]:
    """The zip of a Spark, and where modules are imported from, as ``spark-submit`` begins and after our change."""
    archive = str(home / "python" / "lib" / "pyspark.zip")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(sys, "path", [archive, *sys.path])
    import_from_folder()
    return archive, sys.path


def test_pyspark_is_imported_from_the_folder_of_the_spark_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the zip beside it, Python compiles every module at every start."""
    archive, path = path_after(monkeypatch, _HOME)
    assert archive not in path


def test_another_spark_keeps_its_own_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The PySpark of this environment may be of another version."""
    archive, path = path_after(monkeypatch, tmp_path)
    assert path[0] == archive


_REPORT = JobReport("run", "digest", (), (), "application", "4.0.0", 1.0)


def test_a_job_whose_worker_is_gone_does_not_make_its_folder_again(tmp_path: Path) -> None:
    """Another worker has removed it. What is made again is nobody's, and has no private mode."""
    folder = tmp_path / "airflow-kafka-spark-1-2-x"

    with pytest.raises(FileNotFoundError):
        write_report(_REPORT, str(folder / "report.json"), _KEY, None, folder)

    assert list(tmp_path.iterdir()) == []


def test_without_spark_a_local_disk_still_gets_it(tmp_path: Path) -> None:
    """The worker must learn why Spark did not start. A folder that the author named is made."""
    file = tmp_path / "reports" / "of-today" / "report.json"
    for place in (str(file), file.as_uri()):
        write_report(_REPORT, place, _KEY, None, tmp_path / "job")

        assert JobReport.from_json(verified(file.read_text(), _KEY)) == _REPORT
        assert file.stat().st_mode & 0o777 == 0o600
        file.unlink()
    with pytest.raises(RuntimeError, match="No Spark"):
        write_report(_REPORT, "s3a://bucket/report.json", _KEY, None, tmp_path / "job")


@pytest.mark.spark
def test_a_file_beside_it_is_replaced_and_removed(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "report.json.progress"
    for text in ("1", "2"):
        write_file(text, file.as_uri(), spark)
        assert file.read_text() == text

    for _ in range(2):
        remove_file(file.as_uri(), spark)
    assert list(tmp_path.iterdir()) == []
