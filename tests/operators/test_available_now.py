"""Promises of the stream operator, on a real broker and a real Spark.

Most tests hand the operator's request to the job in a Spark of this process, in place of ``spark-submit``: all else is as it is in production. Those that need the submission say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, task_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[JobRequest]:
    """The job runs in this process; what it was asked is recorded."""
    from airflow_provider_kafka_spark.jobs.available_now import catch_up

    recorded: list[JobRequest] = []

    def run(self: SparkJobHook, request: JobRequest, job: str, on_event: object) -> JobReport:
        assert job == "available_now"
        sent = JobRequest.from_json(request.to_json())
        recorded.append(sent)
        return JobReport.from_json(catch_up(spark, sent).to_json())

    monkeypatch.setattr(SparkJobHook, "run", run)
    return recorded


Stream = Callable[..., dict[str, Any]]


@pytest.fixture
def stream(kafka: KafkaBroker, requests: list[JobRequest], tmp_path: Path) -> Stream:
    """One run of the operator: ``stream(topics=["orders"], target_topic="copy")``."""

    def run(run_id: str = "run", **parameters: Any) -> dict[str, Any]:
        parameters.setdefault("checkpoint_location", str(tmp_path / "checkpoint"))
        parameters.setdefault("starting_offsets", "earliest")
        operator = KafkaToKafkaAvailableNowOperator(task_id="task", **parameters)
        result = operator.execute(task_context(ti=TaskInstance(run_id=run_id)))  # type: ignore[arg-type]
        assert json.loads(json.dumps(result)) == result
        return result

    return run


def values(kafka: KafkaBroker, topic: str) -> list[bytes | None]:
    return sorted(record.value for record in kafka.consume(topic))  # type: ignore[type-var]


def numbered(first: int, last: int, partitions: int = 1) -> list[Record]:
    return [Record(b"k%d" % i, b"v%05d" % i, (("h", b"1"),), partition=i % partitions) for i in range(first, last)]


def expected(first: int, last: int) -> list[bytes]:
    return [b"v%05d" % i for i in range(first, last)]


def test_three_runs_with_production_in_between(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, requests: list[JobRequest]
) -> None:
    """Each run takes what came since the one before, and one with nothing to do starts no Spark."""
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    parameters = {"topics": [source], "target_topic": target}
    kafka.produce(source, numbered(0, 100, 2))
    first = stream(**parameters)
    kafka.produce(source, numbered(100, 150, 2))
    second = stream(**parameters)
    third = stream(**parameters)

    assert [r["records_written"] for r in (first, second, third)] == [100, 50, 0]
    assert [r["until_offset"] for r in second["ranges"]] == [75, 75]
    assert [r["from_offset"] for r in second["ranges"]] == [50, 50]
    assert values(kafka, target) == expected(0, 150)
    assert len(requests) == 2
    assert first["run_id"] == second["run_id"] == third["run_id"]
    assert third["records_behind"] == 0
