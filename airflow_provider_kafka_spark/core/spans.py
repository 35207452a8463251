"""Offset ranges -> the offsets that each Spark task reads. No I/O.

A seek costs about as much as reading a few thousand records. So many ranges are first merged into spans, reading
through a gap where that is cheaper, and the writer drops what lies between. All spans of one Kafka partition are read
by one Spark task, which keeps their order and costs one producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges

#: Up to this number of ranges, none is merged with another.
MOST_UNGROUPED_RANGES = 64
#: A gap of at most this many offsets is read, which costs less than a seek or another task. Measured:
#: docs/explanation/performance.md.
SMALL_GAP_OFFSETS = 5_000


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Consecutive offsets of one partition that one Spark partition reads, covering one or more ranges.

    :param topic: name of the topic.
    :param partition: number of the source partition.
    :param from_offset: the first offset read, inclusive.
    :param until_offset: the end, exclusive.
    :param ranges: how many ranges lie in it; more than one means that a filter drops the gaps.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    ranges: int = 1


def plan_spans(ranges: OffsetRanges, max_records_per_partition: int | None = None) -> tuple[Span, ...]:
    """Cover all ranges that are not empty.

    :param ranges: what must be read.
    :param max_records_per_partition: cut ranges into Spark partitions of at most this many offsets; ranges are then not
        merged.
    """
    wanted = ranges.without_empty()
    if max_records_per_partition is not None:
        return tuple(_span_of((piece,)) for piece in wanted.split(max_records_per_partition))
    if len(wanted) <= MOST_UNGROUPED_RANGES:
        return tuple(_span_of((r,)) for r in wanted)
    spans: list[Span] = []
    for _, of_partition in groupby(wanted, key=lambda r: r.topic_partition):
        together: list[OffsetRange] = []
        for r in of_partition:
            if together and r.from_offset - together[-1].until_offset > SMALL_GAP_OFFSETS:
                spans.append(_span_of(together))
                together = []
            together.append(r)
        spans.append(_span_of(together))
    return tuple(spans)


def tasks_of(spans: Sequence[Span], *, preserve_order: bool = True) -> tuple[tuple[Span, ...], ...]:
    """The spans of each Spark task, in order.

    :param preserve_order: all spans of one Kafka partition follow each other in one task; otherwise each is a task of
        its own.
    """
    ordered = sorted(spans)
    if not preserve_order:
        return tuple((span,) for span in ordered)
    return tuple(tuple(group) for _, group in groupby(ordered, key=lambda span: (span.topic, span.partition)))


def _span_of(ranges: Sequence[OffsetRange]) -> Span:
    first, last = ranges[0], ranges[-1]
    return Span(first.topic, first.partition, first.from_offset, last.until_offset, len(ranges))
