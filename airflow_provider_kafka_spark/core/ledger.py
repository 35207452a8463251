"""What was copied, and what was not: entries of the ledger, and their coverage of the source's offsets. No I/O.

An entry is plain JSON in the ``extra`` of an asset event, or in the state of a task whose run has not ended well.
"""

from __future__ import annotations

import enum
from collections import defaultdict
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
#: Where a task's state has its entry.
STATE_KEY = "ledger"
_WIDTH = 60
#: Partitions of a picture; the log of a task is no place for thousands of lines.
_MAX_LINES = 64


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

    :param by: entries that say so, in the order in which they were given.
    """

    offsets: OffsetRange
    coverage: Coverage
    by: tuple[Delivery, ...] = ()


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
    """What is known of each offset, sorted. The time grows with the entries' ranges, and not with their offsets.

    :param deliveries: from :func:`select`.
    :param window: what to look at; None for each partition from the lowest to the highest offset of any entry.
    """
    spans = _spans(deliveries) if window is None else OffsetRanges(window).merge()
    events: dict[TopicPartition, list[tuple[int, int, str, int]]] = defaultdict(list)
    for number, delivery in enumerate(deliveries):
        claims = [("delivered", delivery.ranges), ("planned", delivery.planned), ("missing", delivery.missing)]
        for kind, ranges in claims:
            for r in ranges.merge():
                events[r.topic_partition] += [(r.from_offset, 1, kind, number), (r.until_offset, -1, kind, number)]
    found: list[Stretch] = []
    for span in spans.without_empty():
        found += _united(_swept(span, sorted(events.get(span.topic_partition, ())), deliveries))
    return found


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
) -> str:
    """A line of letters for each partition, and what the letters say.

    :param width: of a bar, in letters. A letter stands for the most important of its offsets: gaps come first.
    :param names: what the letters say, if not the value of each coverage.
    :param most: partitions that are shown.
    """
    lines = []
    by_partition: dict[TopicPartition, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        by_partition[stretch.offsets.topic_partition].append(stretch)
    label = max((len(str(p)) for p in by_partition), default=0)
    starts = max((len(f"{parts[0].offsets.from_offset:,}") for parts in by_partition.values()), default=0)
    order = list(Coverage)
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
    if len(by_partition) > most:
        lines.append(f"and {len(by_partition) - most:,} more partitions")
    used = {stretch.coverage for stretch in stretches}
    legend = ", ".join(f"{LETTERS[kind]} {(names or {}).get(kind, kind.value)}" for kind in order if kind in used)
    return "\n".join([*lines, legend] if lines else [])


def plan_picture(planned: OffsetRanges, missing: OffsetRanges, log: Iterable[OffsetRange]) -> str:
    """Where a plan lies in the source, as :func:`picture` shows it.

    :param missing: what was asked for and is no longer there.
    :param log: all offsets that the source has, of each partition of the plan.
    """
    of_plan = Delivery("", EntryState.RUNNING, OffsetRanges(), (), "", "", planned.merge(), missing.merge())
    whole = OffsetRanges(_spans_of([*planned, *missing, *log]))
    names = {Coverage.RUNNING: "in the plan", Coverage.LOST: "no longer there", Coverage.GAP: "not in the plan"}
    return picture(coverage([of_plan], whole), names=names)


def _items(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError(type(value).__name__)
    return list(value)


def _spans(deliveries: Iterable[Delivery]) -> OffsetRanges:
    return OffsetRanges(_spans_of([r for d in deliveries for r in (*d.ranges, *d.planned, *d.missing)]))


def _spans_of(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """From the lowest to the highest offset of each partition."""
    edges: dict[TopicPartition, list[int]] = defaultdict(list)
    for r in ranges:
        if not r.is_empty:
            edges[r.topic_partition] += [r.from_offset, r.until_offset]
    for partition, offsets in sorted(edges.items()):
        yield OffsetRange(partition.topic, partition.partition, min(offsets), max(offsets))


def _swept(
    span: OffsetRange, events: Sequence[tuple[int, int, str, int]], deliveries: Sequence[Delivery]
) -> Iterator[Stretch]:
    """The stretches of a span, between the edges of all ranges."""
    open_claims: dict[str, dict[int, int]] = {"delivered": {}, "planned": {}, "missing": {}}
    position = span.from_offset
    for offset, change, kind, number in (*events, (span.until_offset, 0, "delivered", -1)):
        end = min(max(offset, span.from_offset), span.until_offset)
        if end > position:
            yield _judged(replace(span, from_offset=position, until_offset=end), open_claims, deliveries)
            position = end
        if change:
            claims = open_claims[kind]
            claims[number] = claims.get(number, 0) + change
            if not claims[number]:
                del claims[number]


def _judged(offsets: OffsetRange, claims: Mapping[str, Mapping[int, int]], deliveries: Sequence[Delivery]) -> Stretch:
    delivered, planned, missing = (
        [deliveries[i] for i in sorted(claims[kind])] for kind in ("delivered", "planned", "missing")
    )
    if any(not d.filtered for d in delivered):
        is_doubled = _is_doubled([d for d in delivered if not d.filtered], offsets.topic)
        return Stretch(offsets, Coverage.DOUBLED if is_doubled else Coverage.COVERED, tuple(delivered))
    # A run with a filter has not delivered what another one was to deliver whole.
    if delivered and all(d.filtered for d in planned):
        return Stretch(offsets, Coverage.COVERED, tuple(delivered))
    running = [d for d in planned if d.is_active]
    if running:
        return Stretch(offsets, Coverage.RUNNING, tuple(running))
    if planned:
        return Stretch(offsets, Coverage.UNFINISHED, tuple(planned))
    if missing:
        return Stretch(offsets, Coverage.LOST, tuple(missing))
    return Stretch(offsets, Coverage.GAP)


def _is_doubled(delivered: Sequence[Delivery], source_topic: str) -> bool:
    """Whether runs with different ids wrote to the same topic."""
    runs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for delivery in delivered:
        for topic in delivery.targets_of(source_topic):
            runs[delivery.target_cluster_id or delivery.target, topic].add(delivery.run_id)
    return any(len(run_ids) > 1 for run_ids in runs.values())


def _united(stretches: Iterable[Stretch]) -> list[Stretch]:
    united: list[Stretch] = []
    for stretch in stretches:
        last = united[-1] if united else None
        same = last is not None and (last.coverage, [*map(id, last.by)]) == (stretch.coverage, [*map(id, stretch.by)])
        if last is not None and same:
            united[-1] = replace(last, offsets=replace(last.offsets, until_offset=stretch.offsets.until_offset))
        else:
            united.append(stretch)
    return united
