"""Timestamps are kept, and a target that would not keep them is refused before Spark starts."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import NewTask, Replay

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_DAY = 86_400_000


def test_a_target_that_would_not_keep_them(kafka: KafkaBroker, new_task: NewTask) -> None:
    """The oldest record is two days old."""
    now = int(time.time() * 1000)
    task = new_task(records=[Record(value=b"%d" % age, timestamp=now - age * _DAY) for age in (2, 1, 0)])
    target = task.target
    unset = {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": str(2**63 - 1)}
    for name, value in (
        ("message.timestamp.before.max.ms", str(_DAY)),
        ("retention.ms", str(_DAY)),
        ("message.timestamp.type", "LogAppendTime"),
    ):
        kafka.alter_topic(target, {**unset, "retention.ms": "-1", name: value})
        with pytest.raises(AirflowFailException, match=rf"TargetError: .*{name}.* preserve_timestamps=False"):
            task.run(Replay)
    assert task.spark.jobs == []

    task.run(Replay, preserve_timestamps=False)
    copies = kafka.consume(target)
    assert [r.value for r in copies] == [b"2", b"1", b"0"]
    assert all((r.timestamp or 0) >= now for r in copies)


def test_targets_of_a_map_are_compared_with_their_own_sources_in_one_read(
    kafka: KafkaBroker, topic: TopicFactory, new_task: NewTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of the targets would refuse the records of two days ago, which go to another."""
    old, new = topic(suffix="old"), topic(suffix="new")
    keeps = topic(suffix="keeps", config={"retention.ms": "-1"})
    refuses = topic(suffix="refuses", config={"retention.ms": "-1", "message.timestamp.before.max.ms": str(_DAY)})
    now, made = int(time.time() * 1000), []
    kafka.produce(old, [Record(value=b"v", timestamp=now - 2 * _DAY)])
    kafka.produce(new, [Record(value=b"v", timestamp=now)])
    consumer = confluent_kafka.Consumer
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda *given: made.append(given) or consumer(*given))

    def plan(topic_map: dict[str, str]) -> int:
        made.clear()
        ranges = [f"{name}:0:0:1" for name in topic_map]
        given = {"target_topic": None, "topic_map": topic_map, "delivery": "at_least_once", "plan_only": True}
        new_task().run(Replay, offset_ranges=ranges, **given)
        return len(made)

    assert plan({old: keeps, new: refuses}) == plan({new: refuses})
    with pytest.raises(AirflowFailException, match=rf"before\.max\.ms of the target '{refuses}'"):
        plan({old: refuses, new: keeps})


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="", marks=pytest.mark.long),
        pytest.param({"where": "value is not null"}, id="sql"),
        pytest.param({"provenance": None}, id="batches"),
    ],
)
def test_records_from_outside_of_a_window_are_counted_and_copied(
    kafka: KafkaBroker, topic: TopicFactory, new_task: NewTask, how: dict[str, Any]
) -> None:
    """They lie between those of the window. That they are most of all is a warning."""
    target = topic(suffix="target", config={"retention.ms": "-1"})
    task = new_task(target_topic=target, **how)
    noon, hour = 1_700_000_000_000, 3_600_000
    for at in [-1, 5, -9, -8, 2 * hour, 6, 7]:
        kafka.produce(task.source, [Record(value=b"%d" % at, timestamp=noon + at)])

    first = task.clear(starting_timestamp=noon, ending_timestamp=noon + hour)
    late = task.clear(starting_timestamp=noon + hour)

    assert [r.value for r in kafka.consume(target)][:3] == [b"5", b"-9", b"-8"]
    assert [result["records_outside_window"] for result in (first, late)] == [2, 2]
    assert [any("outside of the window" in text for text in r["warnings"]) for r in (first, late)] == [True, True]
    assert "records_outside_window" not in task.clear(Replay)


def test_they_arrive_as_they_were(kafka: KafkaBroker, topic: TopicFactory, new_task: NewTask) -> None:
    """Also by way of SQL."""
    target = topic(suffix="target", config={"retention.ms": "-1"})
    times = [1_700_000_000_123, 5, 1_600_000_000_000]
    task = new_task(records=[Record(value=b"%d" % at, timestamp=at) for at in times], target_topic=target)

    task.clear(Replay)
    task.clear(Replay, where="value is not null")

    assert [r.timestamp for r in kafka.consume(target)] == times * 2
