"""Spark tasks on executors, which are processes of their own. The short rings kill one of them, among the faults."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from airflow_provider_kafka_spark.core.checks import DELIVERIES
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.wire.protocol import AuditJob, CopyJob, JobRequest, Pace, PauseWhileLag
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.faults.drivers import Driver
from tests.jobs.runs import copy_request, numbered, values, wait_for_copies
from tests.waiting import until_quiet

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[[JobRequest], Driver]]:
    """Starts a request on two executors with two cores each."""
    started: list[Driver] = []

    def start(request: JobRequest) -> Driver:
        started.append(Driver(request, tmp_path / "driver", "local-cluster[2,2,1024]").start())
        return started[-1]

    yield start
    for each in started:
        each.stop()


def request_of(broker: KafkaBroker, ranges: list[str], **options: Any) -> CopyJob:
    """The first submission of a run, which keeps partitions."""
    instance, run_id = uuid4().hex[:16], uuid4().hex[:16]
    return copy_request(
        broker, ranges, instance=instance, submission=1, run_id=run_id, preserve_partition=True, **options
    )


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_two_executors_keep_one_pace_and_pause_together(
    kafka_broker: KafkaBroker, topic: TopicFactory, driver: Callable[[JobRequest], Driver], delivery: str
) -> None:
    """They share nothing but the group's metadata; while the group is behind, no transaction is open on either."""
    source, target = topic(4, suffix="source"), topic(4, suffix="target")
    group = f"billing-{uuid4().hex[:8]}"
    for number in range(4):
        kafka_broker.produce(source, numbered(750, partition=number))
    commit(kafka_broker, group, target, dict.fromkeys(range(4), 0))
    request = request_of(
        kafka_broker,
        [f"{source}:{number}:0:750" for number in range(4)],
        topic=target,
        delivery=delivery,
        pace=Pace(250, pause=PauseWhileLag(group, 200, 120.0)),
    )
    started = driver(request)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(started.wait)
        written = until_quiet(lambda: sum(end for _, end in kafka_broker.offsets(target).values()), 200, 4.0)
        visible = len(kafka_broker.consume(target))
        while not running.done():
            commit(kafka_broker, group, target, {n: end for n, (_, end) in kafka_broker.offsets(target).items()})
            time.sleep(0.5)
        report = running.result()

    assert report is not None, started.log[-3000:]
    assert report.failure is None
    assert 200 < written < 2_500
    # The rest are markers of transactions: none is open.
    assert visible > written - 100
    assert f"Paused for the consumer group '{group}'" in started.log
    assert Counter(values(kafka_broker, target)) == Counter({b"%d" % i: 4 for i in range(750)})


@pytest.mark.parametrize("provenance", [None, "segments"])
def test_batches_passed_on_and_as_bytes_survive_an_executor(
    kafka_broker: KafkaBroker, topic: TopicFactory, driver: Callable[[JobRequest], Driver], provenance: str | None
) -> None:
    """Large and small batches in turn, so that each transaction has records of both ways; each is there once, in its
    order.
    """
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    for first in range(0, 3_000, 300):
        large = [Record(b"k%d" % i, b"%d " % i + os.urandom(300), partition=i % 2) for i in range(first, first + 290)]
        kafka_broker.produce(source, large, {"linger.ms": 1_000, "batch.size": 1_000_000})
        small = [Record(None, b"%d " % i, (("h", None),), partition=i % 2) for i in range(first + 290, first + 300)]
        kafka_broker.produce(source, small, {"batch.num.messages": 2})
    request = request_of(
        kafka_broker,
        [f"{source}:{number}:0:1500" for number in range(2)],
        topic=target,
        provenance=provenance,
        reader="batches",
        pace=Pace(300),
    )
    started = driver(request)
    wait_for_copies(kafka_broker, target, 500)
    started.kill_executor()
    report = started.wait()

    assert report is not None, started.log[-3000:]
    assert report.failure is None
    # There are ten large batches of each partition; what is small went as bytes.
    assert (report.records_written, 0 < report.batches_passed <= 20) == (3_000, True)
    there, here = (
        [[r._replace(offset=None) for r in kafka_broker.consume(name) if r.partition == n] for n in range(2)]
        for name in (target, source)
    )
    assert there == here


def commit(broker: KafkaBroker, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, n, at) for n, at in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


def test_an_audit_on_two_executors(
    kafka_broker: KafkaBroker, topic: TopicFactory, driver: Callable[[JobRequest], Driver]
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
        if i not in range(5_000, 7_000) and i % 10 > 0
    ]
    differing: Record = copies[11]._replace(value=b"another")
    kafka_broker.produce(target, [*copies[:11], differing, *copies[12:], *copies[-20:]])
    ranges = [f"{source}:0:0:10000"]
    ends = {number: end for number, (_, end) in kafka_broker.offsets(target).items()}
    where = "pmod(offset, 10) > 0"
    copy = copy_request(kafka_broker, ranges, instance="", submission=0, run_id=run_id, topic=target, where=where)
    request = AuditJob(
        **{field.name: getattr(copy, field.name) for field in fields(JobRequest)},
        run_ids=(run_id,),
        target_ranges=OffsetRanges.parse([f"{target}:{number}:0:{end}" for number, end in ends.items()]),
        compares=True,
    )
    started = driver(request)
    report = started.wait()

    assert report is not None, started.log[-3000:]
    assert report.failure is None
    assert report.audit is not None
    (counts,) = report.audit.ranges
    assert (counts.once, counts.duplicated, counts.extra) == (10_000 - 1_000 - 1_800 - 20, 20, 20)
    assert (counts.missing, counts.filtered, counts.different) == (1_800, 1_000, 1)
    assert sum(r.size for r in report.audit.missing_ranges) == 1_800
    assert len(report.audit.missing_ranges) == 200
    assert report.audit.different == (f"{source}[0]@13",)
    assert len(report.audit.duplicated) == 20
