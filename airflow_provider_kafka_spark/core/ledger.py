"""What was copied, and what was not: entries of the ledger, and their coverage of the source's offsets. No I/O.

An entry is plain JSON in the ``extra`` of an asset event, or in the state of a task whose run has not ended well.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeGuard

from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.shown_text import one_line

ENTRY_VERSION = 1
#: The asset among the outlets of every copy, whose events are the ledger.
ASSET_NAME = "kafka_spark_copies"
#: Where an entry in an event has the entries of other operators that the same function has called.
MORE = "more"
#: Where the event of a topic names the asset whose events have the offsets of the source, if it has not.
SOURCES_IN = "sources_in"
#: Where a task's state has its entry.
STATE_KEY = "ledger"
_WIDTH = 60
#: Partitions of a picture; the log of a task is no place for thousands of lines.
_MAX_LINES = 64
#: Entries that a stretch names: a thousand runs over the same offsets would make a thousand lists of a thousand.
_MOST_BY = 10


class EntryState(str, enum.Enum):
    """How far the run of an entry is."""

    #: Planned, and about to be written. If its task no longer runs, nothing is known of what was written.
    RUNNING = "running"
    #: The task failed. What it is known to have delivered is in the entry.
    PARTIAL = "partial"
    #: Everything planned was delivered.
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The task instance that made an entry.

    :param run_id: Airflow's, of the DAG run.
    :param map_index: of a mapped task, otherwise -1.
    """

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id} / {self.run_id} / {self.task_id}{mapped}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry of the ledger.

    :param run_id: as in the provenance header.
    :param ranges: what of the source was read to its end and delivered.
    :param planned: what the run was to deliver; empty if it delivered everything.
    :param missing: what it could not read any more.
    :param target_topics: where it wrote.
    :param source: first bootstrap server of the source, as ``host:port``.
    :param source_cluster_id: empty if unknown, as the next one.
    :param topic_ids: id of each source topic, as far as it is known.
    :param target_ids: likewise of each target topic.
    :param topic_map: the only target of a source topic, where each has one of its own.
    :param filtered: records may have been left out on purpose.
    :param is_active: the task runs, or is going to.
    :param at: when the entry was made.
    """

    run_id: str
    state: EntryState
    ranges: OffsetRanges
    target_topics: tuple[str, ...]
    source: str
    target: str
    planned: OffsetRanges = field(default_factory=OffsetRanges)
    missing: OffsetRanges = field(default_factory=OffsetRanges)
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    topic_map: Mapping[str, str] = field(default_factory=dict)
    filtered: bool = False
    is_active: bool = True
    by: TaskRun = field(default_factory=TaskRun)
    at: datetime | None = None

    @classmethod
    def parse(
        cls, entry: object, by: TaskRun | None = None, at: datetime | None = None, *, is_active: bool = True
    ) -> Delivery | None:
        """
        :param entry: the ``extra`` of any asset event, or the value in a task's state.
        :return: None if it is no entry of this version of the ledger.
        """
        if not is_entry(entry):
            return None
        try:
            state = EntryState(entry["state"])
            ranges, planned, missing = (
                OffsetRanges.parse(_items(entry.get(name, [])), merge_overlaps=True)
                for name in ("offset_ranges", "planned_ranges", "missing_ranges")
            )
            return cls(
                run_id=str(entry["run_id"]),
                state=state,
                ranges=ranges,
                planned=OffsetRanges() if state is EntryState.COMPLETE else planned,
                missing=missing,
                target_topics=tuple(map(str, _items(entry["target_topics"]))),
                source=str(entry["source"]),
                target=str(entry["target"]),
                source_cluster_id=str(entry.get("source_cluster_id", "")),
                target_cluster_id=str(entry.get("target_cluster_id", "")),
                topic_ids={str(name): str(topic_id) for name, topic_id in dict(entry["source_topic_ids"]).items()},
                target_ids={str(name): str(of) for name, of in dict(entry.get("target_topic_ids", {})).items()},
                topic_map={str(name): str(to) for name, to in dict(entry.get("topic_map", {})).items()},
                filtered=bool(entry.get("filtered", False)),
                is_active=is_active,
                by=by or TaskRun(),
                at=at,
            )
        except (KafkaSparkError, KeyError, TypeError, ValueError):
            return None

    def of_topic(self, topic: str) -> Delivery:
        """What it says of one topic of the source."""
        ranges, planned, missing = (
            OffsetRanges(r for r in all_ranges if r.topic == topic)
            for all_ranges in (self.ranges, self.planned, self.missing)
        )
        return replace(self, ranges=ranges, planned=planned, missing=missing)

    def as_left(self, targets: Iterable[str], now: Mapping[str, str | None]) -> Delivery:
        """What it says now: nothing is delivered any more if a target was deleted since.

        :param targets: that count.
        :param now: ids of targets, as far as known; None for one that does not exist.
        """
        gone = any(
            now[name] != self.target_ids.get(name, now[name]) or now[name] is None for name in targets if name in now
        )
        return replace(self, ranges=OffsetRanges()) if gone else self

    def targets_of(self, topic: str) -> tuple[str, ...]:
        """Where the records of one topic of the source went."""
        return (self.topic_map[topic],) if topic in self.topic_map else self.target_topics

    @property
    def has_offsets(self) -> bool:
        return any(not r.is_empty for r in (*self.ranges, *self.planned, *self.missing))


def is_by_api(extra: object) -> bool:
    """Whether the event was made through Airflow's REST API, which says so in it, whatever else was given."""
    return isinstance(extra, Mapping) and bool(extra.get("from_rest_api"))


