"""Which records a watcher has announced and announces next: every new record once, over restarts. No I/O, no clock.

The state is stored before an event is sent, and again when the event is acknowledged. After a crash in between, the
same event is sent again with the same number; no other event overlaps it.
"""

from __future__ import annotations

import reprlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.since import Position, Since, SinceOffsets
from airflow_provider_kafka_spark.core.errors import BoundError
from airflow_provider_kafka_spark.core.ledger.entry import entries_in
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, Bound, Earliest
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.known_topics import CLUSTER_ID, TOPIC_ID, KnownTopics, offsets_in
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from airflow_provider_kafka_spark.core.wire.codec import decode, encode

STATE_VERSION, EVENT_VERSION = 2, 1
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event that is sent and not acknowledged.

    :param offsets: end of the announced records after it.
    """

    number: int
    ranges: tuple[OffsetRange, ...]
    warnings: tuple[str, ...]
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class WatchState:
    """The progress of a watcher.

    :param number: how many events were acknowledged.
    :param offsets: end of the announced records, or the start of the watch.
    :param topic_ids: of the topics at that time.
    :param selection: what was watched.
    :param epochs: of the leaders of the partitions when these offsets were last found in the log, as far as known; it
        stays while a partition is away.
    """

    number: int
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    selection: Mapping[str, Any]
    pending: PendingEvent | None = None
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        return Position(self.offsets, self.topic_ids, self.epochs)

    def to_json(self) -> dict[str, Any]:
        return encode(self, STATE_VERSION)

    @classmethod
    def from_json(cls, value: object) -> WatchState:
        """:raises ProtocolError: if this package did not write it."""
        name = "The state of a watcher in the asset state store"
        remedy = "Delete it to start the watch again from its 'since'."
        return decode(cls, value, version=STATE_VERSION, name=name, remedy=remedy)

    def acknowledged(self) -> WatchState:
        """The state after the pending event is acknowledged."""
        if self.pending is None:
            return self
        offsets = {**self.offsets, **self.pending.offsets}
        return replace(self, number=self.pending.number, offsets=offsets, pending=None)

    def event(self) -> dict[str, Any] | None:
        """The pending event, as it is in the asset event."""
        if self.pending is None:
            return None
        event = {key: value for key, value in encode(self.pending, EVENT_VERSION).items() if key != "offsets"}
        return {**event, "ranges": KnownTopics(self.topic_ids).marked(event["ranges"])}


@dataclass(frozen=True, slots=True)
class Watch:
    """What a watcher waits for.

    :param condition: when there are new records; its ``since`` is where the first evaluation starts.
    :param from_latest: the first evaluation starts at the end of the log instead.
    """

    condition: NewRecords
    from_latest: bool = False

    @classmethod
    def parse(cls, *, since: Any = LATEST, **parameters: Any) -> Watch:
        """:param parameters: as :meth:`NewRecords.parse` takes them.
        :raises InvalidInputError: naming the parameter that cannot be right.
        """
        from_latest = since == LATEST
        condition = NewRecords.parse(
            since="earliest" if from_latest else since, fail_on_data_loss=False, missing_topic="wait", **parameters
        )
        return cls(condition, from_latest)

    @property
    def since(self) -> Any:
        """As :meth:`parse` takes it, as plain JSON."""
        return LATEST if self.from_latest else self.condition.since.to_json()

    def query(self, state: WatchState | None, now_ms: int) -> BrokerQuery:
        begins = state is None or dict(state.selection) != self._selection_json()
        condition = self.condition if begins else self._from_offsets({})
        reached = frozenset[Reached]() if state is None else state.position.reached
        return replace(condition.query(now_ms), reached=reached)

    def evaluate(
        self, state: WatchState | None, snapshot: BrokerSnapshot, now_ms: int
    ) -> tuple[WatchState, tuple[str, ...]]:
        """The next state, with a pending event if there are new records.

        A topic that does not exist is waited for. One that was recreated, and partitions that were added, count
        from their beginning, and a log that was cut from its end. The event names records that have aged out.

        :param state: the last state, without a pending event; None at the first evaluation.
        :return: the state, and warnings to log.
        :raises PlanError: if the first evaluation starts beyond the end of the log.
        """
        scope = self.condition.scope
        topics = scope.selection.matching(snapshot.names)
        ids = {name: topic_id for name in topics if (topic_id := snapshot.topic(name).topic_id) is not None}
        selection = self._selection_json()
        before = state or WatchState(0, {}, {}, {})
        is_same_watch = dict(before.selection) == selection
        notes: list[str] = []
        if state is not None and not is_same_watch:
            notes.append(
                f"What is watched has changed, from {dict(before.selection)} to {selection}. (Two watchers of one "
                "asset need two names.)"
            )
        offsets = {p: offset for p, offset in before.offsets.items() if p.topic not in topics}
        epochs = {p: epoch for p, epoch in before.epochs.items() if p.topic not in topics}
        for topic in sorted(topics):
            starts, note, kept = self._starts_of(topic, before, snapshot, is_same_watch)
            offsets |= starts
            notes += note
            epochs |= kept
        # The log of the leader of now has these offsets too.
        epochs |= snapshot.epochs(topics)
        after = WatchState(before.number, offsets, {**before.topic_ids, **ids}, selection, epochs=epochs)
        if not topics:
            return after, tuple(notes)
        there = snapshot.partitions(topics)
        known = {p: offset for p, offset in offsets.items() if p in there}
        present = replace(scope, selection=Selection(tuple(sorted(topics)), None, None))
        result = replace(self._from_offsets(known), scope=present).check(snapshot, now_ms)
        if not result.met:
            return after, tuple(notes)
        warnings = [*notes, *result.warnings]
        ends = offsets_in(result.xcoms["offsets"])
        pending = PendingEvent(before.number + 1, tuple(map(OffsetRange.parse, result.value)), tuple(warnings), ends)
        # An epoch of before is not that of records that came since.
        asked = snapshot.epochs(topics).keys()
        epochs = {p: at for p, at in epochs.items() if p in asked or ends.get(p, offsets[p]) == offsets[p]}
        return replace(after, pending=pending, epochs=epochs), tuple(warnings)

    def _starts_of(
        self, topic: str, before: WatchState, snapshot: BrokerSnapshot, is_same_watch: bool
    ) -> tuple[dict[TopicPartition, int], list[str], dict[TopicPartition, int]]:
        """Where a topic's partitions stand now, what to say of it, and the epochs of before that still hold."""
        partitions = snapshot.partitions([topic])
        known = {p: offset for p, offset in before.offsets.items() if p.topic == topic}
        beginning = {p: state.log_start for p, state in partitions.items()}
        if known:
            old, new = before.topic_ids.get(topic), snapshot.topic(topic).topic_id
            is_known = old is not None and new is not None
            beyond = [p for p, offset in known.items() if p not in partitions or offset > partitions[p].high_watermark]
            if (old != new) if is_known else beyond:
                return beginning, [f"The topic {topic!r} was deleted and recreated; it counts from its beginning."], {}
            there = [p for p in known if p in partitions]
            cuts = {p: cut for p in there if (cut := snapshot.cut_of(p, before.position, is_same=is_known)) is not None}
            # A partition that is missing stays: a broker that was away may not know it yet.
            notes = [
                f"The log of {p} was cut from {known[p]} to {end}, as by an unclean leader election. The records that "
                "have taken these offsets are announced, with offsets that were announced before."
                for p, end in sorted(cuts.items())
            ]
            return {**beginning, **known, **cuts}, notes, {p: e for p, e in before.epochs.items() if p in known}
        if is_same_watch:
            return beginning, [], {}
        if self.from_latest:
            return {p: self.condition.scope.rules.end_of(state) for p, state in partitions.items()}, [], {}
        condition = replace(self.condition, since=_of_topic(self.condition.since, topic))
        return condition.starts(snapshot, partitions)[0], [], {}

    def _from_offsets(self, offsets: Mapping[TopicPartition, int]) -> NewRecords:
        known = {p: AtOffset(offset) for p, offset in offsets.items()}
        return replace(self.condition, since=SinceOffsets(Bound(Earliest(), known)))

    def _selection_json(self) -> dict[str, Any]:
        topics, pattern = self.condition.scope.topics_or_pattern
        return {"topics": None if topics is None else list(topics), "topic_pattern": pattern}


