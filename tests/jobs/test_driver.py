from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.handoff.java_properties import format_properties
from airflow_provider_kafka_spark.core.handoff.job_events import JobStarted, take_event
from airflow_provider_kafka_spark.core.handoff.report_mac import verified
from airflow_provider_kafka_spark.core.handoff.secret_references import by_reference
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform

pytestmark = pytest.mark.spark

_SECRET = "hunter2-0123456789abcdef"
_JAAS = f'PlainLoginModule required username="copier" password="{_SECRET}";'
_URL = "https://id.example.com/token"
_KEY = "5ea1" * 16
_REQUEST = JobRequest(
    run_id="0123456789abcdef",
    instance="instance",
    submission=1,
    plan_digest="digest",
    ranges=(),
    spans=(),
    transform=Transform(topic="copy"),
    source_options={
        "kafka.bootstrap.servers": "b:9092",
        "kafka.sasl.jaas.config": _JAAS,
        "kafka.sasl.oauthbearer.token.endpoint.url": _URL,
    },
    sink_options={"kafka.bootstrap.servers": "b:9092", "kafka.ssl.key.password": "correct horse"},
    report_uri="",
    event_token="70ce" * 8,
    report_key=_KEY,
)

RunJob = Callable[[str], JobReport]


@pytest.fixture
def run_job(tmp_path: Path) -> RunJob:
    """Run a driver whose job is a line of Python, and fails; its request is written as a worker writes it: the secrets
    in a file beside it.
    """
    source, of_source = by_reference(_REQUEST.source_options, "logins.properties", "source")
    sink, of_sink = by_reference(_REQUEST.sink_options, "logins.properties", "sink")
    (tmp_path / "logins.properties").write_text(format_properties({**of_source, **of_sink}))
    report = tmp_path / "report.json"
    proceed = tmp_path / "proceed"
    request = replace(
        _REQUEST,
        source_options=source,
        sink_options=sink,
        report_uri=str(report),
        owner_pid=os.getpid(),
        proceed_file=str(proceed),
    )
    (tmp_path / "request.json").write_text(request.to_json())

    def run(line: str) -> JobReport:
        script = (
            "import os, signal, sys\n"
            "from airflow_provider_kafka_spark.jobs.driver import run_job\n"
            "def job(spark, request):\n"
            "    jvm = spark.sparkContext._jvm\n"
            f"    {line}\n"
            "sys.exit(run_job(job))\n"
        )
        spark = (
            "--master local[1] --name the-name --conf spark.ui.enabled=false --conf spark.log.level=ERROR pyspark-shell"
        )
        environment = {
            **os.environ,
            "PYSPARK_SUBMIT_ARGS": spark,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        with subprocess.Popen(
            [sys.executable, "-c", script, "request.json"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as driver:
            output = []
            for text in driver.stdout or ():
                output.append(text)
                if isinstance(take_event(text, request.event_token)[1], JobStarted):
                    proceed.touch()
        assert report.exists(), "".join(output)
        assert driver.returncode == 1
        return JobReport.from_json(verified(report.read_text(), _KEY))

    return run


def test_a_report_has_no_secret(run_job: RunJob, tmp_path: Path) -> None:
    """Not a part of one either, where a long message is cut; the request itself has only references, and the worker
    sees what is left too late. The job runs when the worker has recorded its application, which has the name that it
    was submitted with; a failure that quotes the request has neither its token nor its key.
    """
    secrets = " ".join([_SECRET, "correct horse", _JAAS.replace('"', "'"), _URL] * 20)
    facts = "spark.sparkContext.appName, os.path.exists(request.proceed_file), request.event_token, request.report_key"

    report = run_job(f"jvm.java.lang.Integer.parseInt(' '.join(map(str, ({facts}, {secrets!r}))))")

    assert report.failure is not None
    shown = f"the-name True *** *** *** *** PlainLoginModule required username='copier' password='***'; {_URL} ***"
    assert f'For input string: "{shown}' in report.failure.message
    text = (tmp_path / "report.json").read_text()
    assert not [part for part in (_SECRET[:5], "correct", "horse") if part in text]


def test_a_job_whose_jvm_dies_leaves_its_report(run_job: RunJob) -> None:
    """With what was known of Spark before."""
    report = run_job(
        "os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL); spark.sparkContext._gateway.proc.wait(); "
        "spark.session.range(1).count()"
    )

    assert report.failure is not None
    assert report.failure.error == "JobFailedError"
    assert "The driver's JVM ended while the job ran" in report.failure.message
    assert report.application_id.startswith("local-")
    assert report.spark_version
