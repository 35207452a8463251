"""Queries of sensors to a cluster, and the answers: one round of requests serves any number of sensors. No I/O, no
clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.topics.log_ends import Reached


@dataclass(frozen=True, slots=True)
class BrokerQuery:
    """What one sensor queries of topics, apart from their ids and ends. Equal queries are sent once.

    :param topics: names of topics; None where there is a pattern.
    :param pattern: a regular expression of whole names.
    :param timestamps: in ms; the first offset at or after each, for every partition.
    :param newest: include the largest timestamp of every partition.
    :param retention: include the topics' configurations, which show what retention may have deleted.
    :param reached: include which of these logs were cut since.
    :param group_id: include the commits of this consumer group.
    :param checkpoint_location: include the finished offsets of this checkpoint.
    """

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    timestamps: frozenset[int] = frozenset()
    newest: bool = False
    retention: bool = False
    reached: frozenset[Reached] = frozenset()
    group_id: str | None = None
    checkpoint_location: str | None = None

    @property
    def selection(self) -> Selection:
        return Selection(self.topics, self.pattern, None)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """The state of a cluster at one moment, for a set of queries.

    A failure for one topic, group or checkpoint affects only the queries for it.

    :param names: all topics that the login may see.
    :param newest: the largest timestamp in a partition, in ms; None if it is empty.
    :param committed: by group.
    :param finished: by checkpoint location.
    :param cut_at: where logs ended when they were cut, of those of the queries that were.
    :param failures: by the object of the request: ``("topic", "orders")``, ``("group", ...)``, ``("checkpoint", ...)``.
    """

    cluster: ClusterState
    names: frozenset[str] = frozenset()
    newest: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    committed: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    finished: Mapping[str, Position] = field(default_factory=dict)
    cut_at: Mapping[Reached, int] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], KafkaSparkError] = field(default_factory=dict)
    # Computed once for all sensors: a thousand of them may read the same partitions.
    _partitions: dict[str, dict[TopicPartition, PartitionState]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    @property
    def asked_or_listed(self) -> frozenset[str]:
        """All topics that are listed, and those that are not and were refused; reading one of these raises why."""
        return self.names | {name for kind, name in self.failures if kind == "topic"}

    def topic(self, name: str) -> TopicState:
        """:raises KafkaSparkError: if its request failed."""
        self._raise_failure("topic", name)
        return self.cluster.topic(name)

    def known(self, names: Collection[str]) -> KnownTopics:
        """What the offsets of topics are of.

        :raises KafkaSparkError: if the request for one of them failed.
        """
        ids = {name: topic_id for name in sorted(names) if (topic_id := self.topic(name).topic_id) is not None}
        return KnownTopics(ids, self.cluster.cluster_id)

    def partitions(self, names: Collection[str]) -> dict[TopicPartition, PartitionState]:
        """:raises KafkaSparkError: if the request for one of them failed."""
        found: dict[TopicPartition, PartitionState] = {}
        for name in sorted(names):
            topic = self.topic(name)
            of_topic = self._partitions.get(name)
            if of_topic is None:
                of_topic = {TopicPartition(name, number): state for number, state in sorted(topic.partitions.items())}
                self._partitions[name] = of_topic
            found |= of_topic
        return found

    def epochs(self, names: Collection[str]) -> dict[TopicPartition, int]:
        """The epochs of the partitions' leaders, as far as brokers say them."""
        states = self.partitions(names).items()
        return {p: state.leader_epoch for p, state in states if state.leader_epoch is not None}

    def cut_of(self, p: TopicPartition, position: Position, *, is_same: bool) -> int | None:
        """Where a log ended when it was cut below a position; None if nothing is known of that.

        :param is_same: the topic is known to be that of the position, so that a log that is shorter was cut.
        """
        offset, high_watermark = position.offsets[p], self.cluster.partition(p).high_watermark
        epoch = position.epochs.get(p)
        cut = None if epoch is None else self.cut_at.get(Reached(p, offset, epoch))
        return high_watermark if cut is None and is_same and offset > high_watermark else cut

    def group(self, group_id: str) -> Mapping[TopicPartition, int]:
        """:raises KafkaSparkError: if its request failed."""
        self._raise_failure("group", group_id)
        return self.committed[group_id]

    def checkpoint(self, location: str) -> Position:
        """:raises KafkaSparkError: if its request failed."""
        self._raise_failure("checkpoint", location)
        return self.finished[location]

    def with_checkpoint(self, location: str, finished: Position | KafkaSparkError) -> BrokerSnapshot:
        """This snapshot with the finished offsets of a checkpoint, or with the reason why they are unknown."""
        if isinstance(finished, KafkaSparkError):
            return replace(self, failures={**self.failures, ("checkpoint", location): finished})
        return replace(self, finished={**self.finished, location: finished})

    def _raise_failure(self, kind: str, name: str) -> None:
        failure = self.failures.get((kind, name))
        if failure is not None:
            # Many sensors may raise it, and it would collect the traceback of each.
            raise failure.with_traceback(None)


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The result of one evaluation of a condition.

    :param met: whether it holds.
    :param text: a description for the log.
    :param value: what the task returns.
    :param xcoms: what else it pushes, by key.
    :param warnings: what the author should know.
    :param epochs: of the leaders of the partitions that were looked at.
    :param cut_from: the positions below which logs were cut.
    """

    met: bool
    text: str
    value: Any = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    cut_from: Mapping[TopicPartition, int] = field(default_factory=dict)
