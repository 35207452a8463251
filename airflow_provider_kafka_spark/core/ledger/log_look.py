"""What the logs of source and target had when a copy was planned, for the ledger: nobody else asks brokers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark.core.ledger.entry import GroupLag
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules

_SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class LogLook:
    """One look at the logs of a copy's topics; with ``assign`` and in a replay only at the partitions that it names.

    :param at_ms: when, in ms since 1970.
    :param source: of each partition all offsets that a copy could read, from the first to the end.
    :param target: likewise all that it has, as far as the topics are known before the job.
    :param empty: offsets of the source after a planned range that have no record.
    :param lags: of the groups of ``pause_while_lag`` and ``commit_group_id``.
    """

    at_ms: int
    source: OffsetRanges
    target: OffsetRanges
    empty: OffsetRanges = field(default_factory=OffsetRanges)
    lags: tuple[GroupLag, ...] = ()

    @classmethod
    def of(
        cls,
        source: ClusterState,
        target: ClusterState,
        rules: ReadRules,
        empty: OffsetRanges,
        lags: tuple[GroupLag, ...] = (),
    ) -> LogLook:
        ends = {p: rules.end_of(state) for p, state in source.all_partitions()}
        return cls(source.now_ms, _whole(source, ends), _whole(target, {}), empty, lags)

    def to_entry(self, written: OffsetRanges) -> dict[str, Any]:
        """The keys of a ledger's entry.

        :param written: where the target has what the copy has written since.
        """
        ends: dict[TopicPartition, OffsetRange] = {r.topic_partition: r for r in self.target}
        for r in written.without_empty():
            known = ends.get(r.topic_partition, r)
            ends[r.topic_partition] = OffsetRange(
                r.topic, r.partition, known.from_offset, max(known.until_offset, r.until_offset)
            )
        at = datetime.fromtimestamp(self.at_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        log: dict[str, Any] = {
            "at": at,
            "source": self.source.format(),
            "target": OffsetRanges(ends.values()).format(),
        }
        if self.lags:
            log["groups"] = [
                {"group_id": g.group_id, "topic": g.topic, "side": _SIDES[g.of_target], "behind": g.behind}
                for g in self.lags
            ]
        return {"log": log, **({"empty_ranges": self.empty.format()} if self.empty else {})}


def lags_of(
    group_id: str, committed: Mapping[TopicPartition, int], cluster: ClusterState, *, of_target: bool
) -> tuple[GroupLag, ...]:
    """How far a group is behind the ends of the topics of which it has commits."""
    behind: dict[str, int] = {}
    for p, at in sorted(committed.items()):
        state = cluster.partition(p)
        behind[p.topic] = behind.get(p.topic, 0) + max(0, state.high_watermark - max(at, state.log_start))
    return tuple(GroupLag(group_id, topic, of_target, count) for topic, count in behind.items())


def holes_after(ranges: OffsetRanges, ends: Mapping[TopicPartition, int], most: int) -> OffsetRanges:
    """What lies between planned ranges, and after the last one of each partition, up to the end of the log.

    >>> holes = holes_after(OffsetRanges.parse(["a:0:0:5", "a:0:6:9"]), {TopicPartition("a", 0): 20}, most=9)
    >>> holes.format()
    ['a:0:5:6', 'a:0:9:20']

    :param ends: of the logs.
    :param most: how many of each partition.
    """
    holes: list[OffsetRange] = []
    for p, of_partition in ranges.without_empty().merge().by_partition():
        starts = [*(r.from_offset for r in of_partition[1:]), max(ends[p], of_partition[-1].until_offset)]
        between = [
            OffsetRange(p.topic, p.partition, r.until_offset, start)
            for r, start in zip(of_partition, starts, strict=True)
            if r.until_offset < start
        ]
        holes += between[-most:]
    return OffsetRanges(holes)


def _whole(cluster: ClusterState, ends: Mapping[TopicPartition, int]) -> OffsetRanges:
    return OffsetRanges(
        OffsetRange(p.topic, p.partition, state.log_start, max(state.log_start, ends.get(p, state.high_watermark)))
        for p, state in cluster.all_partitions()
    )
