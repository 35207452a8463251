"""Compare a task's result with two topics: every planned record was copied once, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.testing.record import Record


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """The result of the comparison for one source partition.

    :param expected: records of the planned ranges that the source has and that the task should copy.
    :param once: of these, how many are in the target exactly once.
    :param identical: of these, how many have the same key, value and headers, and their timestamp in the provenance
        header.
    :param unexpected: records of this run in the target that should not have been copied.
    """

    source: TopicPartition
    expected: int
    once: int
    identical: int
    unexpected: int

    @property
    def holds(self) -> bool:
        return self.expected == self.once == self.identical and self.unexpected == 0


def prove_copy(
    result: Mapping[str, Any],
    sources: Mapping[str, Iterable[Record]],
    target: Iterable[Record],
    keep: Callable[[Record], bool] = lambda _: True,
) -> list[PartitionProof]:
    """Return one proof for each source partition in a task's result, sorted.

    :param result: what the task returned (its XCom); only its ``run_id`` and the bounds of its ranges are used, no
        count.
    :param sources: all records of each source topic.
    :param target: all records of the target topic, of other runs too.
    :param keep: the same rule as the task's ``where``, in Python.
    """
    ranges = [
        OffsetRange(r["topic"], r["partition"], r["from_offset"], r["until_offset"]) for r in rows_in(result["ranges"])
    ]
    expected = _expected(ranges, sources, keep)
    copies = _copies_of(str(result["run_id"]), target)

    proofs = []
    for source in sorted({r.topic_partition for r in ranges} | set(copies)):
        wanted, arrived = expected.get(source, {}), copies.get(source, {})
        once = [position for position in wanted if len(arrived.get(position, ())) == 1]
        identical = sum(_is_copy(wanted[position], arrived[position][0]) for position in once)
        unexpected = sum(len(found) for position, found in arrived.items() if position not in wanted)
        proofs.append(PartitionProof(source, len(wanted), len(once), identical, unexpected))
    return proofs


def provenance_of(record: Record) -> Provenance | None:
    """The provenance of a copied record, by its last header; None if this package did not write it."""
    if not record.headers:
        return None
    name, value = record.headers[-1]
    return Provenance.parse(value) if name == PROVENANCE_HEADER and value is not None else None


def _expected(
    ranges: Iterable[OffsetRange], sources: Mapping[str, Iterable[Record]], keep: Callable[[Record], bool]
) -> dict[TopicPartition, dict[int, Record]]:
    planned: dict[TopicPartition, set[int]] = defaultdict(set)
    for r in ranges:
        planned[r.topic_partition].update(range(r.from_offset, r.until_offset))
    expected: dict[TopicPartition, dict[int, Record]] = {source: {} for source in planned}
    for topic, records in sources.items():
        for record in records:
            if record.partition is None or record.offset is None:
                continue
            source = TopicPartition(topic, record.partition)
            if record.offset in planned.get(source, ()) and keep(record):
                expected[source][record.offset] = record
    return expected


def _copies_of(run_id: str, target: Iterable[Record]) -> dict[TopicPartition, dict[int, list[Record]]]:
    copies: dict[TopicPartition, dict[int, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in target:
        provenance = provenance_of(record)
        if provenance is not None and provenance.run_id == run_id:
            copies[TopicPartition(provenance.topic, provenance.partition)][provenance.offset].append(record)
    return copies


def _is_copy(source: Record, copy: Record) -> bool:
    provenance = provenance_of(copy)
    return (
        provenance is not None
        and (source.key, source.value, source.headers) == (copy.key, copy.value, copy.headers[:-1])
        and source.timestamp == provenance.timestamp_ms
    )
