"""Spark tasks on executors, which are processes of their own."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import AuditRequest
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.faults.drivers import Driver
from tests.jobs.runs import SLOW, copy_request, numbered, values

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize("rejects", [False, True])
def test_pieces_of_one_partition_on_two_executors(
    kafka_broker: KafkaBroker, topic: TopicFactory, tmp_path: Path, rejects: bool
) -> None:
    """Several of them run at the same time: none fences another one, also where each writes to two topics."""
    source, target, dead = topic(suffix="source"), topic(2, suffix="target"), topic(suffix="dead")
    kafka_broker.produce(source, numbered(1_000), {"batch.num.messages": 20})
    ranges = [f"{source}:0:0:1000"]
    spans = plan_spans(OffsetRanges.parse(ranges), 100)
    request = copy_request(
        kafka_broker,
        ranges,
        instance=uuid4().hex[:16],
        submission=int(time.time() * 1000),
        run_id=uuid4().hex[:16],
        topic=target,
        spans=spans,
        preserve_order=False,
        source_options=SLOW,
        reject_when="offset < 100" if rejects else None,
        dead_letter_topic=dead if rejects else None,
    )
    driver = Driver(request, tmp_path / "try", "local-cluster[2,1,1024]")
    try:
        report = driver.start().wait()
    finally:
        driver.stop()

    assert report is not None, driver.log[-3000:]
    assert report.failure is None
    rejected = 100 if rejects else 0
    assert Counter(values(kafka_broker, target)) == Counter(b"%d" % i for i in range(rejected, 1_000))
    assert Counter(values(kafka_broker, dead)) == Counter(b"%d" % i for i in range(rejected))
    assert (report.records_written, report.records_rejected) == (1_000 - rejected, rejected)
    assert (report.delivered_before, report.failed_tasks) == (0, 0)
    assert report.warnings == ()


@pytest.mark.parametrize("where", [None, "pmod(offset, 10) > 0"])
def test_an_audit_on_two_executors(
    kafka_broker: KafkaBroker, topic: TopicFactory, tmp_path: Path, where: str | None
) -> None:
    """What executors have read, others put together; nothing but counts and ranges reaches the driver."""
    source, target, run_id = topic(suffix="source"), topic(2, suffix="target"), uuid4().hex[:16]
    kafka_broker.produce(source, numbered(10_000))
    copies = [
        record._replace(
            headers=((PROVENANCE_HEADER, Provenance(run_id, source, 0, i, record.timestamp or 0).format()),),
            partition=i % 2,
        )
        for i, record in enumerate(kafka_broker.consume(source))
        if i not in range(5_000, 7_000) and (where is None or i % 10 > 0)
    ]
    differing: Record = copies[11]._replace(value=b"another")
    kafka_broker.produce(target, [*copies[:11], differing, *copies[12:], *copies[-20:]])
    ranges = [f"{source}:0:0:10000"]
    ends = {number: end for number, (_, end) in kafka_broker.offsets(target).items()}
    request = copy_request(
        kafka_broker,
        ranges,
        instance="",
        submission=0,
        run_id=run_id,
        topic=target,
        where=where,
        audit=AuditRequest((run_id,), tuple(f"{target}:{number}:0:{end}" for number, end in ends.items()), True),
    )
    driver = Driver(request, tmp_path / "try", "local-cluster[2,1,1024]")
    try:
        report = driver.start().wait()
    finally:
        driver.stop()

    assert report is not None, driver.log[-3000:]
    assert report.failure is None
    assert report.audit is not None
    (counts,) = report.audit.ranges
    filtered, missing = (0, 2_000) if where is None else (1_000, 1_800)
    assert (counts.once, counts.doubled, counts.extra) == (10_000 - filtered - missing - 20, 20, 20)
    assert (counts.missing, counts.filtered, counts.different) == (missing, filtered, 1)
    assert sum(r.size for r in report.audit.missing_ranges) == missing
    assert len(report.audit.missing_ranges) == (1 if where is None else 200)
    assert report.audit.different == (f"{source}[0]@{11 if where is None else 13}",)
    assert len(report.audit.doubled) == 20
