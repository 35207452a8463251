"""What sensors ask of a cluster, and what it answered: one round of requests serves any number of them. No I/O, no
clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerQuery:
    """What one sensor needs to know. Equal needs are asked for once.

    :param topics: names of topics; None where there is a pattern.
    :param pattern: a regular expression of whole names.
    :param timestamps: in ms; the first offset at or after each is wanted for every partition.
    :param newest: the largest timestamp of every partition is wanted.
    :param retention: what retention may have deleted is wanted: the topics' configurations.
    :param identity: the ids of the topics are wanted.
    :param group_id: a consumer group whose commits are wanted.
    :param checkpoint_location: a checkpoint whose finished offsets are wanted.
    """

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    timestamps: frozenset[int] = frozenset()
    newest: bool = False
    retention: bool = False
    identity: bool = False
    group_id: str | None = None
    checkpoint_location: str | None = None

    @property
    def selection(self) -> Selection:
        return Selection(self.topics, self.pattern, None)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """What a cluster held at one moment, of all that was asked for.

    What failed for one topic, group or checkpoint fails only who asks about it.

    :param names: all topics that the login may see.
    :param newest: the largest timestamp in a partition, in ms; None if it is empty.
    :param committed: by group.
    :param finished: by checkpoint location.
    :param failures: by what was asked about: ``("topic", "orders")``, ``("group", ...)``, ``("checkpoint", ...)``.
    """

    cluster: ClusterState
    names: frozenset[str] = frozenset()
    newest: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    committed: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    finished: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], KafkaSparkError] = field(default_factory=dict)
    # Made once for all who ask: a thousand sensors look at the same partitions.
    _partitions: dict[str, dict[TopicPartition, PartitionState]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    def topic(self, name: str) -> TopicState:
        """:raises KafkaSparkError: what failed when it was asked about."""
        self._raise_failure("topic", name)
        return self.cluster.topic(name)

    def partitions(self, names: Collection[str]) -> dict[TopicPartition, PartitionState]:
        """:raises KafkaSparkError: what failed when one of them was asked about."""
        found: dict[TopicPartition, PartitionState] = {}
        for name in sorted(names):
            topic = self.topic(name)
            of_topic = self._partitions.get(name)
            if of_topic is None:
                of_topic = {TopicPartition(name, number): state for number, state in sorted(topic.partitions.items())}
                self._partitions[name] = of_topic
            found |= of_topic
        return found

    def group(self, group_id: str) -> Mapping[TopicPartition, int]:
        """:raises KafkaSparkError: what failed when it was asked about."""
        self._raise_failure("group", group_id)
        return self.committed[group_id]

    def checkpoint(self, location: str) -> Mapping[TopicPartition, int]:
        """:raises KafkaSparkError: what failed when it was asked about."""
        self._raise_failure("checkpoint", location)
        return self.finished[location]

    def with_checkpoint(
        self, location: str, finished: Mapping[TopicPartition, int] | KafkaSparkError
    ) -> BrokerSnapshot:
        """These facts, and how far the stream with that checkpoint is done, or why that cannot be told."""
        if isinstance(finished, KafkaSparkError):
            return replace(self, failures={**self.failures, ("checkpoint", location): finished})
        return replace(self, finished={**self.finished, location: finished})

    def _raise_failure(self, kind: str, name: str) -> None:
        failure = self.failures.get((kind, name))
        if failure is not None:
            # It may be raised by many, and would gather a traceback of each.
            raise failure.with_traceback(None)


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """What one look at a condition gave.

    :param met: whether it holds.
    :param text: what was seen, for the log.
    :param value: what the task returns.
    :param xcoms: what else it pushes, by key.
    :param warnings: what the author should know.
    """

    met: bool
    text: str
    value: Any = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
