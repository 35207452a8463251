"""A driver that is a program of the test, so that what a worker makes of its output and report needs no Spark."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.toolchain.settings import CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

#: ``request`` and ``folder`` are the job's; ``emit`` prints an event as a driver does, and ``leave`` writes a text
#: where the report belongs.
DRIVER = """\
#!{python}
import pathlib, sys, time
sys.path.insert(0, {root!r})
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.job_events import JobProgress, JobStarted, format_event
from airflow_provider_kafka_spark.core.wire.report_mac import sign
in_folder = next(word for word in sys.argv if word.startswith("/") and "/airflow-kafka-spark-" in word)
folder = pathlib.Path(in_folder.split(",")[0]).parent
request = JobRequest.from_json((folder / "request.json").read_text())
def emit(event, token=request.event_token):
    print(format_event(event, token), flush=True)
def report():
    return JobReport(request.run_id, request.plan_digest, (), (), "local-1", "4.0.0", 1.0).to_json()
def leave(text):
    pathlib.Path(request.report_uri.removeprefix("file://")).write_bytes(text.encode("latin-1"))
{body}
"""

Driver = Callable[[str], None]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, connection: Callable[..., None]) -> Driver:
    """Make these lines of Python what ``spark-submit`` runs; ``spark_default`` leads to a local master."""
    connection("spark_default", conn_type="spark", host="local[2]")
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "jars").symlink_to(find_spark_home().jars)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv(CLASS_ARCHIVE.variable, "False")

    def write(body: str) -> None:
        root = str(Path(airflow_provider_kafka_spark.__file__).parents[1])
        submit = home / "bin" / "spark-submit"
        submit.write_text(DRIVER.format(python=sys.executable, root=root, body=textwrap.dedent(body)))
        submit.chmod(0o755)

    return write
