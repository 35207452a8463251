"""Promises of reading the timestamps at the edges of planned ranges."""

from __future__ import annotations

import time

import pytest

from airflow_provider_kafka_spark.clients.edge_timestamps import edge_timestamps
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


def test_a_record_that_cannot_be_unpacked_is_left_out_with_a_warning(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few KB on the broker may be more than a client unpacks. It must not stop every copy of its topic, since the job
    can leave it out.
    """
    name, now = topic(2), int(time.time() * 1000)
    large = Record(value=bytes(110_000_000), timestamp=now - 5_000, partition=0)
    kafka.produce(name, [large], {"compression.type": "zstd", "message.max.bytes": 200_000_000})
    kafka.produce(name, [Record(value=b"v", timestamp=now - age, partition=p) for p, age in ((0, 1_000), (1, 0))])
    ranges = OffsetRanges([OffsetRange(name, 0, 0, 2), OffsetRange(name, 1, 0, 1)])

    assert edge_timestamps(KafkaHook(), ranges) == {name: (now - 1_000, now)}

    assert capsys.readouterr().out.count(f"The timestamp of {name}[0]@0 is not compared") == 1