def announced_ranges(events: Iterable[Any]) -> list[dict[str, Any]]:
    """The offset ranges of a run's asset events, ready for ``ReplayOffsetRangesOperator``.

    A watcher's event has the ranges that it saw arrive in the watched topic. An operator's event has the ranges of the
    target that it wrote. A range of two events counts once. Each has the ``topic_id`` of its event, which a replay
    compares.

    :param events: ``triggering_asset_events[asset]``, or what is in their ``extra``.
    :raises BoundError: if one of them is not from a watcher or an operator of this package.
    """
    ranges: list[Any] = []
    for event in events:
        extra = event if isinstance(event, Mapping) else getattr(event, "extra", None)
        found = [_ranges_of(entry) for entry in entries_in(extra)]
        if not found or not all(isinstance(of_entry, list) for of_entry in found):
            raise BoundError(
                "An asset event must be from a KafkaNewRecordsTrigger or a copying operator, and have offset ranges; "
                f"got the extra {reprlib.repr(extra)}. Does anything else update the asset?"
            )
        ranges += chain.from_iterable(found)
    groups: dict[str, list[Any]] = defaultdict(list)
    for r in ranges:
        groups[f"{r.get(TOPIC_ID)} {r.get(CLUSTER_ID)}" if isinstance(r, Mapping) else ""].append(r)
    return [
        announced
        for of_ids in groups.values()
        for announced in KnownTopics.of_ranges(of_ids).dicts(OffsetRanges.parse(of_ids, merge_overlaps=True).merge())
    ]


def _ranges_of(extra: object) -> Any:
    if not isinstance(extra, Mapping):
        return None
    payload = extra.get("payload")
    return rows_in(payload.get("ranges") if isinstance(payload, Mapping) else extra.get("target_ranges"))


def _of_topic(since: Since, topic: str) -> Since:
    if not isinstance(since, SinceOffsets):
        return since
    own = {p: requested for p, requested in since.bound.by_partition.items() if p.topic == topic}
    return SinceOffsets(Bound(since.bound.default, own))
