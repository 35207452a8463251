"""Pieces of one Kafka partition: each has its own transactions and progress, whatever the plan looks like."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, numbers, values

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_each_piece_goes_on_from_its_own_progress(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """One of ten fails: the retry counts what the others have delivered, and writes the rest."""
    source, target = topic(suffix="source"), topic(2, suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(555), large(), *numbered(444, 555)])
    ranges = [f"{source}:0:0:1000"]
    spans = plan_spans(OffsetRanges.parse(ranges), 100)
    with pytest.raises(TargetError):
        run_copy(ranges, topic=target, spans=spans, preserve_order=False)
    before = len(values(kafka_broker, target))
    kafka_broker.alter_topic(target, TAKES_LARGE)

    report = run_copy(ranges, topic=target, spans=spans, preserve_order=False, is_retry=True)

    small = [value for value in values(kafka_broker, target) if value and len(value) < 10]
    assert sorted(map(int, small)) == list(range(999))
    assert len(values(kafka_broker, target)) == report.records_written == 1_000
    assert report.delivered_before == before
    assert before % 100 == 0
    assert before > 0


def test_many_ranges_in_many_pieces(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pieces than fit into one transaction of progress, which has one group for each here."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.run_ownership._GROUPS_OF_TRANSACTION", 10)
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(120))
    ranges = [f"{source}:0:{start}:{start + 9}" for start in range(0, 120, 10)]
    spans = plan_spans(OffsetRanges.parse(ranges), 5)

    report = run_copy(ranges, topic=target, spans=spans, preserve_order=False)
    again = run_copy(ranges, topic=target, spans=spans, preserve_order=False, is_retry=True)

    assert numbers(kafka_broker, target) == [i for i in range(120) if i % 10 < 9]
    assert [r.records_written for r in report.ranges] == [9] * 12
    assert len(report.progress_groups) == 24
    assert again.delivered_before == 108
    assert again.ranges == report.ranges


def test_ranges_that_touch(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """Also ranges of one offset: each record belongs to one range. Of another one all was aborted, so its task writes
    nothing; it has a piece, and a retry continues all the same.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(5))
    kafka_broker.produce_transaction(source, [Record(value=b"aborted") for _ in range(5)], commit=False)
    kafka_broker.produce(source, numbered(5, 5))
    ranges = [f"{source}:0:{a}:{b}" for a, b in [(0, 1), (1, 2), (2, 5), (5, 11), (11, 16)]]

    report = run_copy(ranges, topic=target, preserve_order=False)
    again = run_copy(ranges, topic=target, preserve_order=False, is_retry=True)

    assert numbers(kafka_broker, target) == list(range(10))
    assert [r.records_written for r in report.ranges] == [1, 1, 3, 0, 5]
    assert again.delivered_before == 10
    assert again.ranges == report.ranges
