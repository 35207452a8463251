"""The writer on a real broker and Spark: when it looks, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from airflow_provider_kafka_spark.core.errors import (
    ExpressionError,
    JobFailedError,
    ProgressUnknownError,
    SourceStalledError,
)
from airflow_provider_kafka_spark.jobs.janino import compile_java
from airflow_provider_kafka_spark.jobs.kafka_rdd import as_rows
from airflow_provider_kafka_spark.jobs.record_writer import row_guard
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy
from tests.jobs.open_commits import open_commit
from tests.jobs.runs import SLOW, in_background, numbered, values
from tests.jobs.writer.conftest import TaskFailedError, WriterJob
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 200
VALUES = [b"%d" % i for i in range(COUNT)]


@pytest.fixture
def job(spark: SparkSession, kafka_broker: KafkaBroker, topic: TopicFactory) -> WriterJob:
    """A copy of all records of a topic, claimed and opened by its driver."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", value) for value in VALUES], {"batch.num.messages": 10})
    job = WriterJob(spark, kafka_broker, kafka_broker, source, target, COUNT)
    job.claim()
    job.open()
    return job


def test_writes_all_records_and_reports_them(job: WriterJob) -> None:
    """With the progress of each transaction."""
    result = job.run()

    assert job.written() == VALUES
    assert (result.read, result.written, result.already_committed) == ({0: COUNT}, {0: COUNT}, {0: 0})
    (report,) = result.reports.values()
    assert (report.piece, report.resumed_at, report.targets_unknown) == (job.pieces[0].name, None, False)
    assert job.broker.committed(job.slot.group, job.target) == {0: COUNT}


def test_a_second_attempt_writes_nothing_twice(job: WriterJob) -> None:
    """It knows where the first one wrote."""
    first = job.run()

    second = job.run()

    assert job.written() == VALUES
    assert (second.written, second.already_committed) == ({0: COUNT}, {0: COUNT})
    assert second.targets == first.targets
    assert [report.resumed_at for report in second.reports.values()] == [COUNT]


def test_a_transaction_over_the_mark_and_the_slot_is_waited_for(job: WriterJob) -> None:
    """Until it has ended, brokers do not say what is committed. That is not taken for no mark, or no slot."""
    mark, slot = job.settings.owner, job.slot
    assert mark is not None
    with ExitStack() as opened:
        text = json.dumps({"number": mark.number, "token": mark.token})
        over_mark = opened.enter_context(open_commit(job.broker, mark.group, {mark.topic: (0, text)}))
        progress = {slot.topic: (100, f"{job.pieces[0].name}\n")}
        over_slot = opened.enter_context(open_commit(job.broker, slot.group, progress))
        ends = [Timer(seconds, producer.commit_transaction) for seconds, producer in ((1, over_mark), (2, over_slot))]
        for end in ends:
            end.start()
        result = job.run()
        for end in ends:
            end.join(30)

    assert job.written() == VALUES[100:]
    assert result.already_committed == {0: 100}


def test_a_transaction_over_the_mark_that_stays_open(job: WriterJob) -> None:
    mark = job.settings.owner
    assert mark is not None
    job.change(delivery_timeout_ms=1_000)
    with open_commit(job.broker, mark.group, {mark.topic: (0, "{}")}) as producer:
        failure = job.failure()
        producer.abort_transaction(30)

    assert "A transaction that changes the mark or the progress of piece" in str(failure)
    assert job.written() == []


@pytest.mark.parametrize("name", [pytest.param("another-piece", id="of-another-piece"), pytest.param(None, id="none")])
def test_unknown_progress_is_an_error(job: WriterJob, name: str | None) -> None:
    """A missing slot never means that nothing was done."""
    if name is None:
        job.slot = type(job.slot)(f"{job.prefix}no-slot", job.target, 0)
    else:
        job.open(name)

    assert job.failure().code == ProgressUnknownError.code
    assert job.written() == []


@pytest.fixture(scope="module")
def fail_at(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, str], Any]:
    """Make a Java function that passes records, and fails at an offset when a system property is set."""
    context: Any = spark.sparkContext
    source = Path(__file__).with_name("FailAt.java").read_text()
    compiled = compile_java(context._jvm, {"tests/jobs/writer/FailAt.java": source})
    jar = tmp_path_factory.mktemp("jars") / "fail-at.jar"
    compiled.write_jar(jar)
    context._jsc.addJar(f"local:{jar}")

    def make(kind: str, offset: int, name: str) -> Any:
        arguments = context._gateway.new_array(context._jvm.java.lang.Object, 3)
        arguments[0], arguments[1], arguments[2] = kind, str(offset), name
        return compiled.loader.loadClass("tests.jobs.writer.FailAt").getConstructors()[0].newInstance(arguments)

    return make


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("IOException", None), ("StackOverflowError", ExpressionError.code)],
    ids=["checked", "error"],
)
def test_the_transaction_ends_with_the_attempt(
    spark: SparkSession, job: WriterJob, fail_at: Callable[[str, int, str], Any], kind: str, expected: str | None
) -> None:
    """Whatever ended it: readers of committed records do not wait for the transaction's time-out."""
    from py4j.protocol import Py4JJavaError

    context: Any = spark.sparkContext

    def failing(records: Any) -> Any:
        given = records.filter(fail_at(kind, 120, job.target))
        # As where SQL computes the rows.
        return given.mapPartitions(row_guard(context)) if expected else given

    ended = in_background(lambda: job.run(failing))
    # Before a record has arrived, the transaction is open for its producer only.
    until(lambda: len(job.broker.consume(job.target, isolation_level="read_uncommitted")) > 100)
    assert not _is_readable(job, 0)
    context._jvm.java.lang.System.setProperty(job.target, "set")
    with pytest.raises((TaskFailedError, Py4JJavaError)) as caught:
        ended.result(60)

    found = caught.value.failure.code if isinstance(caught.value, TaskFailedError) else None
    assert found == expected
    assert _is_readable(job)
    assert job.written() == VALUES[:100]


