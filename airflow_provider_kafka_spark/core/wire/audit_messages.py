"""What the driver and the readers of an audit say to each other, as versioned JSON. No I/O.

The Java classes ``AuditReader``, ``AuditRanges``, ``AuditSegments`` and ``AuditMerger`` in ``jobs/writer`` are the
other side.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import Segment, by_target
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode

_VERSION = 1


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What the Spark tasks of one side are to do.

    :param input: ``records`` of Kafka; ``beside``: rows with the columns ``offset`` and ``_selected`` beside them; or
        ``rows`` of the public reader.
    :param run_ids: of the audited runs; None for the source.
    :param compares: make fingerprints.
    :param with_timestamp: a part of them.
    :param with_headers: a part of them.
    :param provenance_header: not a part of them, as a copy replaces it.
    :param reason_header: the same.
    :param window_start_ms: a record that is older is not selected.
    :param window_end_ms: a record of this time or later is not selected.
    """

    input: str
    run_ids: tuple[str, ...] | None
    compares: bool
    with_timestamp: bool
    with_headers: bool
    provenance_header: str
    reason_header: str
    window_start_ms: int | None = None
    window_end_ms: int | None = None

    def to_json(self) -> str:
        return json.dumps(encode(self, _VERSION))


@dataclass(frozen=True, slots=True)
class AuditTaskReport:
    """What one Spark task has put together.

    :param ranges: for each range its index, and the counts of ``AuditCounts`` in the order once, duplicated, extra,
        missing, filtered, unknown, different, not compared.
    :param missing: ranges of missing records: index of the partition, start and end; the first ones.
    :param duplicated: the first duplicated records: index of the partition, and offset.
    :param different: the same, of those that differ.
    """

    ranges: tuple[tuple[int, ...], ...]
    missing: tuple[tuple[int, ...], ...]
    duplicated: tuple[tuple[int, ...], ...]
    different: tuple[tuple[int, ...], ...]

    @classmethod
    def from_json(cls, text: str) -> AuditTaskReport:
        """:raises ProtocolError: if it is no report of this version."""
        return decode_text(cls, text, version=_VERSION, name="The report of a Spark task")


def ranges_text(
    ranges: OffsetRanges, may_have_aged: Collection[TopicPartition], segments: Iterable[Segment] = ()
) -> str:
    """The audited ranges; their indexes and those of their partitions are by their order.

    :param segments: where the target has records that no header tells of. Each becomes the target's topic, partition,
        first offset and end, the index of the source's partition, and the first offset there.
    """
    by_partition = list(ranges.by_partition())
    indexes = {p: i for i, (p, _) in enumerate(by_partition)}
    partitions = [
        [p.topic, p.partition, p in may_have_aged, [[r.from_offset, r.until_offset] for r in of_partition]]
        for p, of_partition in by_partition
    ]
    mapped = [
        [to.topic, to.partition, to.from_offset, to.until_offset, indexes[of.topic_partition], of.from_offset]
        for of, to in ((s.source, s.target) for s in by_target(segments))
        if of.topic_partition in indexes
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions, "segments": mapped})
