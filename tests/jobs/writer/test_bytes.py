"""Records that are copied as bytes, on a real broker and Spark: the same as what Spark's source and Kafka's own
producer make of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.core.errors import SourceDamagedError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import cut
from airflow_provider_kafka_spark.core.wire.writer_messages import Batches, TaskReport
from airflow_provider_kafka_spark.jobs.janino import compile_java
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.writer.conftest import WriterJob
from tests.raw_batches import crc32c, log_of, make_strange, raw_batches
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 600
_CLASS = "airflow_provider_kafka_spark.jobs.writer.RandomRecords"
_IDS = {"1": 101, "2": 102, "3": 103}
Fill = Callable[[str, int], int]
NewJob = Callable[[str, str, int, bool], WriterJob]


@pytest.fixture(scope="module")
def fill(spark: SparkSession, kafka_broker: KafkaBroker) -> Fill:
    """Fills a topic with random records by Kafka's own producer; returns the end of the log."""
    jvm: Any = spark.sparkContext._jvm
    source = Path(__file__).with_name("RandomRecords.java").read_text()
    random = compile_java(jvm, {_CLASS.replace(".", "/") + ".java": source}).loader.loadClass(_CLASS)
    gateway: Any = spark.sparkContext._gateway
    types, arguments = (gateway.new_array(kind, 4) for kind in (jvm.java.lang.Class, jvm.java.lang.Object))

    def run(topic: str, seed: int) -> int:
        for i, text in enumerate((kafka_broker.bootstrap_servers, topic, str(seed), str(COUNT))):
            types[i], arguments[i] = jvm.java.lang.Class.forName("java.lang.String"), text
        random.getMethod("fill", types).invoke(None, arguments)
        return kafka_broker.offsets(topic)[0][1]

    return run


@pytest.fixture
def new_job(spark: SparkSession, kafka_broker: KafkaBroker) -> NewJob:
    """A copy of a topic's first partition as bytes, or with Spark's source."""

    def make(source: str, target: str, end: int, as_bytes: bool) -> WriterJob:
        job = WriterJob(spark, kafka_broker, kafka_broker, source, target, end)
        batches = Batches(job.batch_consumer, False, 1_000_000, 1_000, 0, 2_000_000) if as_bytes else None
        producer = {**job.settings.producer, "compression.type": "lz4", "max.request.size": "2000000"}
        job.change(preserve_timestamps=True, commit_records=250, batches=batches, producer=producer)
        job.claim()
        job.open()
        return job

    return make


def report_of(job: WriterJob) -> TaskReport:
    (report,) = job.run().reports.values()
    return report


def keyed(broker: KafkaBroker, topic: str) -> Mapping[int | None, list[Record]]:
    """The records with a key of each partition, in order."""
    found: dict[int | None, list[Record]] = {}
    for record in broker.consume(topic):
        if record.key is not None:
            found.setdefault(record.partition, []).append(record._replace(offset=None))
    return found


def unplaced(broker: KafkaBroker, topic: str) -> Counter[Record]:
    """The records without a key, of which no partition is promised."""
    return Counter(r._replace(offset=None, partition=None) for r in broker.consume(topic) if r.key is None)


