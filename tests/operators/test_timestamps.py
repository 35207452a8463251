"""Timestamps are kept, and a target that would not keep them is refused before Spark starts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_DAY = 86_400_000


def replay(source: str, target: str, **options: Any) -> Any:
    operator = ReplayOffsetRangesOperator(
        task_id="replay", offset_ranges=[f"{source}:0:0:3"], target_topic=target, **options
    )
    return operator.execute(task_context())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        pytest.param({"message.timestamp.type": "LogAppendTime"}, "LogAppendTime", id="replaced"),
        pytest.param({"message.timestamp.before.max.ms": str(_DAY)}, "before.max.ms", id="refused"),
        pytest.param({"retention.ms": str(_DAY)}, "retention.ms", id="deleted"),
    ],
)
def test_a_target_that_would_not_keep_them(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, config: dict[str, str], says: str
) -> None:
    """The oldest record is two days old."""
    source, target = topic(suffix="source"), topic(suffix="target", config=config)
    now = int(time.time() * 1000)
    kafka.produce(source, [Record(value=b"%d" % age, timestamp=now - age * _DAY) for age in (2, 1, 0)])

    with pytest.raises(AirflowFailException, match=rf"TargetError: .*{says}.* preserve_timestamps=False"):
        replay(source, target)
    assert in_process_spark.jobs == []

    replay(source, target, preserve_timestamps=False)
    copies = kafka.consume(target)
    assert [r.value for r in copies] == [b"2", b"1", b"0"]
    assert all((r.timestamp or 0) >= now for r in copies)


def test_they_arrive_as_they_were(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark) -> None:
    """Also by way of SQL."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"retention.ms": "-1"})
    times = [1_700_000_000_123, 5, 1_600_000_000_000]
    kafka.produce(source, [Record(value=b"%d" % at, timestamp=at) for at in times])

    replay(source, target)
    replay(source, target, where="value is not null")

    assert [r.timestamp for r in kafka.consume(target)] == times * 2
