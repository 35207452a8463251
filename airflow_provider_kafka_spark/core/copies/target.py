"""Where records go, and whether it can take them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.records.topic_map import mapped
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.wire.protocol import Transform


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go.

    :param topic: one topic for all; None when ``topic_expr`` decides per row.
    :param topic_expr: an SQL expression over the source columns.
    :param topic_map: the target of each source topic.
    :param preserve_partition: write to the partition number that the record came from.
    :param allow_same_topic: permit writing into a topic that is being read.
    :param dead_letters: where rejected records go, or None.
    """

    topic: str | None
    topic_expr: str | None = None
    preserve_partition: bool = False
    allow_same_topic: bool = False
    topic_map: Mapping[str, str] = field(default_factory=dict)
    dead_letters: str | None = None

    def __post_init__(self) -> None:
        given = {"target_topic": self.topic, "target_topic_expr": self.topic_expr, "topic_map": self.topic_map or None}
        got = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if len(got) != 1:
            raise TargetError(
                "Give exactly one of target_topic='orders_copy', topic_map={'orders': 'orders_copy'} and "
                f"target_topic_expr=\"concat(topic, '_copy')\"; got {shortened(got) or 'neither'}. (Without a target, "
                "Spark would write the records back into their source topic.)"
            )

    @classmethod
    def of(cls, transform: Transform, *, allow_same_topic: bool = False) -> Target:
        """:raises TargetError: if nothing, or more than one thing, says where records go."""
        of = transform
        return cls(of.topic, of.topic_expr, of.preserve_partition, allow_same_topic, of.topic_map, of.dead_letter_topic)

    def routes(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """For each target that is known, the source topics whose records go there.

        >>> Target("copy").routes(["payments", "orders"])
        {'copy': ['orders', 'payments']}

        :raises TargetError: if ``topic_map`` has no target for one of them.
        """
        if self.topic_expr is not None:
            return {}
        names = sorted(set(topics))
        routes: dict[str, list[str]] = {} if self.topic is None else {self.topic: names}
        for source, name in mapped(names, self.topic_map).items() if self.topic is None else ():
            routes.setdefault(name, []).append(source)
        return routes if self.dead_letters is None else {**routes, self.dead_letters: names}

    def __str__(self) -> str:
        if self.topic_map:
            text = shortened([f"{source} to {name}" for source, name in self.topic_map.items()])
        else:
            text = str(self.topic or self.topic_expr)
        return text if self.dead_letters is None else f"{text}, rejected records to {self.dead_letters}"


def check_target(
    name: str,
    target: Target,
    ranges: Mapping[str, OffsetRanges],
    source: ClusterState,
    target_cluster: ClusterState,
    read: Collection[str],
) -> list[str]:
    """Check that a topic can take the records.

    :param ranges: that go there, by their topic.
    :param read: all topics that are read.

    :return: warnings about what can still fail.
    :raises TargetError: if it does not exist, has too few partitions for ``preserve_partition``, or is being read.
    """
    where = f"the cluster of connection {target_cluster.conn_id!r}"
    state = target_cluster.topics.get(name)
    if state is None:
        raise TargetError(
            f"The target topic {name!r} does not exist on {where}. Create it with the partitions and settings you "
            "want; Spark would leave that to the broker's defaults, or time out after 60 s."
        )
    same_cluster = source.cluster_id == target_cluster.cluster_id
    if same_cluster and name in read and not target.allow_same_topic:
        raise TargetError(
            f"The target topic {name!r} is also read: its records would be written back into it. Choose another "
            "target_topic, or pass allow_same_topic=True if that is what you mean (the copy still ends, since its "
            "ranges are fixed before it starts)."
        )
    if target.preserve_partition and name != target.dead_letters:
        numbers = (r.partition for of_topic in ranges.values() for r in of_topic if not r.is_empty)
        needed = max(numbers, default=-1) + 1
        if needed > len(state.partitions):
            raise TargetError(
                f"preserve_partition=True needs at least {needed} partitions in the target topic {name!r} on {where}; "
                f"it has {len(state.partitions)}. Spark would write part of the records and then time out. Add "
                "partitions, or pass preserve_partition=False."
            )
    return _target_warnings(name, state.config, ranges, source)


def _target_warnings(name: str, config: Mapping[str, str], read: Iterable[str], source: ClusterState) -> list[str]:
    warnings = []
    if "compact" in config.get("cleanup.policy", "delete"):
        warnings.append(
            f"The target topic {name!r} is compacted: it refuses records without a key, and keeps only the last "
            "record of each key."
        )
    limit = int(config.get("max.message.bytes", 0))
    for topic in sorted(read):
        largest = int(source.topic(topic).config.get("max.message.bytes", 0))
        if limit and largest > limit:
            warnings.append(
                f"The target topic {name!r} takes messages of at most {limit:,} bytes, and {topic!r} may hold some of "
                f"{largest:,}; one of those would fail the job."
            )
    return warnings
