"""What a copy must have left in its target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_kafka_spark.core.copies.verification import faults_of_segments
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record

Row = tuple[object, ...]


@dataclass(frozen=True)
class Copy:
    """A request, and the records that it must copy.

    :param tell: adds a value to the table of what was tried.
    :param in_order: whether records of a partition keep their order.
    """

    broker: BrokerClient
    request: JobRequest
    records: Sequence[Record]
    tell: Callable[[str, object], None]
    in_order: bool

    @property
    def source(self) -> str:
        return self.request.ranges[0].topic

    @property
    def target(self) -> str:
        return self.request.transform.topic or ""

    def check(self, report: JobReport, request: JobRequest, times: int = 1) -> None:
        """Each record is there, byte by byte, with its timestamp, and counted.

        :param report: of the last try.
        :param request: of the last try.
        :param times: how often it may be there.
        """
        lost, duplicated, arrived = self.compare(times)
        self.tell("lost", lost.total())
        self.tell("duplicated", duplicated.total())
        assert not lost, lost.most_common(3)
        assert not duplicated, duplicated.most_common(3)
        assert report.duplicates == 0
        if self.in_order and times == 1:
            self._check_order(arrived)
        if request.transform.provenance.in_segments:
            self._check_segments(report, arrived)
        planned = request.planned_source.total
        assert sum(r.offset_range.size for r in report.ranges) == planned
        assert report.records_read == report.records_written == planned

    def compare(self, times: int = 1) -> tuple[Counter[Row], Counter[Row], list[Record]]:
        """The records that are missing, those that are there too often, and all that are there.

        :param times: how often a record may be there.
        """
        # An open transaction would hide the end of a partition, and this would not return.
        arrived = self.broker.consume(self.target)
        expected, found = Counter(map(_row, self.records)), Counter(map(_row, arrived))
        most = Counter({row: times * count for row, count in expected.items()})
        return expected - found, found - most, arrived

    def _check_segments(self, report: JobReport, arrived: Sequence[Record]) -> None:
        """Each offset is mapped once, to that of the same record, and in order."""
        assert report.batches_passed > 0
        assert report.segments is not None
        assert faults_of_segments(report) == []
        source = {(r.partition, r.offset): _row(r) for r in self.broker.consume(self.source)}
        target = {(r.partition, r.offset): _row(r) for r in arrived}
        for segment in report.segments:
            for i in range(segment.source.size):
                there = target[segment.target.partition, segment.target.from_offset + i]
                assert there == source[segment.source.partition, segment.source.from_offset + i], segment
        for earlier, later in pairwise(sorted(report.segments)):
            is_of_one = earlier.target.topic_partition == later.target.topic_partition
            assert not self.in_order or not is_of_one or earlier.target.until_offset <= later.target.from_offset

    def _check_order(self, arrived: Sequence[Record]) -> None:
        """In order for each source and target partition."""
        for partitions in {(r.partition, _source_partition(r)) for r in arrived}:
            times = [r.timestamp or 0 for r in arrived if (r.partition, _source_partition(r)) == partitions]
            assert times == sorted(times), partitions


def _row(record: Record) -> Row:
    headers = tuple(h for h in record.headers if h[0] != PROVENANCE_HEADER)
    return record.key, record.value, headers, record.timestamp


def _source_partition(record: Record) -> bytes:
    """By its header. Without one, it came from the partition of the same number."""
    headers = [value for name, value in record.headers if name == PROVENANCE_HEADER and value]
    return headers[0].split(b"|")[2] if headers else b"%d" % (record.partition or 0)
