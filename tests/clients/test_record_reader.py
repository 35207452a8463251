"""Promises of :mod:`~airflow_provider_kafka_spark.clients.record_reader`: what is read grows with the records, and not
with the number of ranges.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import confluent_kafka
import pytest

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import SMALL_GAP_OFFSETS
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


def test_all_partitions_are_read_at_once_and_a_seek_is_only_for_a_long_gap(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred ranges that end with a marker, in as many partitions, and ranges of one partition that are near and far
    away: one consumer, one assignment, and one seek.
    """
    calls: Counter[str] = Counter()

    class CountingConsumer(confluent_kafka.Consumer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            calls["made"] += 1
            super().__init__(*args, **kwargs)

        def assign(self, *args: Any, **kwargs: Any) -> None:
            calls["assigned"] += 1
            super().assign(*args, **kwargs)

        def incremental_assign(self, partitions: Any) -> None:
            calls["sought"] += len(partitions)
            super().incremental_assign(partitions)

    many, one = topic(100, suffix="many"), topic(suffix="one")
    kafka.produce_transaction(many, [Record(value=b"v", partition=i % 100) for i in range(300)])
    kafka.produce_transaction(one, [Record(value=b"v") for _ in range(9)])  # and a marker at 9
    kafka.produce(one, [Record(value=b"v") for _ in range(2 * SMALL_GAP_OFFSETS + 50)])
    far = 2 * SMALL_GAP_OFFSETS
    ranges = OffsetRanges(
        [
            *(OffsetRange(many, i, 0, 4) for i in range(100)),
            *(OffsetRange(one, 0, start, start + 3) for start in (0, 3, 7, 20, far, far + 20)),
        ]
    )
    monkeypatch.setattr(confluent_kafka, "Consumer", CountingConsumer)

    with KafkaHook(timeout=20) as hook:
        counts = hook.count_records(ranges)

    assert list(counts.values()) == [*[3] * 100, 3, 3, 2, 3, 3, 3]
    assert calls == {"made": 1, "assigned": 1, "sought": 1}
