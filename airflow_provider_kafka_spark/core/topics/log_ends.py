"""How far logs had reached, by which one is known that was cut since. No I/O.

An unclean election makes a replica the leader that lacks records, and others take their offsets. Each leader has an
epoch, and brokers know where the records of all leaders up to an epoch end (KIP-101; Kafka's consumer asks for it too,
KIP-320). If a log had reached an offset under an epoch, and its records up to that epoch end before the offset now,
then it was cut there, and what comes after are other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState


class Reached(NamedTuple):
    """How far a log had reached, and its leader's epoch then."""

    partition: TopicPartition
    offset: int
    epoch: int

    def may_be_cut(self, state: PartitionState | None) -> bool:
        """Whether the partition has had another leader since: only then its log can have been cut.

        :param state: of the partition now; None if it does not exist, or was not asked for.
        """
        return state is not None and state.leader_epoch not in (None, self.epoch)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """How far the logs of some partitions had reached.

    :param offsets: exclusive.
    :param epochs: of the leaders at that time, or of later ones, for the same partitions.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange], cluster: ClusterState) -> LogEnds:
        """That logs reach the ends of these ranges; a partition is left out if its broker does not say the epoch."""
        offsets: dict[TopicPartition, int] = {}
        for r in ranges:
            p = r.topic_partition
            if r.until_offset > offsets.get(p, -1):
                offsets[p] = r.until_offset
        epochs = {p: epoch for p in offsets if (epoch := cluster.partition(p).leader_epoch) is not None}
        return cls({p: offset for p, offset in offsets.items() if p in epochs}, epochs)

    def and_later(self, later: LogEnds) -> LogEnds:
        """The further one of both for each partition."""
        ends = {p: (offset, self.epochs[p]) for p, offset in self.offsets.items()}
        for p, offset in later.offsets.items():
            if p not in ends or ends[p][0] < offset:
                ends[p] = (offset, later.epochs[p])
        return LogEnds({p: end[0] for p, end in ends.items()}, {p: end[1] for p, end in ends.items()})

    def changed(self, cluster: ClusterState) -> LogEnds:
        """Those of partitions that have had another leader since: only they can have been cut."""
        offsets = {p: offset for p, offset in self.offsets.items() if self._has_changed(p, cluster)}
        return LogEnds(offsets, {p: self.epochs[p] for p in offsets})

    def _has_changed(self, p: TopicPartition, cluster: ClusterState) -> bool:
        topic = cluster.topics.get(p.topic)
        state = None if topic is None else topic.partitions.get(p.partition)
        return Reached(p, self.offsets[p], self.epochs[p]).may_be_cut(state)