def test_a_record_outside_of_the_piece_is_an_error(job: WriterJob, spark: SparkSession) -> None:
    """It would be written by another task as well."""
    part = WriterJob(spark, job.broker, job.broker, job.source, job.target, 120, prefix=job.prefix)
    part.open()
    # The writer takes the end of the piece from its parts; the source gives more.
    part.spans = job.pieces[0].spans

    failure = part.failure()

    assert (failure.code, failure.permanent) == (JobFailedError.code, True)
    assert failure.record == f"{job.source}[0]@120"


def test_spark_does_not_repeat_what_is_refused_permanently(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """Although it may try each task four times."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    kafka_broker.produce(source, [Record(b"k", value) for value in VALUES] + [Record(b"large", os.urandom(50_000))])
    arguments = [kafka_broker.bootstrap_servers, source, target, str(COUNT + 1)]

    output = subprocess.run(
        [sys.executable, "-m", "tests.jobs.writer.retrying_spark", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    ).stdout

    last = json.loads(output.splitlines()[-1])
    assert "RecordTooLargeException" in last["reason"]
    assert last["failed"] == 1


@pytest.fixture
def stalling(spark: SparkSession, kafka_broker: KafkaBroker, second_broker: KafkaBroker, topic: TopicFactory) -> Any:
    """A job whose source is suspended as soon as the first records are committed, and goes on after the test."""
    target, source = topic(suffix="target"), topic(suffix="source").replace("source", "far")
    second_broker.create_topic(source, 1)
    second_broker.produce(source, [Record(b"k", value) for value in VALUES], {"batch.num.messages": 10})
    job = WriterJob(spark, second_broker, kafka_broker, source, target, COUNT, options=dict(SLOW))
    job.claim()
    job.open()
    job.change(commit_records=1_000_000, commit_ms=300)
    process = _listener(second_broker)
    try:
        yield job, process
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("reader", ["records", pytest.param("rows", marks=pytest.mark.long)])
def test_a_source_that_stalls_keeps_no_transaction_open(
    stalling: tuple[WriterJob, psutil.Process], spark: SparkSession, reader: str
) -> None:
    """The task commits what it has, and goes on when the source answers again; also through generated code."""
    job, process = stalling
    if reader == "rows":
        job.change(columns=("offset", "_selected"))
        result = in_background(lambda: job.run(lambda records: _rows(spark, records)))
    else:
        result = in_background(job.run)
    until(lambda: bool(job.written()))

    process.send_signal(signal.SIGSTOP)
    # The consumer gives up after one second, and then the transaction is committed.
    until(lambda: _is_readable(job, 0.1))
    seen = job.written()
    time.sleep(1.5)
    still_readable = _is_readable(job)
    process.send_signal(signal.SIGCONT)

    assert result.result(60).written == {0: COUNT}
    assert still_readable
    assert job.written() == VALUES
    assert 0 < len(seen) < COUNT


def test_a_source_that_stalls_for_too_long_ends_the_task(stalling: tuple[WriterJob, psutil.Process]) -> None:
    """By name; what was committed stays."""
    job, process = stalling
    job.change(stall_timeout_ms=3_000)
    failure = in_background(job.failure)
    until(lambda: bool(job.written()))

    process.send_signal(signal.SIGSTOP)

    assert failure.result(60).code == SourceStalledError.code
    assert _is_readable(job)


@pytest.mark.long
def test_a_driver_fences_within_the_limit_of_its_brokers(second_broker: KafkaBroker, run_copy: Copy) -> None:
    """The tasks of an earlier plan, where brokers allow only short transactions."""
    source, target = second_broker.create_topic("source", 1), second_broker.create_topic("target", 1)
    second_broker.produce(source, numbered(100))
    login = {"kafka.bootstrap.servers": second_broker.bootstrap_servers}
    options: dict[str, Any] = {
        "topic": target,
        "source_options": login,
        "sink_options": {**login, "kafka.transaction.timeout.ms": "15000"},
    }
    run_copy([f"{source}:0:0:60"], **options)

    report = run_copy([f"{source}:0:0:100"], is_retry=True, **options)

    assert values(second_broker, target) == values(second_broker, source)
    assert report.delivered_before == 60


def _rows(spark: SparkSession, records: Any) -> Any:
    """What Spark SQL computes of records, which the writer gets as well."""
    rows = as_rows(spark, records, headers=False, beside_records=True)
    selected = rows.selectExpr("offset", "length(value) > 0 as _selected")
    return selected._jdf.queryExecution().toRdd().toJavaRDD()  # noqa: SLF001 - PySpark has no public name for it


def _is_readable(job: WriterJob, seconds: float = 5.0) -> bool:
    """Whether no transaction is open in the target, within some seconds."""
    deadline = time.monotonic() + seconds
    while True:
        if _last_stable(job) == job.broker.offsets(job.target)[0][1]:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _last_stable(job: WriterJob) -> int:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": job.broker.bootstrap_servers})
    request = {TopicPartition(job.target, 0): OffsetSpec.latest()}
    (found,) = admin.list_offsets(request, isolation_level=IsolationLevel.READ_COMMITTED).values()
    return int(found.result(30).offset)


def _listener(broker: KafkaBroker) -> psutil.Process:
    """The process that listens at a broker's port."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    (pid,) = {c.pid for c in psutil.net_connections("tcp") if c.laddr.port == port and c.status == psutil.CONN_LISTEN}
    return psutil.Process(pid)
