"""Offset ranges -> the offsets that each Spark task reads. No I/O.

A seek costs about as much as reading a few thousand records. So many ranges are first merged into spans, reading
through a gap where that is cheaper, and the writer drops what lies between. All spans of one Kafka partition are read
by one Spark task, which keeps their order and costs one producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition

#: Up to this number of ranges, none is merged with another.
MOST_UNGROUPED_RANGES = 64
#: A gap of at most this many offsets is read, which costs less than a seek or another task. Measured:
#: docs/explanation/performance.md.
SMALL_GAP_OFFSETS = 5_000


def plan_spans(ranges: OffsetRanges, max_records_per_partition: int | None = None) -> tuple[OffsetRange, ...]:
    """What Spark reads, each span in one go: all ranges that are not empty, and the gaps between them that are cheap.

    :param ranges: what must be read.
    :param max_records_per_partition: cut ranges into Spark partitions of at most this many offsets; ranges are then not
        merged.
    """
    wanted = ranges.without_empty()
    if max_records_per_partition is not None:
        return tuple(wanted.split(max_records_per_partition))
    if len(wanted) <= MOST_UNGROUPED_RANGES:
        return tuple(wanted)
    spans: list[OffsetRange] = []
    for _, of_partition in wanted.by_partition():
        together = of_partition[0]
        for r in of_partition[1:]:
            if r.from_offset - together.until_offset > SMALL_GAP_OFFSETS:
                spans.append(together)
                together = r
            together = replace(together, until_offset=r.until_offset)
        spans.append(together)
    return tuple(spans)


def merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """One range for each partition, from the first offset to the last end."""
    found: dict[TopicPartition, OffsetRange] = {}
    for r in sorted(ranges):
        first = found.setdefault(r.topic_partition, r)
        found[r.topic_partition] = replace(first, until_offset=max(first.until_offset, r.until_offset))
    return tuple(found.values())


def tasks_of(spans: Sequence[OffsetRange], *, preserve_order: bool = True) -> tuple[tuple[OffsetRange, ...], ...]:
    """The spans of each Spark task, in order.

    :param preserve_order: all spans of one Kafka partition follow each other in one task; otherwise each is a task of
        its own.
    """
    ordered = OffsetRanges(spans)
    if not preserve_order:
        return tuple((span,) for span in ordered)
    return tuple(of_partition for _, of_partition in ordered.by_partition())
