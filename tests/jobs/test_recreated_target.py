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
from tests.jobs.runs import SLOW, SMALL_COMMITS, in_background, numbered, values, wait_for_copies

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 200
_VALUES = [b"%d" % i for i in range(_COUNT)]


def recreate(broker: KafkaBroker, topic: str) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)


def test_after_a_driver_has_written(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks at the target once more when its tasks have ended; a stream's, in ``test_stream_tries``."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target, "delivery": "at_least_once"}

    def write_and_recreate(*arguments: Any) -> Any:
        result = write_records(*arguments)
        recreate(kafka_broker, target)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_records", write_and_recreate)
        with pytest.raises(TargetRecreatedError) as raised:
            run_copy(ranges, **options)

    report = run_copy(ranges, is_retry=True, audit_from={target: {"0": 0}}, **options)

    assert raised.value.retriable
    assert values(kafka_broker, target) == _VALUES
    assert (report.delivered_before, report.records_written) == (0, _COUNT)


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
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


def test_one_that_held_many_records_of_others(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """The records of the run began at an offset that the new topic does not have."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    kafka_broker.produce(target, numbered(1_000))
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target, "audit_from": {target: {"0": 1_000}}}
    run_copy(ranges, **options)
    recreate(kafka_broker, target)
    # A retry that failed has delivered something to the new topic.
    run_copy([f"{source}:0:0:50"], is_retry=True, **options)

    report = run_copy(ranges, is_retry=True, **options)

    assert values(kafka_broker, target) == _VALUES
    assert (report.delivered_before, report.records_written) == (50, _COUNT)
    assert [r.from_offset for r in report.target_ranges] == [0]
