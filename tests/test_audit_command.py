"""Promises of ``python -m airflow_provider_kafka_spark.audit``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark import audit
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import jobs_in_process

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


@pytest.fixture
def copied(result_file: Path, spark: SparkSession) -> Iterator[Path]:
    """The same, and audits run in this process."""
    with jobs_in_process(spark):
        yield result_file


def lacking(file: Path) -> None:
    """The target has three of the records only."""
    result = json.loads(file.read_text())
    result["target_ranges"][0]["until_offset"] = 3
    file.write_text(json.dumps(result))


@pytest.mark.broker
@pytest.mark.spark
def test_all_is_there(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([str(copied)]) == 0
    printed = capsys.readouterr().out

    lines = printed.splitlines()
    assert lines[0].split() == ["topic[partition]", "from", "until", *audit_counts()]
    assert lines[2].split()[1:] == ["0", "5", "5", "0", "0", "0", "0", "0"]
    assert lines[-1] == "5 once, 0 doubled, 0 missing, 0 filtered, 0 unknown, 0 different: complete."


@pytest.mark.broker
@pytest.mark.spark
def test_something_is_missing(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The standard output has the result and nothing else."""
    lacking(copied)

    assert audit.main([str(copied), "--json", "--only-where-written", "--target-conn-id", "kafka_default"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["once"], result["missing"]) == (3, 2)
    assert [(r["from_offset"], r["until_offset"]) for r in result["missing_ranges"]] == [(3, 5)]
    assert audit.main([str(copied), "--only-where-written"]) == 1
    assert "Missing: " in capsys.readouterr().out


def audit_counts() -> list[str]:
    return ["once", "doubled", "missing", "filtered", "unknown", "different"]


@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        pytest.param(None, [], "reading .* failed", id="no-file"),
        pytest.param("{", [], "reading .* failed", id="no-json"),
        pytest.param("7", [], "must be an object", id="no-result"),
        pytest.param('{"version": 1, "state": "planned"}', [], "plan_only=True", id="plan"),
    ],
)
def test_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, arguments: list[str], says: str
) -> None:
    file = tmp_path / "result.json"
    if content is not None:
        file.write_text(content)

    assert audit.main([str(file), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(says, captured.err)


@pytest.mark.broker
@pytest.mark.spark
def test_a_connection_that_is_unknown_or_leads_nowhere(
    copied: Path, connection: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    connection("kafka_down", extra={"bootstrap.servers": "127.0.0.1:9"})

    assert audit.main([str(copied), "--source-conn-id", "nobody"]) == 2
    assert audit.main([str(copied), "--source-conn-id", "kafka_down", "--kafka-timeout", "2"]) == 3
    assert audit.main([str(copied), "--kafka-timeout", "0"]) == 2
    assert "BrokerUnavailableError" in capsys.readouterr().err


def run(*arguments: str, **environment: str) -> Any:
    command = [sys.executable, "-m", "airflow_provider_kafka_spark.audit", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **environment}
    )


def test_help() -> None:
    """It says what each exit code means, and needs no Airflow for it."""
    done = run("--help")

    assert done.returncode == 0
    assert "Exit code: 0 if nothing is missing" in " ".join(done.stdout.split())
    assert run().returncode == 2


@pytest.mark.broker
@pytest.mark.spark
def test_as_a_process_of_its_own(result_file: Path) -> None:
    """With its own Spark, by ``spark-submit``."""
    done = run(str(result_file), "--json")

    assert (done.returncode, json.loads(done.stdout)["once"]) == (0, 5), done.stderr
    assert "100%" in done.stderr
