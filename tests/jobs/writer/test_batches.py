"""Batches that are passed on as they are, on a real broker and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_kafka_spark.core.handoff.writer_messages import PassedBatches
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.writer.conftest import WriterJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 200
VALUES = [b"%d" % i for i in range(COUNT)]


@pytest.fixture
def job(spark: SparkSession, kafka_broker: KafkaBroker, topic: TopicFactory) -> WriterJob:
    """A copy of all records of a topic, in batches of ten, claimed and opened by its driver."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", value) for value in VALUES], {"batch.num.messages": 10})
    job = WriterJob(spark, kafka_broker, kafka_broker, source, target, COUNT)
    job.change(
        provenance_header=None,
        preserve_partition=True,
        preserve_timestamps=True,
        batches=PassedBatches(
            {
                "bootstrap.servers": kafka_broker.bootstrap_servers,
                "isolation.level": "read_committed",
                "auto.offset.reset": "none",
                "enable.auto.commit": "false",
            },
            1_000_000,
            1_000,
            0,
        ),
    )
    job.claim()
    job.open()
    return job


def test_passes_all_batches(job: WriterJob) -> None:
    """Records are counted by the batches' headers, and acknowledged by batch."""
    result = job.run()

    assert job.written() == VALUES
    assert (result.read, result.written, result.already_committed) == ({0: COUNT}, {0: COUNT}, {0: 0})
    (report,) = result.reports.values()
    assert (report.batches_passed, report.obstacles) == (20, {})
    assert job.broker.committed(job.slot.group, job.target) == {0: COUNT}


def test_segments_map_each_offset(job: WriterJob) -> None:
    """A marker of a transaction ends a segment."""
    job.change(segments=True, commit_records=100)

    (report,) = job.run().reports.values()

    assert report.segments == ((0, 100, 0), (100, 200, 101))
    assert not report.segments_unknown


def test_a_second_attempt_knows_the_segments(job: WriterJob) -> None:
    """They are committed with the progress."""
    job.change(segments=True, commit_records=100)
    job.run()

    (report,) = job.run().reports.values()

    assert (report.segments, report.batches_passed) == (((0, 100, 0), (100, 200, 101)), 0)


def test_segments_of_single_records(job: WriterJob) -> None:
    """The other path has the same ones."""
    job.change(segments=True, batches=None, commit_records=100)

    (report,) = job.run().reports.values()

    assert report.segments == ((0, 100, 0), (100, 200, 101))
