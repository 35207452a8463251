"""The state of a cluster's topics as plain data, from which plans are made. ``hooks.kafka`` fetches it. No I/O."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, InvalidInputError, UnknownTopicError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.topic_pattern import check_topic_pattern, matching_names

#: Names that a message lists.
_MAX_SHOWN = 5
#: Existing topics that a misspelt name is compared with; more take seconds.
_MAX_COMPARED = 2_000


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The offsets of one partition at one moment.

    :param log_start: the oldest offset that retention has left.
    :param last_stable: end for a ``read_committed`` reader: the first offset of the oldest open transaction. Asked for
        last, it may be ahead of the high watermark.
    :param high_watermark: end for a ``read_uncommitted`` reader.
    :param leader_epoch: counts the partition's leaders; None if the broker does not say it.
    """

    log_start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic at one moment.

    :param topic_id: the id that Kafka gave it at its creation (KIP-516), or None if the broker does not return it. A
        topic that was deleted and recreated has another id.
    :param partitions: those that were asked for; all by default.
    :param config: the topic's effective configuration; empty if the login may not read it.
    :param partition_count: None if all partitions were asked for.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, PartitionState]
    config: Mapping[str, str] = field(default_factory=dict)
    partition_count: int | None = None

    @property
    def count(self) -> int:
        """How many partitions the topic has."""
        return len(self.partitions) if self.partition_count is None else self.partition_count


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster holds of the topics that were asked for.

    :param first_at: for a partition and a time in ms, the first record whose own time is at or after it and credible;
        None if there is none.
    :param unsettled: the answers of ``first_at`` that can be others later, although the log only grows.
    :param ahead: of a partition, offset and time in ms of a record whose time is too far in the future to be credible.
    :param cuts: where windows are cut, if that was decided; see
        :mod:`~airflow_provider_kafka_spark.core.topics.window_cuts`.
    :param lowered: of ``cuts``, what had been decided before the log itself was cut below it.
    :param cut_at: where logs were cut of which it was known that they had reached further; see
        :mod:`~airflow_provider_kafka_spark.core.topics.log_ends`.
    :param now_ms: when this was fetched, in ms since 1970.
    """

    cluster_id: str
    conn_id: str
    now_ms: int
    topics: Mapping[str, TopicState]
    first_at: Mapping[tuple[TopicPartition, int], int | None] = field(default_factory=dict)
    unsettled: frozenset[tuple[TopicPartition, int]] = frozenset()
    ahead: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    cuts: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    lowered: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    cut_at: Mapping[TopicPartition, int] = field(default_factory=dict)

    def topic(self, name: str) -> TopicState:
        """:raises UnknownTopicError: if the cluster has no such topic."""
        state = self.topics.get(name)
        if state is None:
            raise UnknownTopicError(
                f"The topic {name!r} does not exist on the cluster of connection {self.conn_id!r}. Create it, or "
                "correct the name."
            )
        return state

    def all_partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Of all topics that were asked for."""
        for name, topic in self.topics.items():
            for number, state in topic.partitions.items():
                yield TopicPartition.of((name, number)), state

    def partition(self, topic_partition: TopicPartition) -> PartitionState:
        """:raises UnknownTopicError: if the cluster has no such partition."""
        topic = self.topic(topic_partition.topic)
        state = topic.partitions.get(topic_partition.partition)
        if state is None:
            raise UnknownTopicError(
                f"{topic_partition} does not exist on the cluster of connection {self.conn_id!r}: the topic has "
                f"{topic.count} partitions, numbered from 0. Spark would drop it silently."
            )
        return state

    def ends_then(
        self, names: Iterable[str], ends: Mapping[str, Mapping[int, int]], topic_ids: Mapping[str, str]
    ) -> dict[str, dict[str, int]]:
        """Where what was written to topics since then can begin, for each of their partitions of now: 0 in a topic that
        was recreated since, and in a partition whose end is not known.

        :param ends: then, by topic and partition.
        :param topic_ids: by name, then; one that is not named counts as the same.
        :raises UnknownTopicError: if a topic does not exist.
        """
        found = {}
        for name in names:
            topic = self.topic(name)
            # The offsets of one that was recreated begin anew.
            known = ends.get(name, {}) if topic_ids.get(name, topic.topic_id) == topic.topic_id else {}
            found[name] = {str(number): known.get(number, 0) for number in topic.partitions}
        return found

    def is_same(self, name: str, topic_ids: Mapping[str, str]) -> bool:
        """Whether a topic is known to be the one of before.

        :param topic_ids: by name, then.
        """
        then, now = topic_ids.get(name), self.topics.get(name)
        return then is not None and now is not None and now.topic_id == then

    def check_whole(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, str]) -> None:
        """Kafka removes no partition from a topic: where one lacks, the answer is not whole.

        :param partitions: that there were.
        :param topic_ids: of their topics, by name, then.
        :raises BrokerUnavailableError: if one is not described, and its topic is the one of before.
        """
        lacking = [
            p
            for p in partitions
            if self.is_same(p.topic, topic_ids) and p.partition not in self.topic(p.topic).partitions
        ]
        if lacking:
            raise BrokerUnavailableError(
                f"The brokers must describe all partitions of a topic; {', '.join(map(str, lacking[:8]))} is not "
                f"among the {self.topic(lacking[0].topic).count} that they do, and its topic has the id of before "
                f"(connection {self.conn_id!r}). A broker that has just started may not know all of them yet."
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions to read: exactly one of a list of topics, a pattern, or an assignment.

    :param topics: names of topics, all of whose partitions are read.
    :param pattern: a regular expression in RE2's syntax that must match a topic's **whole** name. (Spark's
        ``subscribePattern`` is an unanchored search, and so takes ``orders-dlq`` for ``orders``.)
    :param assign: partitions by topic.
    :raises InvalidInputError: if none or several are given, or one is malformed.
    """

    topics: Collection[str] | None = None
    pattern: str | None = None
    assign: Mapping[str, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        given = {"topics": self.topics, "topic_pattern": self.pattern, "assign": self.assign}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidInputError(
                f"Give exactly one of topics=['orders'], topic_pattern='orders\\..*' and assign={{'orders': [0, 1]}}; "
                f"got {' and '.join(named) or 'none of them'}."
            )
        if self.topics is not None:
            if (
                isinstance(self.topics, (str, bytes, Mapping))
                or not isinstance(self.topics, Collection)
                or not self.topics
            ):
                raise InvalidInputError(f"topics must be a list of names, such as ['orders']; got {self.topics!r}.")
            for topic in self.topics:
                TopicPartition(topic, 0)
            repeated = sorted(topic for topic, count in Counter(self.topics).items() if count > 1)
            if repeated:
                raise InvalidInputError(f"topics must name each topic once; got {repeated[:_MAX_SHOWN]} twice.")
        if self.pattern is not None:
            check_topic_pattern(self.pattern)
        if self.assign is not None:
            if not isinstance(self.assign, Mapping) or not self.assign:
                raise InvalidInputError(
                    f"assign must map topics to partitions, such as {{'orders': [0, 1]}}; got {self.assign!r}."
                )
            for topic, partitions in self.assign.items():
                if isinstance(partitions, (str, bytes)) or not isinstance(partitions, Collection) or not partitions:
                    raise InvalidInputError(
                        f"assign must list partitions by number, such as {{'orders': [0, 1]}}; got {partitions!r} for "
                        f"{topic!r}."
                    )
                for partition in partitions:
                    TopicPartition(topic, partition)
                if len(set(partitions)) != len(partitions):
                    raise InvalidInputError(f"assign names a partition of {topic!r} twice: {list(partitions)!r}.")

    @property
    def assigned(self) -> tuple[TopicPartition, ...] | None:
        """The partitions of ``assign``; None if all partitions of some topics are read."""
        if self.assign is None:
            return None
        return tuple(TopicPartition(topic, number) for topic, numbers in self.assign.items() for number in numbers)

    def to_json(self) -> dict[str, Any]:
        """By the operators' parameters, the same in whatever order topics and partitions are given.

        >>> Selection(topics={"b", "a"}).to_json()
        {'topics': ['a', 'b'], 'topic_pattern': None, 'assign': None}
        """
        assign = self.assign and {topic: sorted(numbers) for topic, numbers in sorted(self.assign.items())}
        return {"topics": self.topics and sorted(self.topics), "topic_pattern": self.pattern, "assign": assign}

    def topic_names(self, existing: Collection[str]) -> tuple[str, ...]:
        """The topics to read, out of those that exist; internal topics (``__...``) must be named to be read.

        :raises UnknownTopicError: if a named topic does not exist, or the pattern matches none.
        """
        if self.pattern is not None:
            matched = self.matching(existing)
            if not matched:
                raise UnknownTopicError(
                    f"topic_pattern {self.pattern!r} matches none of the cluster's {len(existing)} topics. It must "
                    "match the whole name: 'orders' does not match 'orders-eu', 'orders.*' "
                    f"does.{did_you_mean(self.pattern, existing)}"
                )
            return tuple(sorted(matched))
        wanted = self.topics if self.topics is not None else list(self.assign or {})
        for name in wanted:
            if name not in existing:
                raise UnknownTopicError(f"The topic {name!r} does not exist.{did_you_mean(name, existing)}")
        return tuple(sorted(wanted))

    def matching(self, existing: Collection[str]) -> frozenset[str]:
        """Those of the topics to read that exist; it may be none."""
        if self.pattern is not None:
            return frozenset(name for name in matching_names(self.pattern, existing) if not name.startswith("__"))
        return frozenset(self.topics if self.topics is not None else self.assign or ()) & frozenset(existing)

    def partitions(self, cluster: ClusterState) -> tuple[TopicPartition, ...]:
        """Every partition to read, sorted.

        :raises UnknownTopicError: if one does not exist; Spark's ``assign`` would silently leave it out.
        """
        chosen = self.assigned
        if chosen is None:
            # Each exists.
            return tuple(
                TopicPartition.of((name, number))
                for name in self.topic_names(cluster.topics)
                for number in sorted(cluster.topic(name).partitions)
            )
        for topic_partition in chosen:
            cluster.partition(topic_partition)
        return tuple(sorted(chosen))


def did_you_mean(name: str, existing: Collection[str]) -> str:
    """The end of a message about a name that does not exist; empty if nothing is like it."""
    if len(existing) > _MAX_COMPARED:
        return ""
    close = difflib.get_close_matches(name, existing, n=3)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
