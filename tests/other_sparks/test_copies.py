"""Copies on other Sparks than that of the tests, as SPARK_HOME names them. A replay by SQL goes the whole way on each,
and batches on the one with another Kafka client; the rest is of the long ring.
"""

from __future__ import annotations

import os

import pytest

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.services.other_spark import OTHER_SPARKS, spark_home_of

pytestmark = [pytest.mark.broker, pytest.mark.spark]


OLDEST, NEWEST = OTHER_SPARKS


@pytest.fixture(autouse=True, params=OTHER_SPARKS)
def spark_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    version: str = request.param
    monkeypatch.setenv("SPARK_HOME", str(spark_home_of(version)))
    return version


@pytest.mark.parametrize(
    ("delivery", "sql"),
    [
        pytest.param("exactly_once", True, id="sql"),
        pytest.param("exactly_once", False, id="records", marks=pytest.mark.long),
        pytest.param("at_least_once", True, id="sql-at-least-once", marks=pytest.mark.long),
        pytest.param("at_least_once", False, id="records-at-least-once", marks=pytest.mark.long),
    ],
)
def test_a_replay(spark_version: str, kafka: KafkaBroker, topic: TopicFactory, delivery: str, *, sql: bool) -> None:
    source, target = topic(2, suffix="source"), topic(suffix="target")
    headers = [("h", b"1")]
    kafka.produce(source, [Record(b"k", b"%d" % i, partition=i % 2, headers=headers) for i in range(100)])
    operator = ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=[f"{source}:0:10:20", f"{source}:1:0:5"],
        target_topic=target,
        delivery=delivery,
        where="offset >= 3" if sql else None,
        columns={"value": "concat('1', string(value))"} if sql else {},
    )
    result = operator.execute(task_context())  # type: ignore[arg-type]

    assert result["spark_version"] == spark_version
    assert result["warnings"] == []
    expected = [20 + 2 * i for i in range(10)] + [1 + 2 * i for i in range(3 if sql else 0, 5)]
    written = kafka.consume(target)
    assert sorted(int((r.value or b"")[sql:]) for r in written) == sorted(expected)
    assert all(r.headers[0] == ("h", b"1") for r in written)


@pytest.mark.parametrize("spark_version", [OLDEST, pytest.param(NEWEST, marks=pytest.mark.long)], indirect=True)
def test_batches_that_are_passed_on(spark_version: str, kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Where the Kafka client is another one, records are read one by one, and the result says so."""
    source, target = topic(suffix="source"), topic(suffix="target")
    # Smaller batches would be put together.
    values = [os.urandom(1_000) for _ in range(100)]
    kafka.produce(source, [Record(b"k", value) for value in values], {"linger.ms": 1_000})
    operator = ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=[f"{source}:0:0:100"],
        target_topic=target,
        preserve_partition=True,
        provenance="segments",
    )

    result = operator.execute(task_context())  # type: ignore[arg-type]

    assert [r.value for r in kafka.consume(target)] == values
    assert [(s["from_offset"], s["until_offset"], s["target_from_offset"]) for s in result["segments"]] == [(0, 100, 0)]
    if result["batches_passed"] == 0:
        (warning,) = result["warnings"]
        assert "reader='source'" in warning
        assert "Kafka's client" in warning
    assert (result["batches_passed"] > 0) == (spark_version != OLDEST)