def is_entry(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it may be an entry of this version of the ledger."""
    return isinstance(value, Mapping) and value.get("version") == ENTRY_VERSION and "offset_ranges" in value


def entries_in(extra: object) -> list[object]:
    """All entries of an asset event: of a function that called several operators it has several. One that somebody has
    made through Airflow's API has none, since no task has made it.
    """
    if is_by_api(extra):
        return []
    more = extra.get(MORE) if isinstance(extra, Mapping) else None
    return [extra, *more] if isinstance(more, list) else [extra]


class Coverage(str, enum.Enum):
    """What is known of a stretch of offsets; if several are so, the first one of these counts."""

    #: Runs with different ids have delivered all of it to the same topic.
    DOUBLED = "doubled"
    COVERED = "covered"
    #: A run that has not ended is to deliver it.
    RUNNING = "running"
    #: A run that has failed was to deliver it, and may have delivered some. Clearing its task delivers the rest.
    UNFINISHED = "unfinished"
    #: It was no longer there when a run was to read it.
    LOST = "lost"
    #: No run was to deliver it.
    GAP = "gap"


#: One letter for each, in a picture of text.
LETTERS: Mapping[Coverage, str] = {
    Coverage.DOUBLED: "2",
    Coverage.COVERED: "#",
    Coverage.RUNNING: ">",
    Coverage.UNFINISHED: "!",
    Coverage.LOST: "x",
    Coverage.GAP: ".",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets of one partition with the same coverage by the same entries.

    :param by: the first ten of the entries that say so, in the order in which they were given.
    :param entries: how many entries say so.
    :param filtered: it is covered by runs with a filter only.
    """

    offsets: OffsetRange
    coverage: Coverage
    by: tuple[Delivery, ...] = ()
    entries: int = 0
    filtered: bool = False


def select(
    deliveries: Iterable[Delivery],
    topic: str,
    *,
    source: str | None = None,
    target: str | None = None,
    target_topic: str | None = None,
    topic_id: str | None = None,
    target_ids: Mapping[str, str | None] | None = None,
) -> list[Delivery]:
    """The entries of one topic of one cluster, as it is now: not those of a topic of this name that was deleted since,
    nor those whose target was.

    :param topic: of the source.
    :param source: first bootstrap server of the source's cluster, or the cluster's id; None for any.
    :param target: likewise, of the target's cluster.
    :param target_topic: topic of the target; None for any.
    :param topic_id: of the topic as it is now; None for that of the latest entry.
    :param target_ids: of the targets as they are now; a target without one has that of the latest entry. None as an id
        is of a target that does not exist.
    :raises InvalidInputError: if ``source`` or ``target`` is None, and entries are of several clusters.
    """
    found = [d for d in (delivery.of_topic(topic) for delivery in deliveries) if d.has_offsets]
    found = _of_cluster(found, "source", source, topic, lambda d: (d.source, d.source_cluster_id))
    latest = topic_id or _latest_ids(found, lambda d: d.topic_ids).get(topic)
    found = [d for d in found if d.topic_ids.get(topic, latest) == latest]
    if target_topic is not None:
        found = [d for d in found if target_topic in d.targets_of(topic)]
    found = _of_cluster(found, "target", target, topic, lambda d: (d.target, d.target_cluster_id))
    now: dict[str, str | None] = {**_latest_ids(found, lambda d: d.target_ids), **(target_ids or {})}

    # Of several targets nobody knows which one has a record: one that is gone may have had any.
    there = (d.as_left(d.targets_of(topic) if target_topic is None else (target_topic,), now) for d in found)
    return [d for d in there if d.has_offsets]


def _latest_ids(found: Iterable[Delivery], ids_of: Callable[[Delivery], Mapping[str, str]]) -> dict[str, str]:
    """The ids of topics, by name, as the latest entry that names one has it."""
    dated = sorted(found, key=lambda d: d.at.timestamp() if d.at else 0.0)
    return {name: topic_id for d in dated for name, topic_id in ids_of(d).items()}


def _of_cluster(
    found: list[Delivery], side: str, wanted: str | None, topic: str, cluster_of: Callable[[Delivery], tuple[str, str]]
) -> list[Delivery]:
    """:param cluster_of: first bootstrap server, and the cluster's id as far as it is known."""
    if wanted is not None:
        # Connections may name different servers of one cluster.
        clusters = {number for server, number in map(cluster_of, found) if server == wanted and number} | {wanted}
        return [d for d in found if wanted == cluster_of(d)[0] or cluster_of(d)[1] in clusters]
    servers = {server: number for server, number in map(cluster_of, found) if number}
    # A server is empty if its connection was gone.
    known = {servers.get(server, server): server for server, _ in map(cluster_of, found) if server}
    if len(known) > 1:
        raise InvalidInputError(
            f"{side} must be given where copies of the topic {topic!r} have several clusters as {side}, such as "
            f"{one_line(min(known.values()))!r}; got none. They are {one_line(', '.join(sorted(known.values())))}."
        )
    return found


def coverage(deliveries: Sequence[Delivery], window: Iterable[OffsetRange] | None = None) -> list[Stretch]:
    """What is known of each offset, sorted. The time grows with the entries' ranges, and not with their offsets, nor
    with how many of them overlap.

    :param deliveries: from :func:`select`.
    :param window: what to look at; None for each partition from the lowest to the highest offset of any entry.
    """
    spans = _spans(deliveries) if window is None else OffsetRanges(window).merge()
    edges: dict[TopicPartition, list[_Edge]] = defaultdict(list)
    for number, delivery in enumerate(deliveries):
        planned = Coverage.RUNNING if delivery.is_active else Coverage.UNFINISHED
        for kind, ranges in (
            (Coverage.COVERED, delivery.ranges),
            (planned, delivery.planned),
            (Coverage.LOST, delivery.missing),
        ):
            for r in ranges.merge():
                edges[r.topic_partition] += [(r.from_offset, 1, kind, number), (r.until_offset, -1, kind, number)]
    return [
        stretch
        for partition, of_partition in spans.without_empty().by_partition()
        for stretch in _swept(of_partition, sorted(edges.get(partition, ())), deliveries)
    ]


def uncovered(stretches: Iterable[Stretch]) -> OffsetRanges:
    """The gaps, as ranges for a replay.

    What failed runs have left is none: they may have delivered a part, which a replay would deliver twice, and clearing
    their tasks does not.
    """
    return OffsetRanges(s.offsets for s in stretches if s.coverage is Coverage.GAP).merge()


def picture(
    stretches: Sequence[Stretch],
    width: int = _WIDTH,
    names: Mapping[Coverage, str] | None = None,
    most: int = _MAX_LINES,
    more: int = 0,
    order: Sequence[Coverage] = tuple(Coverage),
) -> str:
    """A line of letters for each partition, and what the letters say.

    :param width: of a bar, in letters. A letter stands for the most important of its offsets.
    :param order: the most important last; by default gaps.
    :param names: what the letters say, if not the value of each coverage.
    :param most: partitions that are shown.
    :param more: partitions that there are beyond those of the stretches.
    """
    lines = []
    by_partition: dict[TopicPartition, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        by_partition[stretch.offsets.topic_partition].append(stretch)
    label = max((len(str(p)) for p in by_partition), default=0)
    starts = max((len(f"{parts[0].offsets.from_offset:,}") for parts in by_partition.values()), default=0)
    for partition, parts in list(by_partition.items())[:most]:
        first, last = parts[0].offsets.from_offset, parts[-1].offsets.until_offset
        bar = [" "] * width
        worst = [-1] * width
        for stretch in parts:
            begin = (stretch.offsets.from_offset - first) * width // (last - first)
            end = -(-(stretch.offsets.until_offset - first) * width // (last - first))
            for i in range(begin, max(end, begin + 1)):
                if order.index(stretch.coverage) > worst[i]:
                    worst[i], bar[i] = order.index(stretch.coverage), LETTERS[stretch.coverage]
        lines.append(f"{partition!s:<{label}}  {first:>{starts},} |{''.join(bar)}| {last:,}")
    hidden = more + max(0, len(by_partition) - most)
    if hidden:
        lines.append(f"and {hidden:,} more partitions")
    used = {stretch.coverage for stretch in stretches}
    legend = ", ".join(f"{LETTERS[kind]} {(names or {}).get(kind, kind.value)}" for kind in Coverage if kind in used)
    return "\n".join([*lines, legend] if lines else [])


def plan_picture(planned: OffsetRanges, missing: OffsetRanges, log: Iterable[OffsetRange]) -> str:
    """Where a plan lies in the source, as :func:`picture` shows it: each letter with an offset of the plan says so.

    :param missing: what was asked for and is no longer there.
    :param log: all offsets that the source has, of each partition of the plan.
    """
    edges = _edges([*planned, *missing, *log])
    # What no line shows is not computed: a plan may have ten thousand partitions.
    shown = dict(sorted(edges.items())[:_MAX_LINES])
    whole = OffsetRanges(OffsetRange(*partition, *offsets) for partition, offsets in shown.items())
    planned, missing = (
        OffsetRanges(r for r in ranges if (r.topic, r.partition) in shown).merge() for ranges in (planned, missing)
    )
    of_plan = Delivery("", EntryState.RUNNING, OffsetRanges(), (), "", "", planned, missing)
    names = {Coverage.RUNNING: "in the plan", Coverage.LOST: "no longer there", Coverage.GAP: "not in the plan"}
    order = (Coverage.GAP, Coverage.LOST, Coverage.RUNNING)
    return picture(coverage([of_plan], whole), names=names, more=len(edges) - len(shown), order=order)


def _items(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError(type(value).__name__)
    return list(value)


def _spans(deliveries: Iterable[Delivery]) -> OffsetRanges:
    return OffsetRanges(_spans_of([r for d in deliveries for r in (*d.ranges, *d.planned, *d.missing)]))


def _spans_of(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """From the lowest to the highest offset of each partition."""
    for partition, offsets in sorted(_edges(ranges).items()):
        yield OffsetRange(*partition, *offsets)


def _edges(ranges: Iterable[OffsetRange]) -> dict[tuple[str, int], tuple[int, int]]:
    """The lowest and the highest offset, by topic and partition."""
    edges: dict[tuple[str, int], tuple[int, int]] = {}
    for r in ranges:
        if not r.is_empty:
            low, high = edges.get((r.topic, r.partition), (r.from_offset, r.until_offset))
            edges[r.topic, r.partition] = (min(low, r.from_offset), max(high, r.until_offset))
    return edges


#: An offset, whether a range begins (1) or ends (-1) there, what its entry claims of it, and the entry's number.
_Edge = tuple[int, int, Coverage, int]


def _swept(spans: Sequence[OffsetRange], edges: Sequence[_Edge], deliveries: Sequence[Delivery]) -> Iterator[Stretch]:
    """The stretches of one partition's spans. Each edge is looked at once."""
    claims = _Claims(spans[0].topic, deliveries)
    passed = 0
    for span in spans:
        found: Stretch | None = None
        position = span.from_offset
        while position < span.until_offset:
            while passed < len(edges) and edges[passed][0] <= position:
                claims.pass_edge(edges[passed])
                passed += 1
            end = min(edges[passed][0], span.until_offset) if passed < len(edges) else span.until_offset
            if found is not None and not claims.differ_from(found.coverage):
                found = replace(found, offsets=replace(found.offsets, until_offset=end))
            else:
                if found is not None:
                    yield found
                found = claims.stretch(replace(span, from_offset=position, until_offset=end))
            position = end
        if found is not None:
            yield found


class _Claims:
    """What entries say of an offset, from one edge to the next: what an edge changes is counted, and nothing else.

    :param topic: of the source.
    """

    def __init__(self, topic: str, deliveries: Sequence[Delivery]) -> None:
        self._topic = topic
        self._deliveries = deliveries
        #: Numbers of the entries that claim the offset, sorted.
        self._open: dict[Coverage, list[int]] = defaultdict(list)
        #: Entries that have begun or ended, but not both, since the last stretch began.
        self._changed: dict[Coverage, set[int]] = defaultdict(set)
        self._whole = 0
        self._planned_whole = 0
        #: Entries of each run that have delivered all, by the topic that they wrote to.
        self._runs: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._doubled: set[tuple[str, str]] = set()

    def pass_edge(self, edge: _Edge) -> None:
        _, change, kind, number = edge
        numbers = self._open[kind]
        place = bisect_left(numbers, number)
        numbers[place : place + (change < 0)] = [number] if change > 0 else []
        self._changed[kind] ^= {number}
        delivery = self._deliveries[number]
        if delivery.filtered or kind is Coverage.LOST:
            return
        if kind is not Coverage.COVERED:
            self._planned_whole += change
            return
        self._whole += change
        for topic in delivery.targets_of(self._topic):
            target = (delivery.target_cluster_id or delivery.target, topic)
            runs = self._runs[target]
            runs[delivery.run_id] += change
            if not runs[delivery.run_id]:
                del runs[delivery.run_id]
            (self._doubled.add if len(runs) > 1 else self._doubled.discard)(target)

    def stretch(self, offsets: OffsetRange) -> Stretch:
        """The stretch that begins here."""
        self._changed.clear()
        kind = self._coverage()
        numbers = self._open[_claim_of(kind)]
        by = tuple(self._deliveries[i] for i in numbers[:_MOST_BY])
        return Stretch(offsets, kind, by, len(numbers), bool(numbers) and kind is Coverage.COVERED and not self._whole)

    def differ_from(self, coverage_before: Coverage) -> bool:
        """Whether another stretch begins here, after one with this coverage."""
        return self._coverage() is not coverage_before or bool(self._changed[_claim_of(coverage_before)])

    def _coverage(self) -> Coverage:
        if self._whole:
            return Coverage.DOUBLED if self._doubled else Coverage.COVERED
        # A run with a filter has not delivered what another one was to deliver whole.
        if self._open[Coverage.COVERED] and not self._planned_whole:
            return Coverage.COVERED
        of_others = (Coverage.RUNNING, Coverage.UNFINISHED, Coverage.LOST)
        return next((kind for kind in of_others if self._open[kind]), Coverage.GAP)


def _claim_of(kind: Coverage) -> Coverage:
    """What those entries claim that a coverage is by."""
    return Coverage.COVERED if kind is Coverage.DOUBLED else kind
