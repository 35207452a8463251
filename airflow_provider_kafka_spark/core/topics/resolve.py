"""Requested bounds and the state of the cluster -> exact offsets, and the missing ranges. No I/O.

The worker resolves them once, before Spark starts. Spark alone resolves ``latest`` per task and again for each action,
and an aged-out timestamp or ``earliest`` is never an error (``KafkaSourceRDD``, ``KafkaOffsetReaderAdmin``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.errors import BoundError, DataLossError, OpenTransactionError, PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.shown_text import first_ten, shortened
from airflow_provider_kafka_spark.core.topics.bounds import (
    AtOffset,
    AtTimestamp,
    Bound,
    Earliest,
    Latest,
    RequestedOffset,
    TimeWindow,
    iso,
    moment,
)
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics

#: Names that a message lists.
_MOST = 8
PERMIT_LOSS = "Pass fail_on_data_loss=False to copy what is left; the rest is then in missing_ranges of the result."


@dataclass(frozen=True, order=True, slots=True)
class MissingRange:
    """Requested offsets that the broker no longer has.

    :param reason: why, in words.
    :param topic_id: of the topic that had them, if it is not the one that is there now.
    """

    offset_range: OffsetRange
    reason: str
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedRanges:
    """The ranges to read, the missing ranges, warnings for the author, and the window that the ranges were cut by.

    :param leaves_out: they have not what other runs have copied of what was asked for.
    """

    ranges: OffsetRanges
    missing: tuple[MissingRange, ...] = ()
    warnings: tuple[str, ...] = ()
    window: TimeWindow | None = None
    leaves_out: bool = False


@dataclass(frozen=True, slots=True)
class ReadRules:
    """How to read.

    :param read_committed: end at the last stable offset and leave out aborted records.
    :param fail_on_data_loss: aged-out offsets are an error.
    """

    read_committed: bool = True
    fail_on_data_loss: bool = True

    def end_of(self, state: PartitionState) -> int:
        # The two are fetched one after the other, so on a live topic the last stable offset may exceed the high
        # watermark.
        return min(state.last_stable, state.high_watermark) if self.read_committed else state.high_watermark


def resolve_window(
    selection: Selection, starting: Bound, ending: Bound, cluster: ClusterState, rules: ReadRules
) -> ResolvedRanges:
    """One range for every selected partition; a partition without requested records gets an empty one.

    :raises BoundError: if an end lies in the future, or a partition has no bound or an unknown one has.
    :raises UnknownTopicError: if a topic or partition does not exist.
    :raises DataLossError: if requested records have aged out and ``rules.fail_on_data_loss`` is set.
    :raises PlanError: if an offset lies beyond the log.
    """
    partitions = selection.partitions(cluster)
    for name, bound in (("starting_offsets", starting), ("ending_offsets", ending)):
        _raise_if_unselected(bound, name, partitions)
        _raise_if_of_others(bound, name, cluster)
    ranges: list[OffsetRange] = []
    missing: list[MissingRange] = []
    states = {p: cluster.partition(p) for p in partitions}
    for partition, state in states.items():
        end = _resolve_end(ending.requested_for(partition), partition, state, cluster, rules)
        start, lost = resolve_start(starting.requested_for(partition), partition, state, cluster, rules, end)
        if start > end:
            raise BoundError(
                f"The start must not lie after the end; {partition} would start at {start} and end at {end}. Correct "
                "the offsets of this partition."
            )
        missing += lost
        missing += _lost_by_cut(partition, starting, ending, end, cluster)
        ranges.append(OffsetRange(partition.topic, partition.partition, start, end))
    gone = {m.offset_range.topic_partition for m in missing}
    whole = [p for p in partitions if p not in gone]
    to_latest = {p: state for p, state in states.items() if isinstance(ending.requested_for(p), Latest)}
    warnings = (
        *open_transactions(to_latest, rules),
        *_unproven(whole, starting, cluster),
        *_open_ended(ranges, ending, cluster),
        *_lowered(ranges, starting, cluster),
        *_ahead(partitions, cluster),
    )
    return ResolvedRanges(OffsetRanges(ranges), raise_on_data_loss(missing, rules), warnings)


def _unproven(partitions: Iterable[TopicPartition], starting: Bound, cluster: ClusterState) -> Iterator[str]:
    """A warning of a start at a moment from before which no record is left."""
    found = []
    for partition in partitions:
        requested = starting.requested_for(partition)
        if isinstance(requested, AtTimestamp) and not _is_whole_from(requested, partition, cluster):
            found.append(partition)
    if found:
        yield (
            f"No record from before the window's start is left in {shortened(found, most=_MOST)}. The topic's "
            "retention explains that, if nothing was written there for so long; records of the window that were "
            "deleted (DeleteRecords) would look the same."
        )


def _open_ended(ranges: Iterable[OffsetRange], ending: Bound, cluster: ClusterState) -> Iterator[str]:
    """A warning of an end at a moment that the log has not reached."""
    found = []
    for partition in (r.topic_partition for r in ranges if not r.is_empty):
        requested = ending.requested_for(partition)
        if isinstance(requested, AtTimestamp) and cluster.first_at[(partition, requested.epoch_ms)] is None:
            found.append(partition)
    if found:
        yield (
            f"No record at or after the window's end has arrived yet in {shortened(found, most=_MOST)}, so the "
            "window is cut at the end of the log there: late records of this window that arrive from now on will be "
            "in the next one."
        )


def _lost_by_cut(
    partition: TopicPartition, starting: Bound, ending: Bound, end: int, cluster: ClusterState
) -> list[MissingRange]:
    """What a window had before its end, when that was decided, and the log has lost since.

    :param end: where the log was cut, if it was.
    """
    decided = _decided(partition, ending, cluster)
    first = max(end, _decided(partition, starting, cluster) or end)
    if decided is None or decided <= first:
        return []
    lost = OffsetRange(partition.topic, partition.partition, first, decided)
    return [MissingRange(lost, f"the log was cut at {end} by an unclean leader election, and other records follow")]


def _lowered(ranges: Iterable[OffsetRange], starting: Bound, cluster: ClusterState) -> Iterator[str]:
    """A warning of a start where a log was cut, since that is before the place that had been decided."""
    begins = ((r, _decided(r.topic_partition, starting, cluster)) for r in ranges)
    found = tuple(f"{r.topic_partition} at {r.from_offset} instead of {at}" for r, at in begins if at is not None)
    if found:
        yield (
            "An unclean leader election has cut logs since the start of this window was decided: it begins with what "
            f"follows the cut, in {shortened(found, most=_MOST)}. Earlier records that were copied from there stay in "
            "the target; the source has lost them. Whether it has lost others is not known."
        )


def _decided(partition: TopicPartition, bound: Bound, cluster: ClusterState) -> int | None:
    """Where a window was to be cut, if its log was cut before that place since."""
    requested = bound.requested_for(partition)
    return cluster.lowered.get((partition, requested.epoch_ms)) if isinstance(requested, AtTimestamp) else None


def _ahead(partitions: Collection[TopicPartition], cluster: ClusterState) -> list[str]:
    """A warning of records from the future, which bound no window."""
    ahead = [(p, *cluster.ahead[p]) for p in partitions if p in cluster.ahead]
    found = [f"{p}@{offset:,} ({moment(ms)})" for p, offset, ms in ahead]
    if not found:
        return []
    return [
        "Records have times in the future, such as from a producer that writes microseconds: "
        f"{shortened(found, most=_MOST)}. A time that is not credible bounds no window; such a record is copied with "
        "those beside it."
    ]


def resolve_replay(
    wanted: OffsetRanges, cluster: ClusterState, rules: ReadRules, known: KnownTopics | None = None
) -> ResolvedRanges:
    """Exactly the given ranges, checked against the log.

    :param known: what they are of: nothing of a range is left if its topic is another one now.
    :raises UnknownTopicError: if a topic or partition does not exist.
    :raises DataLossError: if part of a range is gone and ``rules.fail_on_data_loss`` is set.
    :raises PlanError: if a range lies beyond the log.
    """
    known, topics = known or KnownTopics(), {r.topic for r in wanted}
    changes = known.changes(topics, cluster)
    kept: list[OffsetRange] = []
    missing: list[MissingRange] = []
    for r in wanted:
        if r.topic in changes:
            missing.append(MissingRange(r, changes[r.topic], known.topic_ids.get(r.topic, "")))
            continue
        state = cluster.partition(r.topic_partition)
        check_end(r.until_offset, r.topic_partition, state, rules)
        start, lost = first_left(r.topic_partition, r.from_offset, state, r.until_offset)
        missing += lost
        kept.append(OffsetRange(r.topic, r.partition, start, r.until_offset))
    warnings = tuple(known.unchecked(topics, cluster))
    # Two ranges that have aged out completely may become the same empty range.
    return ResolvedRanges(OffsetRanges(set(kept)), raise_on_data_loss(missing, rules), warnings)


def timestamps_in(*bounds: Bound) -> tuple[int, ...]:
    """The timestamps in ms to query. They include 0, for the first record that is left, if there are any."""
    all_requested = [requested for bound in bounds for requested in (bound.default, *bound.by_partition.values())]
    asked = {requested.epoch_ms for requested in all_requested if isinstance(requested, AtTimestamp)}
    return tuple(sorted(asked | {0})) if asked else ()


def resolve_start(
    requested: RequestedOffset,
    partition: TopicPartition,
    state: PartitionState,
    cluster: ClusterState,
    rules: ReadRules,
    end: int,
) -> tuple[int, list[MissingRange]]:
    if isinstance(requested, Earliest):
        return first_left(partition, state.log_start if end >= state.log_start else 0, state, end)
    if isinstance(requested, AtOffset):
        if requested.offset > rules.end_of(state):
            check_end(requested.offset, partition, state, rules)
        return first_left(partition, requested.offset, state, end)
    if isinstance(requested, AtTimestamp):
        cut = cluster.cuts.get((partition, requested.epoch_ms))
        if cut is not None and cut < state.log_start:
            return first_left(partition, cut, state, end)
        first = cluster.first_at[(partition, requested.epoch_ms)] if cut is None else cut
        start = end if first is None else min(first, end)
        if _is_whole_from(requested, partition, cluster) or _is_explained_by_retention(requested, partition, cluster):
            return start, []
        # How much is gone is unknown, so the missing range is empty.
        where = OffsetRange(partition.topic, partition.partition, start, start)
        return start, [
            MissingRange(
                where,
                f"may have aged out or been deleted: the log now starts at {state.log_start}, and no record before "
                f"{iso(requested.epoch_ms)} is left to show that the window is whole",
            )
        ]
    return end, []


def first_left(p: TopicPartition, offset: int, state: PartitionState, end: int) -> tuple[int, list[MissingRange]]:
    """The first offset from ``offset`` on that has not aged out, at most ``end``; and what has aged out before it."""
    start = max(offset, min(state.log_start, end))
    if start == offset:
        return start, []
    gone = OffsetRange(p.topic, p.partition, offset, start)
    return start, [MissingRange(gone, f"aged out: the log now starts at {state.log_start}")]


def _is_whole_from(start: AtTimestamp, partition: TopicPartition, cluster: ClusterState) -> bool:
    """Whether the log proves that no record since a time was deleted.

    Deletion starts at the oldest record, so a remaining record from before that time is the proof.
    """
    if cluster.partition(partition).log_start == 0:
        return True
    first, first_left = cluster.first_at[(partition, start.epoch_ms)], cluster.first_at.get((partition, 0))
    return first_left is not None and (first is None or first_left < first)


def _is_explained_by_retention(start: AtTimestamp, partition: TopicPartition, cluster: ClusterState) -> bool:
    """Whether retention may have deleted the records before a time, and has kept all records since.

    It keeps records younger than ``retention.ms`` if no size limits the log. If it is switched off (-1), the records
    were deleted in another way.
    """
    config = cluster.topic(partition.topic).config
    retention = config.get("retention.ms", "")
    if config.get("retention.bytes") != "-1" or not retention.isdecimal():
        return False
    return int(retention) >= cluster.now_ms - start.epoch_ms


def _resolve_end(
    requested: RequestedOffset,
    partition: TopicPartition,
    state: PartitionState,
    cluster: ClusterState,
    rules: ReadRules,
) -> int:
    if isinstance(requested, Latest):
        return rules.end_of(state)
    if isinstance(requested, AtOffset):
        check_end(requested.offset, partition, state, rules)
        return requested.offset
    if isinstance(requested, AtTimestamp):
        cut = cluster.cuts.get((partition, requested.epoch_ms))
        first = cluster.first_at[(partition, requested.epoch_ms)] if cut is None else cut
        end = state.high_watermark if first is None else first
        if rules.read_committed and end > state.last_stable:
            raise _beyond_last_stable(end, partition, state)
        return end
    raise BoundError(f"A bounded copy cannot end at the earliest offset; got {requested!r} for {partition}.")


def check_end(end: int, partition: TopicPartition, state: PartitionState, rules: ReadRules) -> None:
    """:raises PlanError: if an end lies beyond the log.
    :raises OpenTransactionError: if it lies in an open transaction.
    """
    if end > state.high_watermark:
        raise PlanError(
            f"An offset of a bounded copy must not lie beyond the log; got {end} for {partition}, which ends at "
            f"{state.high_watermark}. Correct the offset. If the log was longer before, the topic was deleted and "
            "recreated."
        )
    if end > rules.end_of(state):
        raise _beyond_last_stable(end, partition, state)


def _beyond_last_stable(end: int, partition: TopicPartition, state: PartitionState) -> OpenTransactionError:
    return OpenTransactionError(
        f"The copy of {partition} should reach offset {end}, and an open transaction hides everything from "
        f"{state.last_stable} on (the last stable offset; the log ends at {state.high_watermark}). Wait until the "
        "transaction ends, end the copy before it, or pass isolation_level='read_uncommitted', which also copies "
        "aborted records."
    )


def open_transactions(states: Mapping[TopicPartition, PartitionState], rules: ReadRules) -> list[str]:
    """A warning if transactions hide the end of logs."""
    hidden = {p: count for p, state in states.items() if (count := state.high_watermark - rules.end_of(state))}
    if len(hidden) > 1:
        shown = first_ten([f"{p} ({count:,} after {states[p].last_stable})" for p, count in hidden.items()])
        return [
            f"Open transactions hide the last offsets of {len(hidden):,} partitions; the copy ends at the last stable "
            f"offset there: {', '.join(shown)}."
        ]
    return [
        f"{p}: an open transaction hides the last {count:,} offsets; the copy ends at the last stable offset "
        f"{states[p].last_stable}."
        for p, count in hidden.items()
    ]


def _raise_if_unselected(bound: Bound, name: str, partitions: tuple[TopicPartition, ...]) -> None:
    unknown = sorted(set(bound.by_partition) - set(partitions))
    if unknown:
        raise BoundError(
            f"{name} must name only partitions that are read; {', '.join(map(str, unknown))} is not among "
            f"{shortened(partitions, most=_MOST)}. Correct it, or add it to topics or assign."
        )


def _raise_if_of_others(bound: Bound, name: str, cluster: ClusterState) -> None:
    changes = KnownTopics(bound.topic_ids).changes(bound.topic_ids, cluster)
    if changes:
        raise DataLossError(
            f"{name} must be of the topics as they are now; {shortened(changes.values(), most=_MOST)}. So these "
            "offsets hold other records. Let the sensor that found them look again, or leave topic_id out of them."
        )


def raise_on_data_loss(missing: list[MissingRange], rules: ReadRules) -> tuple[MissingRange, ...]:
    """:raises DataLossError: if anything is missing and ``rules`` does not permit it."""
    if missing and rules.fail_on_data_loss:
        raise DataLossError(
            "Requested records are no longer available: "
            + shortened((f"{m.offset_range}: {m.reason}" for m in missing), "; ", _MOST)
            + f". {PERMIT_LOSS}"
        )
    return tuple(missing)
