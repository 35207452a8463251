"""What was copied, and what was not: the coverage of a source's offsets by entries of the ledger. No I/O."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_kafka_spark.core.ledger.entry import Delivery, EntryState
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition

#: Of a bar, in letters.
_WIDTH = 60
#: Partitions of a picture; the log of a task is no place for thousands of lines.
_MAX_LINES = 64
#: Entries that a stretch names: a thousand runs over the same offsets would make a thousand lists of a thousand.
_MOST_BY = 10


class Coverage(str, enum.Enum):
    """What is known of a stretch of offsets; if several are so, the first one of these counts."""

    #: Runs with different ids have delivered all of it to the same topic.
    DUPLICATED = "duplicated"
    COVERED = "covered"
    #: A run has looked, and no record is there.
    EMPTY = "empty"
    #: A run that has not ended is to deliver it.
    UNFINISHED = "unfinished"
    #: A run that has failed was to deliver it, and may have delivered some. Clearing its task delivers the rest.
    FAILED = "failed"
    #: It was no longer there when a run was to read it.
    LOST = "lost"
    #: No run has copied it yet, and runs that have not begun lie between those beside it.
    WAITING = "waiting"
    #: It is in the log, before or after all that entries name.
    UNSEEN = "unseen"
    #: No run was to deliver it.
    MISSING = "missing"


#: One letter for each, in a picture of text.
LETTERS: Mapping[Coverage, str] = {
    Coverage.DUPLICATED: "2",
    Coverage.COVERED: "#",
    Coverage.EMPTY: "_",
    Coverage.UNFINISHED: ">",
    Coverage.FAILED: "!",
    Coverage.LOST: "x",
    Coverage.WAITING: "~",
    Coverage.UNSEEN: "?",
    Coverage.MISSING: ".",
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


def coverage(deliveries: Sequence[Delivery], window: Iterable[OffsetRange] | None = None) -> list[Stretch]:
    """What is known of each offset, sorted. The time grows with the entries' ranges, and not with their offsets, nor
    with how many of them overlap.

    :param deliveries: of one pair of topics, see ``core.ledger.pairs``.
    :param window: what to look at; None for each partition from the lowest to the highest offset of any entry.
    """
    looked_at = spans(deliveries) if window is None else OffsetRanges(window).merge()
    edges: dict[TopicPartition, list[_Edge]] = defaultdict(list)
    for number, delivery in enumerate(deliveries):
        planned = Coverage.UNFINISHED if delivery.is_active else Coverage.FAILED
        for kind, ranges in (
            (Coverage.COVERED, delivery.ranges),
            (planned, delivery.planned),
            (Coverage.LOST, delivery.lost),
            (Coverage.EMPTY, delivery.empty),
        ):
            for r in ranges.merge():
                edges[r.topic_partition] += [(r.from_offset, 1, kind, number), (r.until_offset, -1, kind, number)]
    return [
        stretch
        for partition, of_partition in looked_at.without_empty().by_partition()
        for stretch in _swept(of_partition, sorted(edges.get(partition, ())), deliveries)
    ]


def uncovered(stretches: Iterable[Stretch]) -> OffsetRanges:
    """What is missing, as ranges for a replay.

    What failed runs have left is not: they may have delivered a part, which a replay would deliver twice, and clearing
    their tasks does not.
    """
    return OffsetRanges(s.offsets for s in stretches if s.coverage is Coverage.MISSING).merge()


def picture(
    stretches: Sequence[Stretch],
    names: Mapping[Coverage, str] | None = None,
    more: int = 0,
    order: Sequence[Coverage] = tuple(Coverage),
) -> str:
    """A line of letters for each partition, and what the letters say.

    :param order: of what one letter stands for, the most important last; by default gaps.
    :param names: what the letters say, if not the value of each coverage.
    :param more: partitions that there are beyond those of the stretches.
    """
    lines = []
    by_partition: dict[TopicPartition, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        by_partition[stretch.offsets.topic_partition].append(stretch)
    label = max((len(str(p)) for p in by_partition), default=0)
    starts = max((len(f"{parts[0].offsets.from_offset:,}") for parts in by_partition.values()), default=0)
    for partition, parts in list(by_partition.items())[:_MAX_LINES]:
        first, last = parts[0].offsets.from_offset, parts[-1].offsets.until_offset
        bar = [" "] * _WIDTH
        worst = [-1] * _WIDTH
        for stretch in parts:
            begin = (stretch.offsets.from_offset - first) * _WIDTH // (last - first)
            end = -(-(stretch.offsets.until_offset - first) * _WIDTH // (last - first))
            for i in range(begin, max(end, begin + 1)):
                if order.index(stretch.coverage) > worst[i]:
                    worst[i], bar[i] = order.index(stretch.coverage), LETTERS[stretch.coverage]
        lines.append(f"{partition!s:<{label}}  {first:>{starts},} |{''.join(bar)}| {last:,}")
    hidden = more + max(0, len(by_partition) - _MAX_LINES)
    if hidden:
        lines.append(f"and {hidden:,} more partitions")
    used = {stretch.coverage for stretch in stretches}
    legend = ", ".join(f"{LETTERS[kind]} {(names or {}).get(kind, kind.value)}" for kind in Coverage if kind in used)
    return "\n".join([*lines, legend] if lines else [])


def plan_picture(planned: OffsetRanges, lost: OffsetRanges, log: Mapping[TopicPartition, tuple[int, int]]) -> str:
    """Where a plan lies in the source, as :func:`picture` shows it: each letter with an offset of the plan says so.

    :param lost: what was asked for and is no longer there.
    :param log: the start and the end of the source's log, of each partition of the plan.
    """
    edges = _edges([*planned, *lost])
    for p, (start, end) in log.items():
        if start < end:
            low, high = edges.get(p, (start, end))
            edges[p] = (min(low, start), max(high, end))
    # What no line shows is not computed: a plan may have ten thousand partitions.
    shown = dict(sorted(edges.items())[:_MAX_LINES])
    whole = OffsetRanges(OffsetRange(*partition, *offsets) for partition, offsets in shown.items())
    planned, lost = (
        OffsetRanges(r for r in ranges if (r.topic, r.partition) in shown).merge() for ranges in (planned, lost)
    )
    of_plan = Delivery("", EntryState.RUNNING, OffsetRanges(), (), "", "", planned, lost)
    names = {Coverage.UNFINISHED: "in the plan", Coverage.LOST: "no longer there", Coverage.MISSING: "not in the plan"}
    order = (Coverage.MISSING, Coverage.LOST, Coverage.UNFINISHED)
    return picture(coverage([of_plan], whole), names=names, more=len(edges) - len(shown), order=order)


def spans(deliveries: Iterable[Delivery]) -> OffsetRanges:
    """Of each partition, from the lowest to the highest offset that an entry names."""
    named = (r for d in deliveries for of_d in (d.ranges, d.planned, d.lost, d.empty, d.gone) for r in of_d)
    return OffsetRanges(OffsetRange(*partition, *offsets) for partition, offsets in _edges(named).items())


def _edges(ranges: Iterable[OffsetRange]) -> dict[tuple[str, int], tuple[int, int]]:
    """The lowest and the highest offset, by topic and partition."""
    edges: dict[tuple[str, int], tuple[int, int]] = {}
    for r in ranges:
        if r.from_offset < r.until_offset:
            low, high = edges.get((r.topic, r.partition), (r.from_offset, r.until_offset))
            edges[r.topic, r.partition] = (min(low, r.from_offset), max(high, r.until_offset))
    return edges


#: An offset, whether a range begins (1) or ends (-1) there, what its entry claims of it, and the entry's number.
_Edge = tuple[int, int, Coverage, int]


def _swept(spans: Sequence[OffsetRange], edges: Sequence[_Edge], deliveries: Sequence[Delivery]) -> Iterator[Stretch]:
    """The stretches of one partition's spans. Each edge is looked at once."""
    claims = _Claims(deliveries)
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
    """What entries say of an offset, from one edge to the next: what an edge changes is counted, and nothing else."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self._deliveries = deliveries
        #: Numbers of the entries that claim the offset, sorted.
        self._open: dict[Coverage, list[int]] = defaultdict(list)
        #: Entries that have begun or ended, but not both, since the last stretch began.
        self._changed: dict[Coverage, set[int]] = defaultdict(set)
        self._whole = 0
        self._planned_whole = 0
        #: Entries of each run that have delivered all.
        self._runs: Counter[str] = Counter()

    def pass_edge(self, edge: _Edge) -> None:
        _, change, kind, number = edge
        numbers = self._open[kind]
        place = bisect_left(numbers, number)
        numbers[place : place + (change < 0)] = [number] if change > 0 else []
        self._changed[kind] ^= {number}
        delivery = self._deliveries[number]
        if delivery.filtered or kind in (Coverage.LOST, Coverage.EMPTY):
            return
        if kind is not Coverage.COVERED:
            self._planned_whole += change
            return
        self._whole += change
        self._runs[delivery.run_id] += change
        if not self._runs[delivery.run_id]:
            del self._runs[delivery.run_id]

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
            return Coverage.DUPLICATED if len(self._runs) > 1 else Coverage.COVERED
        # A run with a filter has not delivered what another one was to deliver whole.
        if self._open[Coverage.COVERED] and not self._planned_whole:
            return Coverage.COVERED
        of_others = (Coverage.EMPTY, Coverage.UNFINISHED, Coverage.FAILED, Coverage.LOST)
        return next((kind for kind in of_others if self._open[kind]), Coverage.MISSING)


def _claim_of(kind: Coverage) -> Coverage:
    """What those entries claim that a coverage is by."""
    return Coverage.COVERED if kind is Coverage.DUPLICATED else kind
