"""Where a log is cut at a moment, decided once for the window that ends there and the one that begins there. No I/O.

The first record at or after a moment can be another one later: a log may have had none yet; compaction removes it; a
record with a time in the future becomes credible; a search by halves meets late records. Two windows that each search
would then both take what lies between, or neither would. So a cut that can change is kept where the other window finds
it, and counts as long as the topic is the same one and its log reaches so far.

If an unclean election has cut the log itself below such an offset, others have taken the offsets from there on. They
are of the later window: the one that ends there has copied what was lost, or can no longer copy it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from airflow_provider_kafka_spark.core.errors import PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import iso
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState
from airflow_provider_kafka_spark.core.topics.log_ends import Reached


@dataclass(frozen=True, slots=True)
class WindowCut:
    """The offsets at which logs are cut at one moment.

    :param cluster_id: of the source.
    :param topic_ids: of the topics that the offsets belong to.
    :param offsets: of the first record of the later window, as it was decided.
    :param epochs: of the leaders at that time, as far as brokers said them.
    :param cut_at: where logs were cut since that had reached these offsets, as far as it was seen.
    """

    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    cut_at: Mapping[TopicPartition, int] = field(default_factory=dict)

    def valid(self, cluster: ClusterState) -> dict[TopicPartition, int]:
        """The offsets that count for what the cluster has now: where the log was cut, if that is before them."""
        now = ((p, min(offset, self.cut_at.get(p, offset)), state) for p, offset, state in self._of_same_logs(cluster))
        return {p: offset for p, offset, state in now if offset <= state.high_watermark}

    def reached(self, cluster: ClusterState) -> set[Reached]:
        """What the brokers have to be asked about: offsets of logs that have another leader now."""
        known = ((Reached(p, at, self.epochs[p]), s) for p, at, s in self._of_same_logs(cluster) if p in self.epochs)
        return {reached for reached, state in known if reached.may_be_cut(state)}

    def after(self, log_cuts: Mapping[Reached, int]) -> WindowCut:
        """This one with where logs were cut, as brokers say it now. What was seen before may be forgotten there."""
        found = {p: log_cuts.get(Reached(p, offset, self.epochs.get(p, -1))) for p, offset in self.offsets.items()}
        new = {p: min(cut, self.cut_at.get(p, cut)) for p, cut in found.items() if cut is not None}
        return replace(self, cut_at={**self.cut_at, **new})

    def with_cuts(self, offsets: Mapping[TopicPartition, int], cluster: ClusterState) -> WindowCut:
        """This one with further offsets, without what does not count any longer."""
        valid = self.valid(cluster)
        new = {p: offset for p, offset in offsets.items() if p not in valid and _id(p, cluster)}
        epochs = {p: epoch for p in new if (epoch := cluster.partition(p).leader_epoch) is not None}
        return WindowCut(
            cluster.cluster_id,
            {p.topic: _id(p, cluster) for p in (*valid, *new)},
            {**_only(self.offsets, valid), **new},
            {**_only(self.epochs, valid), **epochs},
            _only(self.cut_at, valid),
        )

    def _of_same_logs(self, cluster: ClusterState) -> Iterator[tuple[TopicPartition, int, PartitionState]]:
        """Partitions of the topics that these offsets are of, each with its offset and what it has now."""
        if self.cluster_id != cluster.cluster_id:
            return
        for p, offset in self.offsets.items():
            topic = cluster.topics.get(p.topic)
            if topic is None or topic.topic_id is None or topic.topic_id != self.topic_ids.get(p.topic):
                continue
            if (state := topic.partitions.get(p.partition)) is not None:
                yield p, offset, state


def decide(
    cluster: ClusterState,
    partitions: Collection[TopicPartition],
    moments: Sequence[int],
    kept: Mapping[int, WindowCut],
) -> tuple[ClusterState, tuple[int, ...]]:
    """Decide the cuts of a window.

    What was decided stays. A settled answer stays too, since other windows may have used it; what is decided now keeps
    the order of both. A decision is kept for all partitions, so that the nearest ones are enough to keep the order.

    :param cluster: what the source has; searched for the moments.
    :param moments: of the window, in ms since 1970, in order.
    :param kept: what was decided before at these moments, and at the nearest ones before and after them.
    :return: the cluster with the cuts, and the moments whose cuts have to be kept.
    :raises PlanError: if windows overlap by what was decided.
    """
    cuts: dict[tuple[TopicPartition, int], int] = {}
    to_keep: set[int] = set()
    valid = {at: cut.valid(cluster) for at, cut in sorted(kept.items())}
    lowered: dict[tuple[TopicPartition, int], int] = {}
    for p in partitions:
        decided = {at: offsets[p] for at, offsets in valid.items() if p in offsets}
        found = {at: _found(cluster, p, at) for at in moments if at not in decided}
        settled = {at: offset for at, offset in found.items() if _is_settled(cluster, p, at)}
        for at, offset in found.items():
            fixed = decided if at in settled else {**settled, **decided}
            lowest = max((cut for other, cut in fixed.items() if other < at), default=0)
            highest = min((cut for other, cut in fixed.items() if other > at), default=offset)
            decided[at] = max(lowest, min(highest, offset))
            if at not in settled or decided[at] != offset:
                to_keep.add(at)
        cuts |= {(p, at): decided[at] for at in moments}
        first = {at: kept[at].offsets[p] for at in moments if p in valid.get(at, ())}
        lowered |= {(p, at): offset for at, offset in first.items() if offset > decided[at]}
        for earlier, later in pairwise(moments):
            if decided[earlier] > decided[later]:
                raise _overlap(p, earlier, decided[earlier], later, decided[later])
    return replace(cluster, cuts=cuts, lowered=lowered), tuple(sorted(to_keep))


def _overlap(p: TopicPartition, at: int, offset: int, later: int, before: int) -> PlanError:
    return PlanError(
        f"A window must not end before it starts; {p} was cut at {iso(at)} at offset {offset}, and at {iso(later)} at "
        f"{before}: its timestamps are far out of order, and the windows beside this one may have copied the offsets "
        "between twice. Copy this topic by offsets, or by one window."
    )


def _found(cluster: ClusterState, p: TopicPartition, epoch_ms: int) -> int:
    first = cluster.first_at[(p, epoch_ms)]
    return cluster.partition(p).high_watermark if first is None else first


def _is_settled(cluster: ClusterState, p: TopicPartition, epoch_ms: int) -> bool:
    policy = cluster.topic(p.topic).config.get("cleanup.policy", "")
    return (p, epoch_ms) not in cluster.unsettled and policy == "delete"


def _only(offsets: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return {p: offsets[p] for p in partitions if p in offsets}


def _id(p: TopicPartition, cluster: ClusterState) -> str:
    return cluster.topic(p.topic).topic_id or ""
