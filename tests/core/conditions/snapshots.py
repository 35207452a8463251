"""Broker snapshots written by hand for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState

NOW = 1_795_176_000_000


def state(start: int, end: int, stable: int | None = None, epoch: int | None = None) -> PartitionState:
    return PartitionState(start, end if stable is None else stable, end, epoch)


def snapshot(
    topics: Mapping[str, list[PartitionState]],
    *,
    first_at: Mapping[tuple[str, int, int], int | None] | None = None,
    newest: Mapping[tuple[str, int], int | None] | None = None,
    ids: Mapping[str, str] | None = None,
    **more: Any,
) -> BrokerSnapshot:
    """:param topics: the partitions of each topic.
    :param first_at: by topic, partition and time in ms.
    :param newest: by topic and partition.
    """
    cluster = ClusterState(
        "cluster",
        "kafka_default",
        NOW,
        {
            name: TopicState(name, (ids or {}).get(name), dict(enumerate(partitions)))
            for name, partitions in topics.items()
        },
        {(TopicPartition(t, p), ms): offset for (t, p, ms), offset in (first_at or {}).items()},
    )
    return BrokerSnapshot(
        cluster,
        frozenset(topics),
        {TopicPartition(t, p): ms for (t, p), ms in (newest or {}).items()},
        **more,
    )
