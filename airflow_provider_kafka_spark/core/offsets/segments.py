"""Which offsets of the target hold which offsets of the source, where no record says it. No I/O."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.compact_result import whole_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import SourcePlace

_SOURCE = ("topic", "partition", "from_offset", "until_offset")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A run of consecutive offsets: the record at ``source.from_offset + i`` is at ``target.from_offset + i``.

    :param source: not empty.
    :param target: of the same size.
    """

    source: OffsetRange
    target: OffsetRange

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as results and asset events have it."""
        return {
            **self.source.to_dict(),
            "target_topic": self.target.topic,
            "target_partition": self.target.partition,
            "target_from_offset": self.target.from_offset,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Segment:
        """:raises KafkaSparkError: if an offset, a partition or a topic of it is malformed.
        :raises KeyError: if it lacks a key.
        :raises TypeError: if it is no mapping, or an offset no number.
        """
        source = OffsetRange.parse({name: value[name] for name in _SOURCE})
        start = value["target_from_offset"]
        return cls(source, OffsetRange(value["target_topic"], value["target_partition"], start, start + source.size))

    def goes_on_in(self, later: Segment) -> bool:
        """Whether both sides of another segment begin where this one ends."""
        return (
            self.source.topic_partition == later.source.topic_partition
            and self.target.topic_partition == later.target.topic_partition
            and self.source.until_offset == later.source.from_offset
            and self.target.until_offset == later.target.from_offset
        )


def segments_of_runs(source: TopicPartition, target: str, runs: Iterable[Sequence[int]]) -> list[Segment]:
    """The segments of a partition.

    :param target: topic, whose partition has the source's number.
    :param runs: first offset and end in the source, and first offset in the target.
    """
    return [
        Segment(
            OffsetRange(source.topic, source.partition, begin, until),
            OffsetRange(target, source.partition, start, start + until - begin),
        )
        for begin, until, start in runs
    ]


def joined(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The fewest segments that say the same, in the order of the source.

    >>> a = Segment(OffsetRange("orders", 0, 0, 5), OffsetRange("copy", 0, 7, 12))
    >>> b = Segment(OffsetRange("orders", 0, 5, 6), OffsetRange("copy", 0, 12, 13))
    >>> joined([b, a]) == (Segment(OffsetRange("orders", 0, 0, 6), OffsetRange("copy", 0, 7, 13)),)
    True
    """
    found: list[Segment] = []
    for segment in sorted(segments):
        if found and found[-1].goes_on_in(segment):
            first = found[-1]
            found[-1] = Segment(
                replace(first.source, until_offset=segment.source.until_offset),
                replace(first.target, until_offset=segment.target.until_offset),
            )
        else:
            found.append(segment)
    return tuple(found)


def by_target(segments: Iterable[Segment]) -> list[Segment]:
    """Segments in the order of the target, each without what one before it has."""
    found: list[Segment] = []
    ends: dict[TopicPartition, int] = {}
    for s in sorted(segments, key=lambda s: s.target):
        partition = s.target.topic_partition
        skipped = max(0, ends.get(partition, 0) - s.target.from_offset)
        if skipped < s.target.size:
            source, target = (replace(r, from_offset=r.from_offset + skipped) for r in (s.source, s.target))
            found.append(Segment(source, target))
            ends[partition] = target.until_offset
    return found


class SegmentIndex:
    """Finds the source of a target's record.

    :param segments: of any number of copies.
    """

    def __init__(self, segments: Iterable[Segment]) -> None:
        groups = groupby(by_target(segments), key=lambda s: s.target.topic_partition)
        self._by_target = {p: list(group) for p, group in groups}
        self._starts = {p: [s.target.from_offset for s in found] for p, found in self._by_target.items()}
        #: Topics of the target that have any.
        self.targets = frozenset(p.topic for p in self._by_target)

    def source_of(self, target: TopicPartition, offset: int) -> SourcePlace | None:
        """Where a record of the target came from; None for one of somebody else.

        >>> segment = Segment(OffsetRange("orders", 0, 5, 8), OffsetRange("copy", 0, 100, 103))
        >>> index = SegmentIndex([segment])
        >>> index.source_of(TopicPartition("copy", 0), 101)
        SourcePlace(topic='orders', partition=0, offset=6)
        >>> index.source_of(TopicPartition("copy", 0), 103) is None
        True
        """
        i = bisect_right(self._starts.get(target, []), offset) - 1
        if i < 0:
            return None
        source, to = self._by_target[target][i].source, self._by_target[target][i].target
        if offset >= to.until_offset:
            return None
        return SourcePlace(source.topic, source.partition, source.from_offset + offset - to.from_offset)


def sources_of(segments: Iterable[Segment]) -> OffsetRanges:
    """All that is mapped of the source; what is mapped twice counts once."""
    return OffsetRanges().merge(segment.source for segment in segments)


def within(segments: Iterable[Segment], ranges: OffsetRanges) -> tuple[Segment, ...]:
    """The parts of segments whose sources lie in ranges.

    >>> segment = Segment(OffsetRange("orders", 0, 5, 9), OffsetRange("copy", 0, 100, 104))
    >>> within([segment], OffsetRanges.parse(["orders:0:6:8"]))[0].target.format()
    'copy:0:101:103'
    """
    segments = tuple(segments)
    if not sources_of(segments).subtract(ranges):
        return segments
    found = []
    for s in segments:
        for r in OffsetRanges([s.source]).intersect(ranges):
            start = s.target.from_offset + r.from_offset - s.source.from_offset
            found.append(Segment(r, replace(s.target, from_offset=start, until_offset=start + r.size)))
    return tuple(found)


def segments_of(result: Mapping[str, Any]) -> tuple[Segment, ...]:
    """The segments of one result, or of what an asset event says.

    :raises KafkaSparkError, KeyError, TypeError: if they are malformed.
    """
    return tuple(Segment.from_dict(s) for s in result.get("segments", ()))


def results_in(value: object, name: str) -> tuple[Mapping[str, Any], ...]:
    """The results of copies with segments, or what their asset events say.

    :param value: mappings with the key ``segments``, one or a list of them, or the same as JSON text.
    :param name: of the parameter, for errors.
    :raises InvalidInputError: if one of them has no segments, or they are malformed.
    """
    example = "the result of a copy with provenance='segments' (copy.output), a list of such results, or that as JSON"
    try:
        found: Any = json.loads(value) if isinstance(value, str) else value
        given = [found] if isinstance(found, Mapping) else list(found)
        # The event of a function that called several operators has the entries of all.
        items = [whole_result(one) for item in given for one in (item, *item.get("more", ()))]
        lacking = [item for item in items if "segments" not in item and item.get("records_written") != 0]
        for item in items:
            segments_of(item)
    except (KafkaSparkError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidInputError(f"{name} must be {example}; reading it failed: {str(error)[:200]}.") from None
    if lacking or not items:
        raise InvalidInputError(
            f"{name} must be {example}; {len(lacking)} of {len(items)} have no segments. A copy with another "
            "provenance has none, nor one whose earlier try wrote records and left no progress."
        )
    return tuple(items)
