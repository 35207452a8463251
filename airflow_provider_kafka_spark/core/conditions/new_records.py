"""The condition that there are new records, and where they are. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.checks import milliseconds, whole_number
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.since import (
    Position,
    Since,
    SinceCheckpoint,
    SinceGroup,
    SinceOffsets,
    SinceTimestamp,
    parse_since,
)
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    CheckpointMissingError,
    PlanError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, AtTimestamp, Earliest, RequestedOffset
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange, first_left, raise_on_data_loss, resolve_start


@dataclass(frozen=True, slots=True)
class NewRecords:
    """There are new records since a given position.

    Records are counted by offsets, including transaction markers, aborted and compacted records.

    :param max_wait_ms: the time after the timestamp of the first new record when fewer than ``min_records`` are enough.
        It uses the record's timestamp, so that no state is kept between two evaluations.
    """

    scope: TopicScope
    since: Since
    min_records: int = 1
    max_wait_ms: int | None = None

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        topic_pattern: Any = None,
        since: Any = None,
        min_records: Any = 1,
        max_wait_for_min: Any = None,
        fail_on_data_loss: bool = True,
        **common: Any,
    ) -> NewRecords:
        """:param common: as :meth:`TopicScope.parse` takes it by name.
        :raises InvalidInputError: naming the parameter that cannot be right.
        """
        condition = cls(
            TopicScope.parse(topics, topic_pattern, fail_on_data_loss, **common),
            parse_since(since),
            whole_number(min_records, "min_records", minimum=1),
            None if max_wait_for_min is None else milliseconds(max_wait_for_min, "max_wait_for_min"),
        )
        named = condition.scope.selection.topics
        if isinstance(condition.since, SinceOffsets) and named is not None:
            unread = sorted({p.topic for p in condition.since.bound.by_partition} - set(named))
            if unread:
                raise BoundError(
                    f"since must name only topics that are waited for; {', '.join(unread)} is not among "
                    f"{', '.join(named)}. Correct it, or add it to topics."
                )
        return condition

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "new_records",
            **self.scope.to_json(),
            "topic_pattern": self.scope.selection.pattern,
            "since": self.since.to_json(),
            "min_records": self.min_records,
            "max_wait_for_min": None if self.max_wait_ms is None else self.max_wait_ms / 1000,
            "fail_on_data_loss": self.scope.rules.fail_on_data_loss,
        }

    def query(self, now_ms: int) -> BrokerQuery:
        since = self.since
        timestamps = {since.epoch_ms, 0} if isinstance(since, SinceTimestamp) else set()
        cutoff = self._cutoff(now_ms)
        return BrokerQuery(
            *self.scope.topics_or_pattern,
            timestamps=frozenset(timestamps if cutoff is None else timestamps | {cutoff}),
            retention=isinstance(since, SinceTimestamp),
            reached=since.position.reached if isinstance(since, SinceOffsets) else frozenset(),
            group_id=since.group_id if isinstance(since, SinceGroup) else None,
            checkpoint_location=since.location if isinstance(since, SinceCheckpoint) else None,
        )

    def check(self, snapshot: BrokerSnapshot, now_ms: int) -> ConditionResult:
        """:param now_ms: the time for which the query was made.
        :raises DataLossError: if records since then have aged out, and that is not permitted.
        :raises PlanError: if since lies beyond the end, or names what does not exist.
        :raises BrokerUnavailableError: if the brokers describe fewer partitions of a topic than before.
        """
        # Check the group or the checkpoint before waiting for a topic: waiting does not correct an error there.
        self._position(snapshot)
        topics = self.scope.present_topics(snapshot)
        if isinstance(topics, str):
            return ConditionResult(False, f"Waiting for a topic: {topics}")
        partitions = snapshot.partitions(topics)
        starts, missing = self.starts(snapshot, partitions)
        raise_on_data_loss(missing, self.scope.rules)
        ends = {p: max(starts[p], self.scope.rules.end_of(state)) for p, state in partitions.items()}
        fresh = [OffsetRange(p.topic, p.partition, starts[p], end) for p, end in ends.items() if starts[p] < end]
        count, enough = sum(r.size for r in fresh), ""
        if count < self.min_records and not self._waited_long(fresh, snapshot, now_ms):
            return ConditionResult(
                False, f"{count:,} new records of {self.min_records:,} in {len(partitions)} partitions"
            )
        if count < self.min_records:
            enough = (
                f", fewer than {self.min_records:,}, and the first is older than {(self.max_wait_ms or 0) / 1000:g} s"
            )
        known = snapshot.known(topics)
        return ConditionResult(
            True,
            f"{count:,} new records in {len(fresh)} of {len(partitions)} partitions{enough}",
            value=known.dicts(fresh),
            xcoms={"offsets": known.offsets(ends)},
            epochs=snapshot.epochs(topics),
            cut_from={p: at for p, at in self._position(snapshot).offsets.items() if starts.get(p, at) < at},
            warnings=(
                *(f"{m.offset_range} is missing: {m.reason}" for m in missing),
                *(
                    f"The topic {name!r} of since is not there: it was deleted, or the login may not see it. Its "
                    "offsets count if it is there again."
                    for name in sorted(self._away(snapshot))
                ),
            ),
        )

    def starts(
        self, snapshot: BrokerSnapshot, partitions: Mapping[TopicPartition, PartitionState]
    ) -> tuple[dict[TopicPartition, int], list[MissingRange]]:
        """Where new records of every partition start, and which have aged out.

        :raises PlanError: as :meth:`check`.
        """
        starts: dict[TopicPartition, int] = {}
        missing = self._of_topics_before(snapshot, {p.topic for p in partitions})
        for p, requested in self._requested(snapshot, partitions, {m.offset_range.topic for m in missing}).items():
            starts[p], lost = self._start(requested, p, partitions[p], snapshot)
            missing += lost
        return starts, missing

    def _cutoff(self, now_ms: int) -> int | None:
        # Whole seconds, so that sensors with the same wait send the same query.
        return None if self.max_wait_ms is None else max(0, now_ms // 1000 * 1000 - self.max_wait_ms)

    def _waited_long(self, fresh: list[OffsetRange], snapshot: BrokerSnapshot, now_ms: int) -> bool:
        """Whether a first new record is older than the longest wait: then the first younger record comes after it."""
        cutoff = self._cutoff(now_ms)
        if cutoff is None:
            return False
        firsts = [(r, snapshot.cluster.first_at[(r.topic_partition, cutoff)]) for r in fresh]
        return any(first is None or first > r.from_offset for r, first in firsts)

    def _of_topics_before(self, snapshot: BrokerSnapshot, topics: Collection[str]) -> list[MissingRange]:
        """Where the topics of before stood that were deleted and recreated. How much of them was new is unknown."""
        position = self._position(snapshot)
        now = {name: snapshot.topic(name).topic_id for name in topics if name in position.topic_ids}
        return [
            MissingRange(
                OffsetRange(p.topic, p.partition, offset, offset),
                f"the topic was deleted and recreated (id {position.topic_ids[p.topic]}, now {now[p.topic]}), and "
                f"since is offset {offset} of the old one",
            )
            for p, offset in sorted(position.offsets.items())
            if now.get(p.topic) not in (None, position.topic_ids.get(p.topic))
        ]

    def _requested(
        self,
        snapshot: BrokerSnapshot,
        partitions: Mapping[TopicPartition, PartitionState],
        recreated: Collection[str],
    ) -> dict[TopicPartition, RequestedOffset]:
        since = self.since
        if isinstance(since, SinceTimestamp):
            return dict.fromkeys(partitions, AtTimestamp(since.epoch_ms))
        if isinstance(since, SinceOffsets):
            away = self._away(snapshot)
            unknown = sorted(p for p in since.bound.by_partition if p not in partitions and p.topic not in recreated)
            unknown = [p for p in unknown if p.topic not in away]
            snapshot.cluster.check_whole(unknown, since.position.topic_ids)
            if unknown:
                raise UnknownTopicError(
                    "since must name only partitions that exist and are waited for; "
                    f"{', '.join(map(str, unknown[:8]))} is not among the {len(partitions)} partitions of "
                    f"{', '.join(sorted({p.topic for p in partitions}))} (connection {snapshot.cluster.conn_id!r}). "
                    "Correct it. If there were more partitions before, the topic was deleted and recreated."
                )
        known = {p: offset for p, offset in self._position(snapshot).offsets.items() if p.topic not in recreated}
        return {p: AtOffset(known[p]) if p in known else Earliest() for p in partitions}

    def _away(self, snapshot: BrokerSnapshot) -> frozenset[str]:
        """The topics in ``since`` that match the pattern, and are not there now."""
        selection = self.scope.selection
        if selection.pattern is None or not isinstance(self.since, SinceOffsets):
            return frozenset()
        return selection.matching({p.topic for p in self.since.bound.by_partition} - snapshot.names)

    def _is_same(self, topic: str, snapshot: BrokerSnapshot) -> bool:
        """Whether a topic is known to be the one of the position."""
        return snapshot.cluster.is_same(topic, self._position(snapshot).topic_ids)

    def _position(self, snapshot: BrokerSnapshot) -> Position:
        if isinstance(self.since, SinceOffsets):
            return self.since.position
        if isinstance(self.since, SinceGroup):
            # A broker deletes a group's offsets with the topic.
            return Position(snapshot.group(self.since.group_id))
        if isinstance(self.since, SinceTimestamp):
            return Position({})
        try:
            return snapshot.checkpoint(self.since.location)
        except CheckpointMissingError:
            if not self.since.missing_is_earliest:
                raise
            return Position({})

    def _start(
        self, requested: RequestedOffset, p: TopicPartition, state: PartitionState, snapshot: BrokerSnapshot
    ) -> tuple[int, list[MissingRange]]:
        end = self.scope.rules.end_of(state)
        if isinstance(requested, AtTimestamp):
            return resolve_start(requested, p, state, snapshot.cluster, self.scope.rules, end)
        if not isinstance(requested, AtOffset):
            return min(state.log_start, end), []
        cut = snapshot.cut_of(p, self._position(snapshot), is_same=self._is_same(p.topic, snapshot))
        if cut is not None:
            start, aged = first_left(p, cut, state, end)
            reason = (
                f"the log was cut to {cut}, as by an unclean leader election, and {_where(self.since)} says "
                f"{requested.offset}; records that have taken these offsets are new"
            )
            return start, [MissingRange(OffsetRange(p.topic, p.partition, cut, requested.offset), reason), *aged]
        if requested.offset > state.high_watermark:
            raise PlanError(
                f"since must not lie beyond the end of the log; {_where(self.since)} says {requested.offset} for {p}, "
                f"which ends at {state.high_watermark} (connection {snapshot.cluster.conn_id!r}). Correct it. If the "
                "log was longer before, the topic was deleted and recreated, and the offsets of the old topic do "
                "not apply to the new one."
            )
        return first_left(p, requested.offset, state, end)


def _where(since: Since) -> str:
    if isinstance(since, SinceGroup):
        return f"the group {since.group_id!r}"
    return f"the checkpoint {since.location!r}" if isinstance(since, SinceCheckpoint) else "it"
