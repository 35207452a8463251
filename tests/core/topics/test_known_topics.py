"""Promises of :mod:`airflow_provider_kafka_spark.core.topics.known_topics`."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import DataLossError, OffsetRangeError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, resolve_replay

RANGES = OffsetRanges.parse(["orders:0:0:5", "payments:0:0:5"])
PERMITTED = ReadRules(fail_on_data_loss=False)


def cluster(cluster_id: str = "one", **ids: str | None) -> ClusterState:
    """Topics of ten records with these ids."""
    partitions = {0: PartitionState(0, 10, 10)}
    return ClusterState(
        cluster_id, "kafka_default", 0, {name: TopicState(name, of, partitions) for name, of in ids.items()}
    )


def a_range(topic: str = "orders", **others: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "from_offset": 0, "until_offset": 5, **others}


def test_each_range_says_what_it_is_of() -> None:
    """Wherever it goes: lists of ranges are cut and put together. Without an id of the topic, the cluster's says it."""
    marked = KnownTopics({"orders": "id-1", "payments": ""}, "one").dicts(RANGES)

    assert marked == [a_range(topic_id="id-1"), a_range("payments", cluster_id="one")]
    assert KnownTopics.of_ranges(marked[:1]) == KnownTopics({"orders": "id-1"})
    assert KnownTopics.of_ranges(marked) == KnownTopics({"orders": "id-1"}, "one", ("payments",))
    assert OffsetRanges.parse(marked) == RANGES


@pytest.mark.parametrize(
    ("known", "now", "reason"),
    [
        (KnownTopics({"orders": "id-1"}), cluster(orders="id-2", payments="p"), r"another id \(then id-1, now id-2\)"),
        (
            KnownTopics(cluster_id="two"), cluster(orders=None, payments=None),
            r"leads to another cluster \(id two, now one\)",
        ),
    ],
)  # fmt: skip
def test_ranges_of_another_topic_of_the_same_name_are_lost(known: KnownTopics, now: ClusterState, reason: str) -> None:
    """All of them, with the id of the topic that had them: nobody takes the records that are there now for them."""
    with pytest.raises(DataLossError, match=reason):
        resolve_replay(RANGES, now, ReadRules(), known)

    permitted = resolve_replay(RANGES, now, PERMITTED, known)

    assert "orders" not in {r.topic for r in permitted.ranges}
    assert (permitted.missing[0].offset_range, permitted.missing[0].topic_id) == (
        RANGES[0],
        known.topic_ids.get("orders", ""),
    )


@pytest.mark.parametrize(
    ("known", "now", "warned"),
    [
        (KnownTopics({"orders": "id-1", "payments": "p"}), cluster(orders="id-1", payments="p"), []),
        # What an author has written speaks of the topic as it is.
        (KnownTopics.of_ranges(["orders:0:0:5", a_range("payments")]), cluster(orders="id-1", payments="p"), []),
        # Results of an older version: the whole, and one of its ranges.
        (KnownTopics.of_ranges([a_range()], of_result=True), cluster(orders="id-1", payments="p"), ["'orders'"]),
        (KnownTopics.of_ranges([a_range(records_read=5)]), cluster(orders="id-1", payments="p"), ["'orders'"]),
        # Brokers without ids, then or now.
        (KnownTopics.of_ranges([a_range(cluster_id="one")]), cluster(orders="id-1", payments="p"), ["'orders'"]),
        (
            KnownTopics({"orders": "id-1", "payments": "p"}), cluster(orders=None, payments=None),
            ["'orders', 'payments'"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_a_warning(known: KnownTopics, now: ClusterState, warned: list[str]) -> None:
    resolved = resolve_replay(RANGES, now, ReadRules(), known)

    assert resolved.ranges == RANGES
    assert [w.split("whether ")[1].split(" was")[0] for w in resolved.warnings] == warned


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([a_range(topic_id="id-1"), a_range(topic_id="id-2")], "'orders' has id-1 and id-2"),
        ([a_range(cluster_id="one"), a_range("payments", cluster_id="two")], "of one cluster; got .* one, two"),
        ([a_range(topic_id=7)], "topic_id of a range must be the text"),
    ],
)
def test_refuses_ids_that_cannot_be_right(ranges: list[Any], message: str) -> None:
    with pytest.raises(OffsetRangeError, match=message):
        KnownTopics.of_ranges(ranges)
