"""Promises of ``python -m airflow_provider_kafka_spark.audit``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark import audit
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import jobs_in_process
from tests.test_coverage_command import Api
from tests.test_coverage_command import api as api

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def result_file(kafka: KafkaBroker, topic: TopicFactory, spark: SparkSession, tmp_path: Path) -> Path:
    """Has the result of a copy of five records."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"%d" % i, partition=0) for i in range(5)])
    operator = ReplayOffsetRangesOperator(task_id="copy", offset_ranges=[f"{source}:0:0:5"], target_topic=target)
    with jobs_in_process(spark):
        result = operator.execute(task_context())  # type: ignore[arg-type]
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result))
    return file


_COUNTS = ["once", "duplicated", "missing", "filtered", "unknown", "different"]


@pytest.mark.broker
@pytest.mark.spark
def test_what_it_finds(
    result_file: Path, spark: SparkSession, connection: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """All is there; a part is missing, and the standard output has the result and nothing else; a connection is unknown
    or leads nowhere.
    """
    connection("kafka_down", extra={"bootstrap.servers": "127.0.0.1:9"})
    file = str(result_file)
    with jobs_in_process(spark):
        assert audit.main([file]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["topic[partition]", "from", "until", *_COUNTS]
        assert lines[2].split()[1:] == ["0", "5", "5", "0", "0", "0", "0", "0"]
        assert lines[-1] == "5 once, 0 duplicated, 0 missing, 0 filtered, 0 unknown, 0 different: complete."

        # The target has three of the records only.
        copied = json.loads(result_file.read_text())
        copied["target_ranges"][0]["until_offset"] = 3
        result_file.write_text(json.dumps(copied))
        assert audit.main([file, "--json", "--only-where-written", "--target-conn-id", "kafka_default"]) == 1
        result = json.loads(capsys.readouterr().out)
        assert (result["once"], result["missing"]) == (3, 2)
        assert [(r["from_offset"], r["until_offset"]) for r in result["missing_ranges"]] == [(3, 5)]
        assert audit.main([file, "--only-where-written"]) == 1
        assert "Missing: " in capsys.readouterr().out

        assert audit.main([file, "--source-conn-id", "nobody"]) == 2
        assert audit.main([file, "--source-conn-id", "kafka_down", "--kafka-timeout", "1"]) == 3
        assert audit.main([file, "--kafka-timeout", "0"]) == 2
        assert "BrokerUnavailableError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "reading .* failed"),
        ("{", "reading .* failed"),
        ("7", "must be an object"),
        ('{"version": 1, "state": "planned"}', "plan_only=True"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str) -> None:
    file = tmp_path / "result.json"
    if content is not None:
        file.write_text(content)

    assert audit.main([str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(says, captured.err)


def test_the_result_of_a_run_is_found_by_airflows_api(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """The audit is that of its file. A run without a result is named."""
    path = "/api/v2/dags/hourly/dagRuns/a%2Fb%20c/taskInstances/{}/xcomEntries/return_value"
    planned = {"version": 1, "state": "planned"}
    api.results = {path.format(f"copy-{n}"): value for n, value in enumerate([planned, json.dumps(planned), "s3://x"])}

    for number, said in enumerate(["plan_only=True", "plan_only=True", "it has none of hourly / a/b c / copy-2"]):
        assert audit.main(["--run", "hourly", "a/b c", f"copy-{number}"]) == 2
        assert said in capsys.readouterr().err
    assert audit.main(["--run", "hourly", "other", "copy"]) == 2
    assert "it has none of hourly / other / copy" in capsys.readouterr().err
    assert audit.main(["--run", "hourly", "..", "copy"]) == 2
    assert audit.main([]) == 2
    assert "RESULT.json or --run must name" in capsys.readouterr().err


def run(*arguments: str, **environment: str) -> Any:
    command = [sys.executable, "-m", "airflow_provider_kafka_spark.audit", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **environment}
    )


@pytest.mark.process
def test_help() -> None:
    """It says what each exit code means, and needs no Airflow for it."""
    done = run("--help")

    assert done.returncode == 0
    assert "Exit code: 0 if nothing is missing" in " ".join(done.stdout.split())
    assert run().returncode == 2


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.spark
def test_as_a_process_of_its_own(result_file: Path) -> None:
    """With its own Spark, by ``spark-submit``."""
    done = run(str(result_file), "--json")

    assert (done.returncode, json.loads(done.stdout)["once"]) == (0, 5), done.stderr
    assert "100%" in done.stderr
