"""Batches that are passed on as they are, on a real broker and Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from airflow_provider_kafka_spark.core.errors import ProgressUnknownError, SourceDamagedError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import cut
from airflow_provider_kafka_spark.core.wire.writer_messages import Batches, TaskReport
from airflow_provider_kafka_spark.jobs.record_writer import missing_internals
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.runs import in_background
from tests.jobs.writer.conftest import WriterJob
from tests.raw_batches import log_of, make_strange, raw_batches
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT, IN_BATCH = 200, 10
VALUES = [b"%d" % i for i in range(COUNT)]
#: What a record may be: without key, value or headers, with null in a header, of any time.
STRANGE = [
    Record(None, b"no key", (), 5_000),
    Record(b"no value", None, (("h", None), ("h", b""), ("h", b"again")), 4_000),
    Record(b"", b"", (("ключ".encode().decode(), b"\x00\xff"),), 6_000),
    *(Record(b"k%d" % i, b"v" * i, (("i", b"%d" % i),), 10_000 - i) for i in range(40)),
]
NewJob = Callable[..., WriterJob]


@pytest.fixture
def delivery() -> str:
    """That of most tests."""
    return "exactly_once"


@pytest.fixture
def new_job(spark: SparkSession, kafka_broker: KafkaBroker, delivery: str) -> NewJob:
    """A copy of a topic's partition by batches, claimed and opened by its driver."""

    def make(source: str, target: str, until: int, **batches: int) -> WriterJob:
        job = WriterJob(spark, kafka_broker, kafka_broker, source, target, until)
        job.change(
            provenance_header=None,
            preserve_partition=True,
            preserve_timestamps=True,
            segments=True,
            batches=Batches(
                job.batch_consumer,
                **{
                    "passes_on": True,
                    "max_bytes": 1_000_000,
                    "wait_ms": 1_000,
                    "least_bytes": 0,
                    "max_record_bytes": 10_000_000,
                    **batches,
                },
            ),
        )
        if delivery == "at_least_once":
            job.change(id_prefix=None)
        job.claim()
        job.open()
        return job

    return make