@pytest.mark.parametrize(
    ("seed", "changed"),
    [
        pytest.param(1, {}, id="exactly-once"),
        pytest.param(2, {"id_prefix": None}, id="at-least-once"),
        pytest.param(3, {"include_headers": False, "preserve_partition": True}, id="no-headers-same-partition"),
        pytest.param(
            4,
            {"keys": (None, *(f"k{i}" for i in range(9))), "headers": {"h1": (None, {"hex": "00"})}},
            id="by-key-and-header",
        ),
        pytest.param(5, {"schema_id_map": {"values": _IDS}, "provenance_header": None}, id="schema-ids"),
        pytest.param(
            6,
            {"window_start_ms": 1_700_000_002_000, "window_end_ms": 1_700_000_008_000, "id_prefix": None},
            id="exact-window",
        ),
    ],
)
def test_both_readers_write_the_same(
    kafka_broker: KafkaBroker, topic: TopicFactory, fill: Fill, new_job: NewJob, seed: int, changed: dict[str, Any]
) -> None:
    """Random records of all kinds, byte by byte; and their counts are the same."""
    source, left, right = topic(suffix="source"), topic(3, suffix="spark"), topic(3, suffix="bytes")
    end = fill(source, seed)
    reports = {}
    for target in (left, right):
        job = new_job(source, target, end, target == right)
        job.change(**changed)
        # In the middle of batches, with gaps.
        edges = [(1, end // 3), (end // 3, end // 2), (end // 2 + 7, end - 1)]
        ranges = {OffsetRange(source, 0, *edge): i for i, edge in enumerate(edges)}
        job.pieces = cut(ranges, [[OffsetRange(source, 0, 1, end - 1)]], {})
        job.spans = job.pieces[0].spans
        job.open()
        reports[target] = report_of(job)
        # Brokers write a commit's marker into each partition after they have answered.
        written = sum(written for _, _, written, *_ in reports[target].ranges)
        until(lambda: len(kafka_broker.consume(target)) == written, f"{written} records")  # noqa: B023

    assert keyed(kafka_broker, right) == keyed(kafka_broker, left)
    assert unplaced(kafka_broker, right) == unplaced(kafka_broker, left)
    assert reports[right].ranges == reports[left].ranges
    assert reports[right].bytes_written == reports[left].bytes_written
    assert reports[right].records_as_bytes == sum(written for _, _, written, *_ in reports[right].ranges) > 0
    assert reports[left].records_as_bytes == 0


def test_what_no_client_can_write_goes_as_it_was(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob
) -> None:
    """A time below 0, and a header whose name is not UTF-8."""
    source, target = topic(suffix="source"), topic(suffix="target")
    records = [Record(b"k", b"%d" % i, (("name", b"v"),), 10_000 + i) for i in range(20)]
    kafka_broker.produce(source, records, {"batch.num.messages": 15, "compression.type": "none", "linger.ms": 1_000})
    make_strange(log_of(kafka_broker, source), first_time=-5, names={b"name": b"\xff\xfe\x00e"})
    job = new_job(source, target, len(records), True)
    job.change(provenance_header=None, producer={**job.settings.producer, "compression.type": "none"})

    report = report_of(job)

    (copied,) = raw_batches(kafka_broker, target)
    assert (copied.count, report.records_as_bytes, report.changed) == (20, 20, 0)
    assert copied.payload.count(b"\xff\xfe\x00e") == 20
    assert int.from_bytes(copied.times[4:12], "big", signed=True) == -5


def test_a_record_that_is_too_large_is_named(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """By the producer's setting and by the target's, as with Spark's source."""
    source, small = topic(suffix="source"), topic(config={"max.message.bytes": "20000"}, suffix="small")
    values = [b"1", bytes(range(256)) * 200, b"3"]
    kafka_broker.produce(source, [Record(b"k", value) for value in values], {"compression.type": "none"})
    for target, limit, at in (
        (topic(suffix="target"), "30000", "max.request.size"),
        (small, "2000000", "RecordTooLarge"),
    ):
        for as_bytes in (True, False):
            job = new_job(source, target, 3, as_bytes)
            producer = {**job.settings.producer, "max.request.size": limit, "compression.type": "none"}
            job.change(producer=producer)

            failure = job.failure()

            assert (failure.record, failure.permanent) == (f"{source}[0]@1", True)
            assert at in failure.reason
            assert job.written() == []


def test_a_partition_that_comes_late_is_waited_for(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob
) -> None:
    """As Kafka's producer does for each record."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", b"%d" % i, partition=1) for i in range(3)])
    job, span = new_job(source, target, 3, True), OffsetRange(source, 1, 0, 3)
    job.change(preserve_partition=True, provenance_header=None)
    job.pieces = cut({span: 0}, [[span]], {})
    job.spans = job.pieces[0].spans
    job.open()
    late = Timer(2.0, kafka_broker.add_partitions, (target, 2))
    late.start()

    assert report_of(job).records_as_bytes == 3

    late.join()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_hostile_bytes_are_an_error_that_names_the_batch(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, delivery: str
) -> None:
    """The checksum is right: a record says that it is larger than its batch. What was committed before it stays."""
    source, target = topic(suffix="source"), topic(suffix="target")
    one_batch = {"compression.type": "none", "linger.ms": 1_000}
    kafka_broker.produce(source, [Record(b"k", b"%010d" % i) for i in range(5)], one_batch)
    log = log_of(kafka_broker, source)
    data = bytearray(log.read_bytes())
    at = data.index(b"%010d" % 3)
    # The size of the value, which comes before it.
    data[at - 1] = 0x7E
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with log.open("r+b") as file:
        file.write(data)
    job = new_job(source, target, 5, True)
    job.change(commit_records=2)
    if delivery == "at_least_once":
        job.change(id_prefix=None)

    failure = job.failure()

    assert failure.code == SourceDamagedError.code
    assert f"{source}[0] at or after offset 3 is damaged. This attempt has written nothing from" in failure.message
    assert job.written() == [b"%010d" % i for i in range(2)]
