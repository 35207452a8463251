"""Which offsets of the target hold which offsets of the source, where no record says it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.core.offset_range import OffsetRange

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
        """:raises KafkaSparkError: if it is malformed."""
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
