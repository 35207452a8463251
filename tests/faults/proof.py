"""What a copy must have left in its target, and the table of what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record

Row = tuple[object, ...]


@dataclass(frozen=True)
class Copy:
    """A request, and the records that it must copy."""

    broker: BrokerClient
    request: JobRequest
    records: Sequence[Record]
    tell: Callable[[str, object], None]

    @property
    def target(self) -> str:
        return self.request.transform.topic or ""

    def check(self, report: JobReport | None, log: str, healed_by: str) -> None:
        """Each record once, byte by byte, with its timestamp, and in order for each source and target partition.

        :param healed_by: what the table says.
        """
        assert report is not None, log[-3000:]
        assert report.failure is None, report.failure
        # An open transaction would hide the end of a partition, and this would not return.
        arrived = self.broker.consume(self.target)
        expected, found = Counter(map(_row, self.records)), Counter(map(_row, arrived))
        lost, doubled = expected - found, found - expected
        self.tell("lost", lost.total())
        self.tell("doubled", doubled.total())
        self.tell("healed by", healed_by)
        assert not lost, lost.most_common(3)
        assert not doubled, doubled.most_common(3)
        for partitions in {(r.partition, _source_partition(r)) for r in arrived}:
            times = [r.timestamp or 0 for r in arrived if (r.partition, _source_partition(r)) == partitions]
            assert times == sorted(times), partitions
        assert report.records_written == sum(r.records_read for r in report.ranges) == len(self.records)


def assert_failed(report: JobReport | None, error: str) -> None:
    """The try left a report, which names its failure."""
    assert report is not None
    assert report.failure is not None
    assert report.failure.error == error, report.failure


def _row(record: Record) -> Row:
    headers = tuple(h for h in record.headers if h[0] != PROVENANCE_HEADER)
    return record.key, record.value, headers, record.timestamp


def _source_partition(record: Record) -> bytes:
    return next(value or b"" for name, value in record.headers if name == PROVENANCE_HEADER).split(b"|")[2]
