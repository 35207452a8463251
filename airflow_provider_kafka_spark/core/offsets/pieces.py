"""Spans and planned ranges -> the pieces of the plan that Spark tasks copy. No I/O.

A piece has a name of its own, by which its committed progress is found again, and the transactions of the Spark task
that begins with it: two pieces with one name would fence each other, and each would take the other's progress for its
own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from airflow_provider_kafka_spark.core.errors import PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition

#: Each piece costs a transaction, and memory of the driver.
MAX_PIECES = 10_000
#: Of a plan, and of each list that the ledger reads of a copy.
MAX_RANGES = 100_000
#: To open its clients takes a Spark task about as long as to copy so many records.
SMALL_PIECE_OFFSETS = 50_000
#: A Spark task that fails reads all its pieces again.
MAX_BUNDLE_OFFSETS = 200_000
#: So that a core has something left to do when another one is done.
_TASKS_PER_CORE = 4
_NAME = re.compile(r"(.*)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """The part of one planned range that lies in a piece.

    :param from_offset: the first offset.
    :param until_offset: the end, exclusive.
    :param index: of the planned range, among all that are not empty.
    """

    from_offset: int
    until_offset: int
    index: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What a Spark task copies in one go, in order: spans of one Kafka partition.

    :param name: unique in a run.
    :param spans: what the task reads.
    :param parts: what it writes of that; what lies between them is read and dropped.
    """

    name: str
    spans: tuple[OffsetRange, ...]
    parts: tuple[PlannedPart, ...]

    @property
    def topic(self) -> str:
        return self.spans[0].topic

    @property
    def partition(self) -> int:
        return self.spans[0].partition

    @property
    def from_offset(self) -> int:
        return self.spans[0].from_offset

    @property
    def until_offset(self) -> int:
        return self.spans[-1].until_offset

    @property
    def offsets(self) -> int:
        """How many offsets it writes at most."""
        return sum(part.until_offset - part.from_offset for part in self.parts)

    def describe(self) -> str:
        """All that distinguishes it from another piece, as text."""
        return json.dumps([self.name, *([part.from_offset, part.until_offset] for part in self.parts)])


def cut(
    ranges: Mapping[OffsetRange, int],
    tasks: Iterable[Sequence[OffsetRange]],
    topic_ids: Mapping[str, str],
    *,
    is_of_stream: bool = False,
) -> tuple[Piece, ...]:
    """The pieces of the given Spark tasks. The time is linear in the ranges, apart from sorting them.

    :param ranges: disjoint and not empty, each with the index of the planned range that it lies in.
    :param tasks: the spans that each Spark task reads, sorted; together they cover all ranges.
    :param topic_ids: id of each source topic, as far as it is known: a topic that is recreated gives other names.
    :param is_of_stream: of a stream, whose next batch goes on in each partition: names without offsets.
    :raises PlanError: if two pieces have one name, or a range is not covered.
    """
    wanted = sorted(ranges)
    following = 0
    pieces = []
    for spans in sorted(map(tuple, tasks)):
        parts = []
        for span in spans:
            while following < len(wanted) and _begins_in(wanted[following], span):
                r = wanted[following]
                start, end = max(r.from_offset, span.from_offset), min(r.until_offset, span.until_offset)
                parts.append(PlannedPart(start, end, ranges[r]))
                if r.until_offset > span.until_offset:
                    break
                following += 1
        pieces.append(Piece(_name(spans, topic_ids, is_of_stream=is_of_stream), spans, tuple(parts)))
    covered = sum(piece.offsets for piece in pieces)
    if covered != sum(r.size for r in wanted) or len({piece.name for piece in pieces}) < len(pieces):
        raise PlanError(
            f"Each planned offset must be in exactly one of the pieces, and each piece must have a name of its own; "
            f"{len(pieces):,} pieces hold {covered:,} of {sum(r.size for r in wanted):,} offsets under "
            f"{len({piece.name for piece in pieces}):,} names. Nothing was written. This is a fault of this package; "
            "please report it with the plan."
        )
    return tuple(pieces)


def bundled(pieces: Sequence[Piece], cores: int) -> tuple[tuple[Piece, ...], ...]:
    """The pieces that each Spark task copies, one after the other.

    A task has one piece, unless there are many small ones: it takes a task longer to open its clients than to copy such
    a piece, so a few tasks share them.

    :param pieces: sorted.
    :param cores: on which tasks run at once.
    :return: the tasks, in the order of their first pieces.
    """
    small = [piece for piece in pieces if piece.offsets <= SMALL_PIECE_OFFSETS]
    most = max(_TASKS_PER_CORE * cores, ceil(sum(piece.offsets for piece in small) / MAX_BUNDLE_OFFSETS))
    if len(small) <= most:
        return tuple((piece,) for piece in pieces)
    bounds = [i * len(small) // most for i in range(most + 1)]
    bundles = {bundle[0].name: bundle for start, end in pairwise(bounds) for bundle in _at_most(small[start:end])}
    large = {piece.name: (piece,) for piece in pieces if piece.offsets > SMALL_PIECE_OFFSETS}
    first = large | bundles
    return tuple(first[piece.name] for piece in pieces if piece.name in first)


def _at_most(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Bundles of at most so many offsets that an attempt may have to read again."""
    bundle, offsets = list[Piece](), 0
    for piece in pieces:
        if bundle and offsets + piece.offsets > MAX_BUNDLE_OFFSETS:
            yield tuple(bundle)
            bundle, offsets = [], 0
        bundle.append(piece)
        offsets += piece.offsets
    if bundle:
        yield tuple(bundle)


def _begins_in(r: OffsetRange, span: OffsetRange) -> bool:
    """Whether some of a range, of which nothing lies before the span, lies in it."""
    return r.topic_partition == span.topic_partition and r.from_offset < span.until_offset


def partition_name(partition: TopicPartition, topic_ids: Mapping[str, str]) -> str:
    """What the names of a partition's pieces begin with, and the whole name in a stream.

    :param topic_ids: id of each topic, as far as it is known.
    """
    topic = partition.topic
    named = f"{topic}-{topic_ids[topic]}" if topic in topic_ids else topic
    return f"{named}-{partition.partition}"


def split_name(name: str) -> tuple[str, int, int] | None:
    """The :func:`partition_name`, the first offset and the end of a piece; None if a name has no offsets.

    >>> split_name("orders-eu-0-100-200")
    ('orders-eu-0', 100, 200)
    """
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]), int(found[3]))


def _name(spans: Sequence[OffsetRange], topic_ids: Mapping[str, str], *, is_of_stream: bool) -> str:
    name = partition_name(spans[0].topic_partition, topic_ids)
    return name if is_of_stream else f"{name}-{spans[0].from_offset}-{spans[-1].until_offset}"
