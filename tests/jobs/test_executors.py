"""Spark tasks on executors, which are processes of their own."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.faults.drivers import Driver
from tests.jobs.runs import SLOW, copy_request, numbered, values

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_pieces_of_one_partition_on_two_executors(
    kafka_broker: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    """Several of them run at the same time: none fences another one."""
    source, target = topic(suffix="source"), topic(2, suffix="target")
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
    )
    driver = Driver(request, tmp_path / "try", "local-cluster[2,1,1024]")
    try:
        report = driver.start().wait()
    finally:
        driver.stop()

    assert report is not None, driver.log[-3000:]
    assert report.failure is None
    assert Counter(values(kafka_broker, target)) == Counter(b"%d" % i for i in range(1_000))
    assert (report.records_written, report.delivered_before, report.failed_tasks) == (1_000, 0, 0)
    assert report.warnings == ()
