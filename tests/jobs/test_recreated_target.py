"""A target that is deleted and recreated: nothing counts as delivered that went to the topic before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import TargetRecreatedError
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.write import write_records
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy
from tests.jobs.runs import SLOW, SMALL_COMMITS, in_background, numbered, pause, values, wait_for_copies

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 200
_VALUES = [b"%d" % i for i in range(_COUNT)]

deliveries = pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])


def recreate(broker: KafkaBroker, topic: str) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)


@deliveries
def test_before_a_driver_writes(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    """The try fails by name, and its retry writes everything to the new topic, in order."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    ranges = [f"{source}:0:0:{_COUNT}"]
    suspended = pause(monkeypatch, batch, "write_records")
    first = suspended.start(lambda: run_copy(ranges, topic=target, delivery=delivery))
    recreate(kafka_broker, target)
    suspended.end()
    failure = first.exception(120)

    report = run_copy(ranges, topic=target, delivery=delivery, is_retry=True, audit_from={target: {"0": 0}})

    assert isinstance(failure, TargetRecreatedError), failure
    assert failure.retriable
    assert values(kafka_broker, target) == _VALUES
    assert (report.delivered_before, report.records_written) == (0, _COUNT)


@deliveries
def test_after_a_driver_has_written(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    """The driver looks at the target once more when its tasks have ended."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    ranges = [f"{source}:0:0:{_COUNT}"]

    def write_and_recreate(*arguments: Any) -> Any:
        result = write_records(*arguments)
        recreate(kafka_broker, target)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_records", write_and_recreate)
        with pytest.raises(TargetRecreatedError):
            run_copy(ranges, topic=target, delivery=delivery)

    report = run_copy(ranges, topic=target, delivery=delivery, is_retry=True, audit_from={target: {"0": 0}})

    assert values(kafka_broker, target) == _VALUES
    assert (report.delivered_before, report.records_written) == (0, _COUNT)


@deliveries
@pytest.mark.usefixtures("small_commits")
def test_while_tasks_write(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, delivery: str) -> None:
    """What was committed before is lost with the topic, and is written again."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT), {"batch.num.messages": 10})
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target, "delivery": delivery}
    slow = {**SLOW, "kafka.fetch.max.wait.ms": "500"}
    first = in_background(lambda: run_copy(ranges, source_options=slow, **options))
    wait_for_copies(kafka_broker, target, SMALL_COMMITS)
    recreate(kafka_broker, target)
    failure = first.exception(180)

    run_copy(ranges, is_retry=True, audit_from={target: {"0": 0}}, **options)

    assert isinstance(failure, TargetRecreatedError), failure
    found = values(kafka_broker, target)
    if delivery == "exactly_once":
        assert found == _VALUES
    assert set(found) == set(_VALUES)
    assert len(found) == _COUNT


@deliveries
def test_one_that_held_many_records_of_others(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, delivery: str
) -> None:
    """The records of the run began at an offset that the new topic does not have."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    kafka_broker.produce(target, numbered(1_000))
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target, "delivery": delivery}
    run_copy(ranges, audit_from={target: {"0": 1_000}}, **options)
    recreate(kafka_broker, target)
    # A retry that failed has delivered something to the new topic.
    run_copy([f"{source}:0:0:50"], is_retry=True, audit_from={target: {"0": 1_000}}, **options)

    report = run_copy(ranges, is_retry=True, audit_from={target: {"0": 1_000}}, **options)

    assert values(kafka_broker, target) == _VALUES
    assert (report.delivered_before, report.records_written) == (50, _COUNT)
    assert [r.from_offset for r in report.target_ranges] == [0]
