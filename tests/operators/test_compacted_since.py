"""What results say is taken for what it was, where logs were compacted since."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import NewTask, audit, execute, large
from tests.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}


def _compact(kafka: KafkaBroker, name: str) -> None:
    """Of each key, only its last record is left. A record that is ``segment.ms`` younger than the first one of the
    newest segment begins another one; the newest is never compacted.
    """
    time.sleep(0.2)
    kafka.produce(name, [Record(b"last", b"v")])
    until(lambda: max(Counter(r.key for r in kafka.consume(name)).values()) == 1, "the log is compacted")


@pytest.mark.long
@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize("provenance", ["headers", "segments"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_what_was_compacted_since_is_neither_missing_nor_invented(
    kafka: KafkaBroker, topic: TopicFactory, provenance: str, side: str
) -> None:
    """Three of ten records are left. An audit, a replay of the result and a copy by an older plan say what is there."""
    source = topic(suffix="source", config=COMPACTED if side == "source" else {})
    target = topic(suffix="target", config=COMPACTED if side == "target" else {})
    kafka.produce(source, [Record(b"k%d" % (i % 3), b"%d" % i) for i in range(10)])
    layout: dict[str, Any] = {"target_topic": target, "provenance": provenance, "preserve_partition": True}
    elsewhere = {**layout, "target_topic": topic(suffix="elsewhere")}
    plan = execute(KafkaToKafkaBatchOperator(task_id="plan", topics=[source], plan_only=True, **elsewhere))
    copied = execute(KafkaToKafkaBatchOperator(task_id="copy", topics=[source], **layout))
    _compact(kafka, source if side == "source" else target)

    audited = audit(copied, fail_on_finding=False)
    by_plan = execute(KafkaToKafkaBatchOperator(task_id="by_plan", plan=plan, **elsewhere))
    replayed = execute(ReplayOffsetRangesOperator(task_id="replay", offset_ranges=copied, **elsewhere))

    # Headers and segments tell of records that their source has no more.
    assert (audited["once"], audited["unknown"]) == ((10, 0) if side == "source" else (3, 7))
    assert audited["doubled"] == audited["missing"] == audited["different"] == 0
    left = [b"7", b"8", b"9"] if side == "source" else [b"%d" % i for i in range(10)]
    for result in (by_plan, replayed):
        assert (result["records_written"], result["gaps"]) == (len(left), 10 - len(left))
    assert [r.value for r in kafka.consume(elsewhere["target_topic"])] == left * 2


def test_a_retry_after_the_compaction_of_what_was_delivered(new_task: NewTask, topic: TopicFactory) -> None:
    """Its segments have more records than it has read, and it is green; a clear writes nothing again."""
    records = [*(Record(b"k%d" % i, b"%d" % i) for i in range(10)), large()]
    task = new_task(provenance="segments", preserve_partition=True)
    task.sources = [topic(suffix="compacted", config=COMPACTED)]
    task.kafka.produce(task.source, records)
    delivered = task.fail_at_large(commit_records=5)
    task.kafka.produce(task.source, [Record(b"k%d" % i, b"newer") for i in range(10)])
    _compact(task.kafka, task.source)

    result = task.succeed()

    assert delivered.total() == 10
    assert (result["records_written"], result["delivered_before"]) == (1, 0)
    assert sum(segment["until_offset"] - segment["from_offset"] for segment in result["segments"]) == 11
    assert task.values() == delivered + Counter({records[-1].value or b"": 1})
    again = task.clear()
    assert task.values(task.source) - task.values() == Counter()
    assert again["records_written"] == 12
