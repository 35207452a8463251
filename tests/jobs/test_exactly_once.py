"""Exactly once: what a try committed is there once, whatever ended it, and the next one goes on from there."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark import InheritableThread

from airflow_provider_kafka_spark.core.errors import JobError, RunTakenOverError, TargetError
from airflow_provider_kafka_spark.core.handoff.job_events import JobProgress, take_event
from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy
from tests.jobs.runs import SLOW, SMALL_COMMITS, numbered, values, wait_for_copies

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("where", [None, "coalesce(try_cast(string(value) as int) % 2 = 0, true)"])
def test_a_retry_goes_on_from_the_committed_progress(
    kafka_broker: KafkaBroker,
    topic: TopicFactory,
    run_copy: Copy,
    capfd: pytest.CaptureFixture[str],
    where: str | None,
) -> None:
    """A record in the middle is refused: what was committed before it stays, and nothing is written twice."""
    source, target = topic(suffix="source"), topic(2, suffix="target", config={"max.message.bytes": "20000"})
    large = Record(b"large", os.urandom(50_000))
    kafka_broker.produce(source, [*numbered(333), large, *numbered(100, 333)])
    ranges, options = [f"{source}:0:0:434"], {"topic": target, "where": where}
    with pytest.raises(TargetError, match=r"\[0\]@333 \(50,005 bytes"):
        run_copy(ranges, **options)
    before = len(values(kafka_broker, target))
    kafka_broker.alter_topic(target, {"max.message.bytes": "1000000"})

    report = run_copy(ranges, is_retry=True, audit_from={target: {"0": 0, "1": 0}}, event_token="token", **options)

    *_, progress = [take_event(line, "token")[1] for line in capfd.readouterr().out.splitlines() if "progress" in line]
    assert isinstance(progress, JobProgress)
    assert (progress.records, progress.planned) == (434, 434)
    assert before <= progress.delivered_before < 434
    kept = [i for i in range(433) if where is None or i % 2 == 0]
    expected = sorted([*(b"%d" % i for i in kept), large.value or b""])
    assert sorted(value or b"" for value in values(kafka_broker, target)) == expected
    assert before == report.delivered_before == len(kept[:before])
    assert before % SMALL_COMMITS == 0
    assert before > 0
    assert (report.records_read, report.records_written, report.duplicates) == (434, len(expected), 0)
    assert sum(r.records_skipped for r in report.ranges) == 434 - len(expected)
    assert [r.from_offset for r in report.target_ranges] == [0, 0]


def test_a_retry_of_what_was_delivered_writes_nothing(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try's report was lost on its way: the second one counts each of a thousand ranges of one piece, half of
    which touch, and knows where the records are.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(1_500))
    ranges = [f"{source}:0:{start}:{start + 1}" for start in range(1_500) if start % 3 < 2]
    # One transaction, however slow the machine is.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_MS", 60_000)
    first = run_copy(ranges, topic=target)

    second = run_copy(ranges, topic=target, is_retry=True, audit_from={target: {"0": 0}})

    assert values(kafka_broker, target) == [b"%d" % i for i in range(1_500) if i % 3 < 2]
    assert [r.records_written for r in first.ranges] == [1] * 1_000
    assert second.ranges == first.ranges
    assert second.target_ranges == first.target_ranges == (OffsetRange(target, 0, 0, 1_000),)
    assert second.delivered_before == 1_000


def test_what_another_plan_delivered_is_looked_for_at_every_try(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """A clear made a new plan; its first try found what was delivered before it, and failed. The next one must too."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    large = Record(b"large", os.urandom(50_000))
    kafka_broker.produce(source, [*numbered(60), large, *numbered(39, 60)])
    run_copy([f"{source}:0:0:60"], topic=target)
    retry: dict[str, Any] = {"topic": target, "is_retry": True, "audit_from": {target: {"0": 0}}}
    with pytest.raises(TargetError):
        run_copy([f"{source}:0:0:100"], **retry)
    kafka_broker.alter_topic(target, {"max.message.bytes": "1000000"})

    report = run_copy([f"{source}:0:0:100"], **retry)

    numbers = [b"%d" % i for i in range(99)]
    assert values(kafka_broker, target) == [*numbers[:60], large.value, *numbers[60:]]
    assert (report.delivered_before, report.records_written) == (60, 100)


def test_an_open_transaction_of_another_writer_hides_nothing(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """Consumers that read committed do not see later records until it ends."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(100))
    other = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": "another-writer"})
    other.init_transactions()
    other.begin_transaction()
    other.produce(target, b"foreign")
    other.flush()
    run_copy([f"{source}:0:0:60"], topic=target)
    assert values(kafka_broker, target) == []
    commit = threading.Timer(3, other.commit_transaction)
    commit.start()

    report = run_copy([f"{source}:0:0:100"], topic=target, is_retry=True, audit_from={target: {"0": 0}})

    commit.join()
    assert values(kafka_broker, target) == [b"foreign", *(b"%d" % i for i in range(100))]
    assert report.delivered_before == 60


@pytest.mark.usefixtures("small_commits")
def test_a_driver_whose_run_was_taken_over_is_fenced(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """It still lives and writes when the next try starts, after a clear with another plan; it fails by name, and each
    record is there once.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(650), {"batch.num.messages": 10})
    ranges, failures = [f"{source}:0:0:600"], list[Exception]()

    def first_try() -> None:
        try:
            run_copy(ranges, topic=target, source_options=SLOW)
        except JobError as error:
            failures.append(error)

    earlier = InheritableThread(target=first_try)
    earlier.start()
    wait_for_copies(kafka_broker, target, SMALL_COMMITS)
    assert earlier.is_alive()

    report = run_copy([f"{source}:0:0:650"], topic=target, is_retry=True, audit_from={target: {"0": 0}})

    earlier.join(60)
    assert not earlier.is_alive()
    assert [type(failure) for failure in failures] == [RunTakenOverError]
    assert values(kafka_broker, target) == [b"%d" % i for i in range(650)]
    assert report.delivered_before > 0


def test_at_least_once_leaves_no_progress(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """It has neither transactions nor groups."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(50))

    report = run_copy([f"{source}:0:0:50"], topic=target, delivery="at_least_once")

    assert values(kafka_broker, target) == [b"%d" % i for i in range(50)]
    assert report.progress_groups == ()


def test_at_least_once_writes_whole_ranges_again_into_a_compacted_target(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """Compacted records would count as missing, and be written after newer values."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"cleanup.policy": "compact"})
    kafka_broker.produce(source, [Record(b"k%d" % (i % 3), b"%d" % i) for i in range(30)])
    options: dict[str, Any] = {"topic": target, "delivery": "at_least_once"}
    run_copy([f"{source}:0:0:20"], **options)

    report = run_copy([f"{source}:0:0:30"], is_retry=True, audit_from={target: {"0": 0}}, **options)

    last = {record.key: record.value for record in kafka_broker.consume(target)}
    assert last == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}
    assert (report.delivered_before, report.records_written) == (0, 30)
    assert "whole ranges are written again, in order" in report.warnings[0]
