"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.broker_snapshot`: a failure for one query affects
only that query.
"""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, CheckpointError, UnknownTopicError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from tests.core.conditions.snapshots import snapshot, state

ORDERS = TopicPartition("orders", 0)


def test_partitions_are_those_of_the_named_topics_in_order() -> None:
    held = snapshot({"b": [state(0, 1)], "a": [state(0, 2), state(0, 3)], "c": [state(0, 4)]})

    assert [str(p) for p in held.partitions(["b", "a"])] == ["a[0]", "a[1]", "b[0]"]
    with pytest.raises(UnknownTopicError, match="'d'"):
        held.partitions(["d"])


def test_a_checkpoint_is_added_or_its_failure() -> None:
    held = snapshot({"orders": [state(0, 1)]})

    assert held.with_checkpoint("/c", Position({ORDERS: 1})).checkpoint("/c") == Position({ORDERS: 1})
    with pytest.raises(CheckpointError, match="damaged"):
        held.with_checkpoint("/c", CheckpointError("damaged")).checkpoint("/c")


def test_a_failure_gathers_no_tracebacks_of_those_who_hear_of_it() -> None:
    failure = BrokerAuthorizationError("no")
    held = snapshot({}, failures={("group", "copy"): failure})

    depths = []
    for _ in range(3):
        with pytest.raises(BrokerAuthorizationError) as raised:
            held.group("copy")
        depths.append(len(raised.traceback))

    assert depths[0] == depths[-1]
