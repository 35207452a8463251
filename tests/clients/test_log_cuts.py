"""A log that was cut since is known by the epochs of its leaders, however much follows now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds, Reached
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.raw_batches import cut_at

pytestmark = pytest.mark.broker

NAMES = ("cut", "whole", "aged")
PARTITIONS = {name: TopicPartition(name, 0) for name in NAMES}


def test_where_a_log_was_cut(other_broker: KafkaBroker, connection: Callable[..., None]) -> None:
    """Of topics of 10 batches with 10 records each."""
    broker = other_broker
    for name in NAMES:
        broker.create_topic(name)
        for i in range(10):
            broker.produce(name, [Record(b"k", b"%d" % i)] * 10)
    connection("kafka_default", extra={"bootstrap.servers": broker.bootstrap_servers})
    with KafkaHook() as hook:
        before = hook.state(NAMES)
        ends = LogEnds.of([OffsetRange(name, 0, 0, 100) for name in NAMES], before)
        short_of_it = LogEnds.of([OffsetRange("cut", 0, 0, 60)], before)
        assert ends.changed(before) == LogEnds()
    cut_at(broker, {"cut": 60})
    # What the log had reached is there again, and more; no record is at the first offset.
    broker.produce_transaction("cut", [Record(b"k", b"aborted")], commit=False)
    for name in NAMES:
        broker.produce(name, [Record(b"k", b"new")] * 80)
    broker.delete_records("aged", {0: 120})

    with KafkaHook() as hook:
        now = hook.state(NAMES)
        assert now.partition(PARTITIONS["cut"]).high_watermark > 100
        assert set(ends.changed(now).offsets) == set(PARTITIONS.values())
        assert hook.cuts(ends, now) == hook.cuts(ends) == {PARTITIONS["cut"]: 60}
        assert hook.cuts(short_of_it) == {}
        # Two sensors may stand at two offsets of a partition.
        stand = {at: Reached(PARTITIONS["cut"], at, ends.epochs[PARTITIONS["cut"]]) for at in (60, 80, 100)}
        whole = Reached(PARTITIONS["whole"], 100, ends.epochs[PARTITIONS["whole"]])
        queries = [BrokerQuery(NAMES, reached=frozenset({r, whole})) for r in stand.values()]
        assert fetch_snapshot(hook, queries).cut_at == {stand[80]: 60, stand[100]: 60}
        # An epoch that no broker knows is no answer.
        later = LogEnds(ends.offsets, dict.fromkeys(ends.epochs, 1_000))
        assert hook.cuts(later) == {}
        assert hook.cuts(LogEnds()) == {}