@pytest.fixture
def job(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> WriterJob:
    """Of a topic with batches of ten records."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", value) for value in VALUES], {"batch.num.messages": IN_BATCH})
    return new_job(source, target, COUNT)


#: How a copy may go.
WAYS = ("passed on", "as bytes", "by Spark's source")


def go(job: WriterJob, way: str) -> None:
    """Let a copy go a way."""
    batches = job.settings.batches
    assert batches is not None
    job.change(batches=None if way == WAYS[2] else replace(batches, passes_on=way == WAYS[0]))


def report_of(job: WriterJob) -> TaskReport:
    (report,) = job.run().reports.values()
    return report


def assert_copied(job: WriterJob, report: TaskReport, before: Sequence[Record] | None = None) -> None:
    """Each record that a reader sees in the source is in the target as it was, at the mapped offset.

    :param before: what a reader saw before the copy, of a source that may have been compacted since.
    """
    now = {r.offset: _content(r) for r in job.source_broker.consume(job.source)}
    source = now if before is None else {r.offset: _content(r) for r in before}
    target = {r.offset: _content(r) for r in job.broker.consume(job.target)}
    mapped = {start + i: at + i for start, end, at in report.segments for i in range(end - start)}
    wanted = {offset for part in job.pieces[0].parts for offset in range(part.from_offset, part.until_offset)}
    assert now.keys() & wanted <= mapped.keys() <= source.keys() & wanted
    assert sorted(mapped.values()) == sorted(offset or 0 for offset in target)
    assert {offset: target[at] for offset, at in mapped.items()} == {offset: source[offset] for offset in mapped}


def assert_same_bytes(job: WriterJob, report: TaskReport) -> None:
    """All batches of the source are in the target as they were, and are where the segments say."""
    source, target = raw_batches(job.source_broker, job.source), raw_batches(job.broker, job.target)
    starts = {start + i: at + i for start, end, at in report.segments for i in range(end - start)}
    assert report.batches_passed == len(source)
    assert [batch.content for batch in target] == [batch.content for batch in source]
    assert [batch.base_offset for batch in target] == [starts[batch.base_offset] for batch in source]


def _content(record: Record) -> Record:
    return record._replace(offset=None)


def test_passes_all_batches(job: WriterJob) -> None:
    """Records are counted by the batches' headers, and acknowledged by batch."""
    result = job.run()

    assert job.written() == VALUES
    assert (result.read, result.written, result.already_committed) == ({0: COUNT}, {0: COUNT}, {0: 0})
    (report,) = result.reports.values()
    assert (report.batches_passed, report.records_as_bytes) == (COUNT // IN_BATCH, 0)
    # Of whole batches, with what is between the values.
    assert report.bytes_written > sum(map(len, VALUES))
    assert job.broker.committed(job.slot.group, job.target) == {0: COUNT}


@pytest.mark.parametrize("passes_on", [pytest.param(None, id="spark"), False, True])
def test_a_task_copies_its_pieces_one_after_the_other(job: WriterJob, passes_on: bool | None) -> None:
    """By one producer, each from its own slot; a second attempt goes on from both."""
    batches = job.settings.batches
    assert batches is not None
    job.change(batches=None if passes_on is None else replace(batches, passes_on=passes_on), commit_records=30)
    job.cut(105)

    first, second = job.run(), job.run()

    assert job.written() == VALUES
    assert (first.read, first.written) == ({0: 105, 1: 95}, {0: 105, 1: 95})
    assert [report.resumed_at for report in second.reports.values()] == [105, COUNT]
    assert second.already_committed == {0: 105, 1: 95}
    groups = [job.slot.group, job.slots[job.pieces[1].name].group]
    assert [job.broker.committed(group, job.target) for group in groups] == [{0: 105}, {0: COUNT}]


@pytest.mark.parametrize("passes_on", [pytest.param(None, id="spark"), True])
def test_a_later_piece_without_its_slot_is_an_error(job: WriterJob, passes_on: bool | None) -> None:
    """What was committed of the pieces before it stays."""
    job.change(batches=None if passes_on is None else job.settings.batches)
    job.cut(100)
    job.slots = {job.pieces[1].name: replace(job.slot, group=f"{job.prefix}no-slot")}

    assert job.failure().code == ProgressUnknownError.code
    assert job.written() == VALUES[:100]


@pytest.mark.parametrize("way", WAYS)
def test_segments_map_each_offset(job: WriterJob, way: str) -> None:
    """A marker of a transaction ends a segment; all ways have the same ones."""
    go(job, way)
    job.change(commit_records=100)

    report = report_of(job)

    assert report.segments == ((0, 100, 0), (100, 200, 101))
    assert not report.segments_unknown
    assert_copied(job, report)


def test_goes_on_in_the_middle_of_a_batch(job: WriterJob) -> None:
    """As after an attempt of the other reader."""
    job.open(f"{job.pieces[0].name}\n=0 f 0", position=15)
    job.change(commit_records=1_000)

    report = report_of(job)

    assert job.written() == VALUES[15:]
    assert report.resumed_at == 15
    assert report.segments == ((0, 15, 0), (15, COUNT, 0))
    assert report.batches_passed == COUNT // IN_BATCH - 2


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_ranges_that_begin_and_end_inside_of_batches(job: WriterJob) -> None:
    """Their edges are copied as bytes, in order, and what lies between them is not written."""
    ranges = [OffsetRange(job.source, 0, *edges) for edges in ((3, 17), (25, 60), (60, 61), (150, 199))]
    job.pieces = cut({r: i for i, r in enumerate(ranges)}, [[OffsetRange(job.source, 0, 3, 199)]], {})
    job.open()

    result = job.run()

    assert job.written() == [value for r in ranges for value in VALUES[r.from_offset : r.until_offset]]
    assert result.written == {i: r.size for i, r in enumerate(ranges)}
    (report,) = result.reports.values()
    assert (report.batches_passed, report.records_as_bytes) == (3 + 4, 7 + 7 + 5 + 1 + 9)
    assert_copied(job, report)


@pytest.mark.parametrize(
    ("delivery", "compression"),
    [*(("exactly_once", name) for name in ("none", "gzip", "snappy", "lz4", "zstd")), ("at_least_once", "lz4")],
)
def test_every_compression(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, compression: str) -> None:
    """Records without key, value or headers, with null headers, and of times out of order: byte by byte."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, STRANGE, {"compression.type": compression, "batch.num.messages": 7})
    job = new_job(source, target, len(STRANGE))

    report = report_of(job)

    assert report.batches_passed > 1
    assert_copied(job, report)
    assert_same_bytes(job, report)


def test_what_no_client_can_write_is_passed_on(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """A time below 0, and a header whose name is not UTF-8."""
    source, target = topic(suffix="source"), topic(suffix="target")
    records = [Record(b"k", value, (("name", b"v"),), 10_000 + i) for i, value in enumerate(VALUES[:20])]
    kafka_broker.produce(source, records, {"batch.num.messages": 15})
    make_strange(log_of(kafka_broker, source), first_time=-5, names={b"name": b"\xff\xfe\x00e"})
    job = new_job(source, target, len(records))

    report = report_of(job)

    # Python's client fails at such a name.
    assert_same_bytes(job, report)


@pytest.mark.long
def test_a_batch_of_one_record_and_one_of_many(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", b"one")])
    many = {"batch.num.messages": 100_000, "linger.ms": 2_000, "batch.size": 10_000_000, "compression.type": "zstd"}
    kafka_broker.produce(source, [Record(b"k", b"%d" % i) for i in range(100_000)], many)
    job = new_job(source, target, 100_001)
    job.change(commit_records=1_000_000)

    report = report_of(job)

    assert 2 <= report.batches_passed <= 20
    assert report.segments == ((0, 100_001, 0),)
    assert_same_bytes(job, report)
    assert job.written()[:2] + job.written()[-1:] == [b"one", b"0", b"99999"]


def test_aborted_and_open_transactions(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """What was aborted is left out, also of a producer that commits later; markers and what is open end segments."""
    source, target = topic(suffix="source"), topic(suffix="target")
    one, other = (_transactional(kafka_broker, f"{source}-{name}") for name in ("one", "other"))
    for producer, name, commits in [(one, "a", False), (one, "b", True), (other, "c", True), (one, "d", False)]:
        _write(producer, source, name)
        producer.commit_transaction() if commits else producer.abort_transaction()
    _write(one, source, "e")
    _write(other, source, "f")
    one.commit_transaction()
    until = kafka_broker.offsets(source)[0][1]
    other.abort_transaction()
    job = new_job(source, target, until)

    report = report_of(job)

    assert job.written() == [b"%s%d" % (name, i) for name in (b"b", b"c", b"e") for i in range(20)]
    assert_copied(job, report)


def test_nothing_stays_open_while_only_aborted_records_come(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob
) -> None:
    """However long they take: the broker would end the transaction, and each attempt would end at the same place."""
    source, target = topic(suffix="source"), topic(suffix="target")
    producer = _transactional(kafka_broker, source)
    _write(producer, source, "a")
    producer.commit_transaction()
    producer.begin_transaction()
    for i in range(40):
        producer.produce(source, b"aborted %d" % i, b"k", partition=0)
        producer.flush()
    producer.abort_transaction()
    _write(producer, source, "b")
    producer.commit_transaction()
    job = new_job(source, target, kafka_broker.offsets(source)[0][1], wait_ms=500)
    # One batch at a time.
    slow = {"fetch.min.bytes": "1000000", "fetch.max.wait.ms": "100", "max.partition.fetch.bytes": "1"}
    assert job.settings.batches is not None
    job.change(
        commit_ms=60_000,
        stall_timeout_ms=1_500,
        batches=replace(job.settings.batches, consumer={**job.settings.batches.consumer, **slow}),
    )
    running = in_background(job.run)

    until(job.written)

    assert not running.done()
    running.result(60)
    assert job.written() == [b"%s%d" % (name, i) for name in (b"a", b"b") for i in range(20)]


def _transactional(broker: KafkaBroker, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    return producer


def _write(producer: Producer, topic: str, name: str) -> None:
    producer.begin_transaction()
    for i in range(20):
        producer.produce(topic, b"%s%d" % (name.encode(), i), b"k", partition=0)
    producer.flush()


def test_a_compacted_source(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """Batches with gaps are copied as bytes, those without are passed on, in order."""
    at_once = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}
    source, target = topic(config=at_once, suffix="source"), topic(suffix="target")
    batches = {"batch.num.messages": IN_BATCH}
    kafka_broker.produce(source, [Record(b"%d" % (i % 65), b"%d" % i) for i in range(100)], batches)
    deadline = time.monotonic() + 60
    while len(kafka_broker.consume(source)) >= 100:
        assert time.monotonic() < deadline
        # The segment that is being written is not compacted, and a new one begins with a record.
        kafka_broker.produce(source, [Record(b"last", b"last")])
        time.sleep(0.2)
    # Not compacted any more, but for what the broker has begun.
    kafka_broker.alter_topic(source, {"min.compaction.lag.ms": "86400000"})
    until = kafka_broker.offsets(source)[0][1]
    job = new_job(source, target, until)
    before = kafka_broker.consume(source)

    report = report_of(job)

    assert report.records_as_bytes > 0
    assert report.batches_passed > 0
    assert_copied(job, report, before)


def test_a_source_with_times_of_arrival(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """The target would refuse such batches; the records keep these times."""
    source = topic(config={"message.timestamp.type": "LogAppendTime"}, suffix="source")
    kafka_broker.produce(source, [Record(b"k", value) for value in VALUES[:30]], {"batch.num.messages": IN_BATCH})
    job = new_job(source, topic(suffix="target"), 30)

    report = report_of(job)

    assert (report.batches_passed, report.records_as_bytes) == (0, 30)
    assert_copied(job, report)


def test_batches_at_the_limit_of_the_target(kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob) -> None:
    """A batch of exactly max.message.bytes is passed on; a larger one goes as bytes, in new batches."""
    source = topic(suffix="source")
    values = [os.urandom(1_000) for _ in range(20)]
    kafka_broker.produce(source, [Record(b"k", value) for value in values[:10]], {"batch.num.messages": 10})
    kafka_broker.produce(source, [Record(b"k", value) for value in values[10:]], {"batch.num.messages": 10})
    size = (log_of(kafka_broker, source).stat().st_size) // 2
    for limit, passed in ((size, 2), (size - 1, 0)):
        target = topic(config={"max.message.bytes": str(limit)}, suffix=f"target{limit}")
        job = new_job(source, target, 20, max_bytes=limit)
        job.change(producer={**job.settings.producer, "batch.size": "4000"})

        report = report_of(job)

        assert (report.batches_passed, report.records_as_bytes) == (passed, 0 if passed else 20)
        assert_copied(job, report)


def test_a_target_that_takes_less_than_when_the_job_began(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob
) -> None:
    """The producer splits a batch that the target refuses, as it does with its own."""
    source = topic(suffix="source")
    kafka_broker.produce(source, [Record(b"k", os.urandom(1_000)) for _ in range(20)], {"batch.num.messages": IN_BATCH})
    job = new_job(source, topic(config={"max.message.bytes": "5000"}, suffix="target"), 20)
    job.change(producer={**job.settings.producer, "batch.size": "4000"})

    report = report_of(job)

    assert report.batches_passed == 2
    assert report.segments == ((0, 20, 0),)
    assert_copied(job, report)


@pytest.mark.parametrize("passes_on", [True, False])
def test_a_batch_that_the_producer_splits_is_written_anew(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, *, passes_on: bool
) -> None:
    """It changes a header's name, which is counted, and cannot write a time below -1, which fails the task at once."""
    for first_time in (5, -5):
        source, target = topic(suffix="source"), topic(config={"max.message.bytes": "5000"}, suffix="target")
        records = [Record(b"k", os.urandom(1_000), (("name", b"v"),), 10_000 + i) for i in range(IN_BATCH)]
        kafka_broker.produce(source, records, {"batch.num.messages": IN_BATCH})
        make_strange(log_of(kafka_broker, source), first_time=first_time, names={b"name": b"\xff\xfe\x00e"})
        job = new_job(source, target, IN_BATCH)
        go(job, WAYS[0] if passes_on else WAYS[1])
        job.change(producer={**job.settings.producer, "batch.size": "4000"})
        if first_time < 0:
            failure = job.failure()
            assert (failure.record, failure.permanent) == (f"{source}[0]@0", True)
            assert "writes no timestamp below -1, such as -5" in failure.reason
        else:
            report = report_of(job)
            assert (report.changed, report.first_changed) == (IN_BATCH, f"{source}[0]@0")
            assert report.segments == ((0, IN_BATCH, 0),)


@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_the_target_refuses_is_named(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, way: str
) -> None:
    """It is not the first of its batch."""
    source = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)}, suffix="source")
    times = [time.time_ns() // 1_000_000] * IN_BATCH
    times[5] += 86_400_000
    records = [Record(b"k", b"v", (), timestamp) for timestamp in times]
    kafka_broker.produce(source, records, {"batch.num.messages": IN_BATCH})
    job = new_job(source, topic(config={"message.timestamp.after.max.ms": "3600000"}, suffix="target"), IN_BATCH)
    go(job, way)

    failure = job.failure()

    assert (failure.code, failure.record, failure.permanent) == (None, f"{source}[0]@5", True)
    assert "InvalidTimestampException" in failure.reason


@pytest.mark.parametrize("way", WAYS)
def test_a_record_without_a_key_is_named_where_the_target_is_compacted(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, way: str
) -> None:
    source, target = topic(suffix="source"), topic(config={"cleanup.policy": "compact"}, suffix="target")
    keys = [b"k"] * IN_BATCH
    records = [Record(None if i == 5 else key, b"v") for i, key in enumerate(keys)]
    kafka_broker.produce(source, records, {"batch.num.messages": IN_BATCH})
    job = new_job(source, target, IN_BATCH)
    go(job, way)

    failure = job.failure()

    assert (failure.code, failure.record, failure.permanent) == (None, f"{source}[0]@5", True)
    assert "InvalidRecordException" in failure.reason


def test_a_target_that_the_producer_does_not_find_is_an_error_of_a_record(job: WriterJob) -> None:
    """As where records are read one by one."""
    job.change(topic="not a topic")

    failure = job.failure()

    assert (failure.code, failure.record) == (None, f"{job.source}[0]@0")
    assert "InvalidTopicException" in failure.reason


def test_small_batches_are_put_together(job: WriterJob) -> None:
    """One request for each would take longer."""
    assert job.settings.batches is not None
    job.change(batches=replace(job.settings.batches, least_bytes=10_000), commit_records=COUNT)

    report = report_of(job)

    assert (report.batches_passed, report.records_as_bytes, job.written()) == (0, COUNT, VALUES)
    assert len(raw_batches(job.broker, job.target)) == 1
    assert_copied(job, report)


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize(
    ("place", "content"),
    [
        pytest.param(100, b"\x00\x01\x02\x03", id="wrong-checksum"),
        pytest.param(16, b"\x07", id="a-format-of-tomorrow"),
    ],
)
def test_a_damaged_batch_is_an_error_that_names_it(
    kafka_broker: KafkaBroker, topic: TopicFactory, new_job: NewJob, place: int, content: bytes, way: str
) -> None:
    """Nothing of it is written; a copy that ends before it is not concerned."""
    source, target = topic(suffix="source"), topic(suffix="target")
    for values in (VALUES[:10], VALUES[10:20]):
        kafka_broker.produce(source, [Record(b"k", value) for value in values], {"batch.num.messages": 10})
    job = new_job(source, target, 20)
    log = log_of(kafka_broker, source)
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2 + place)
        file.write(content)
    go(job, way)

    failure = job.failure()

    assert failure.code == SourceDamagedError.code
    assert f"{source}[0] at or after offset 10 is damaged" in failure.message
    assert set(job.written()) <= set(VALUES[:10])
    before = new_job(source, topic(suffix="before"), 10)
    go(before, way)
    before.run()
    assert before.written() == VALUES[:10]


def test_what_has_aged_out_is_an_error(job: WriterJob) -> None:
    """As the consumer says it."""
    job.source_broker.delete_records(job.source, {0: 50})

    with pytest.raises(Exception, match="OffsetOutOfRangeException"):
        job.run()

    assert job.written() == []


def test_the_client_has_all_that_is_needed(spark: SparkSession) -> None:
    """Members of Kafka's clients that are not public."""
    assert missing_internals(spark.sparkContext) is None
