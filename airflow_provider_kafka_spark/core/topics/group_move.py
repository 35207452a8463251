"""The move of a consumer group to the copies of its topics: its result, and what its author should know. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.core.errors import DataLossError, GroupOffsetsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.group_offsets import (
    AHEAD,
    GroupTranslation,
    SourcePosition,
    TargetPosition,
)

PLAN_ONLY = "PLAN ONLY: nothing was committed"


@dataclass(frozen=True)
class GroupMove:
    """A translation that was not committed yet.

    :param old: the target group's offsets now.
    """

    group_id: str
    target_group_id: str
    targets: Mapping[str, str]
    sources: tuple[SourcePosition, ...]
    positions: tuple[TargetPosition, ...]
    old: Mapping[TopicPartition, int]
    translations: tuple[GroupTranslation, ...]
    target_ids: Mapping[str, str | None]
    warnings: tuple[str, ...]

    @property
    def missing(self) -> list[OffsetRange]:
        return [r for translation in self.translations for r in translation.missing()[0]]

    @property
    def lines(self) -> list[str]:
        """For the log: where the group goes in each partition."""
        return [f"{p.partition}: {_text(self.old.get(p.partition))} -> {p.offset:,} ({p.at})" for p in self.positions]

    def checked(self, *, may_lose: bool) -> GroupMove:
        """The same, with a warning if the target lacks records that the group has not consumed.

        :raises DataLossError: if it does, and that is not permitted.
        """
        missing = self.missing
        if not missing:
            return self
        text = (
            f"{sum(r.size for r in missing):,} records that the group {self.group_id!r} has not consumed are not in "
            f"the target: {shortened(missing, '; ')}"
        )
        if not may_lose:
            raise DataLossError(
                f"{text}. They were not copied yet, filtered out, or have aged out of the target. Finish the copy, or "
                "pass fail_on_data_loss=False if they are not wanted."
            )
        return replace(self, warnings=(*self.warnings, text))

    def result(self, *, plan_only: bool) -> dict[str, Any]:
        """What the task returns."""
        missing = self.missing
        return {
            "version": 1,
            "state": "planned" if plan_only else "committed",
            "group_id": self.group_id,
            "target_group_id": self.target_group_id,
            "topics": dict(self.targets),
            "sources": [
                {
                    "topic": s.partition.topic,
                    "partition": s.partition.partition,
                    "committed": s.committed,
                    "end": s.end,
                    "missing": sum(r.size for r in missing if r.topic_partition == s.partition),
                }
                for s in self.sources
            ],
            "partitions": [
                {
                    "topic": p.partition.topic,
                    "partition": p.partition.partition,
                    "old": self.old.get(p.partition),
                    "new": p.offset,
                    "at": p.at,
                    "seen_again": p.seen_again,
                }
                for p in self.positions
            ],
            "seen_again": sum(p.seen_again for p in self.positions),
            "missing": sum(r.size for r in missing),
            "records_read": sum(t.records_read for t in self.translations),
            "warnings": [*self.warnings, *([PLAN_ONLY] if plan_only else [])],
        }


def source_positions(
    cluster: ClusterState, topics: Sequence[str], committed: Mapping[TopicPartition, int]
) -> list[SourcePosition]:
    """Where the group is in each partition of the topics.

    :raises GroupOffsetsError: if an offset is beyond the end: the topic is not the one that was consumed.
    """
    return [
        _source_position(cluster, TopicPartition(name, number), committed)
        for name in topics
        for number in sorted(cluster.topic(name).partitions)
    ]


def _source_position(
    cluster: ClusterState, partition: TopicPartition, committed: Mapping[TopicPartition, int]
) -> SourcePosition:
    state, offset = cluster.partition(partition), committed.get(partition)
    if offset is not None and offset > state.high_watermark:
        raise GroupOffsetsError(
            f"A committed offset must be at or before the end of its partition; that of {partition} is {offset:,}, and "
            f"the end is {state.high_watermark:,} (connection {cluster.conn_id!r}). The topic was probably deleted and "
            "recreated: set the group's offset on the source first."
        )
    return SourcePosition(partition, offset, state.log_start, state.last_stable)


def warnings_of_sources(sources: Sequence[SourcePosition], group_id: str) -> list[str]:
    """What of the source counts as not consumed, or is gone."""
    without = [repr(str(s.partition)) for s in sources if s.committed is None and s.log_start < s.end]
    aged = [repr(str(s.partition)) for s in sources if s.committed is not None and s.committed < s.log_start]
    warnings = []
    if without:
        warnings.append(
            f"The group {group_id!r} has no offset for {shortened(without)}: all of its records count as not consumed"
        )
    if aged:
        warnings.append(
            f"The source has no longer all that the group {group_id!r} has not consumed of "
            f"{shortened(aged)}; what the target has of it is not skipped"
        )
    return warnings


def check_found(translation: GroupTranslation, sources: Sequence[SourcePosition]) -> None:
    """:raises GroupOffsetsError: if the target has no record of a topic that had records to copy."""
    lacking = sorted({s.partition.topic for s in sources if s.log_start < s.end} - translation.found())
    if lacking and not translation.found():
        raise GroupOffsetsError(
            f"The target topic {translation.topic!r} must have records that a copy of "
            f"{shortened(map(repr, lacking))} has written with provenance='headers', or that the segments of the "
            "results in of lead to; none was found. Copy the topic first, or pass of=copy.output; if the records have "
            "aged out of the target, set the group's offsets there by hand."
        )


def warnings_of_targets(
    positions: Sequence[TargetPosition], old: Mapping[TopicPartition, int], cluster: ClusterState, group_id: str
) -> list[str]:
    """What the group will not see, or see again.

    :param old: the group's offsets on the target now.
    """
    return [
        *_warnings_of_others(positions, cluster),
        *_warnings_of_kept(positions, group_id),
        *_warnings_of_replaced(positions, old, group_id),
    ]


def _warnings_of_others(positions: Sequence[TargetPosition], cluster: ClusterState) -> list[str]:
    warnings = []
    for p in positions:
        if p.passed_over:
            warnings.append(
                f"{p.partition}: at least {p.passed_over:,} records that no copy has written are before offset "
                f"{p.offset:,}, and the group will not see them"
            )
        elif p.at == "start" and cluster.partition(p.partition).last_stable > p.offset:
            warnings.append(f"{p.partition} has only records that no copy has written; the group will see all of them")
    return warnings


def _warnings_of_kept(positions: Sequence[TargetPosition], group_id: str) -> list[str]:
    kept = [f"{p.partition} at {p.offset:,}" for p in positions if p.at == AHEAD]
    if not kept:
        return []
    return [
        f"The group {group_id!r} is ahead on the target of what it has consumed on the source, and stays there: "
        f"{shortened(kept)}. move_back=True moves it back"
    ]


def _warnings_of_replaced(
    positions: Sequence[TargetPosition], old: Mapping[TopicPartition, int], group_id: str
) -> list[str]:
    changes = [
        f"{p.partition} from {old[p.partition]:,} to {p.offset:,}"
        for p in positions
        if old.get(p.partition, p.offset) != p.offset
    ]
    if not changes:
        return []
    return [f"The group {group_id!r} has offsets on the target already, which are replaced: {shortened(changes)}"]


def _text(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"
