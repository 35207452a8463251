"""Exactly once: what a try committed is there once, whatever ended it, and the next one goes on from there; also where
the target was recreated, where Airflow has lost the state of the run, and after the worker's last word on it.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import (
    DeliveryError,
    DuplicateRecordsError,
    RunTakenOverError,
    TargetRecreatedError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.wire.job_events import JobProgress, take_event
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.jobs.kafka_rdd import read_tasks
from airflow_provider_kafka_spark.testing.broker_client import Record
from tests.airflow_fakes import TaskStateStore
from tests.jobs.conftest import Pair
from tests.jobs.runs import (
    REFUSES_LARGE,
    SLOW,
    SMALL_COMMITS,
    TAKES_LARGE,
    in_background,
    large,
    numbered,
    numbers,
    values,
    wait_for_copies,
)
from tests.operators.copy_task import NewTask

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("where", [None, "coalesce(try_cast(string(value) as int) % 2 = 0, true)"])
def test_a_retry_goes_on_from_the_committed_progress(
    pair: Pair, capfd: pytest.CaptureFixture[str], where: str | None
) -> None:
    """A record in the middle is refused: what was committed before it stays, and nothing is written twice."""
    refused = large()
    pair.broker.add_partitions(pair.target, 2)
    pair.fill([*numbered(333), refused, *numbered(100, 333)])
    pair.refused(lambda: pair.copy(434, where=where), r"\[0\]@333 \(50,005 bytes")
    before = len(pair.values())

    report = pair.retry(434, where=where, target_starts={pair.target: {"0": 0, "1": 0}}, event_token="token")

    *_, progress = [take_event(line, "token")[1] for line in capfd.readouterr().out.splitlines() if "progress" in line]
    assert isinstance(progress, JobProgress)
    assert (progress.records, progress.planned) == (434, 434)
    assert before <= progress.delivered_before < 434
    kept = [i for i in range(433) if where is None or i % 2 == 0]
    expected = sorted([*(b"%d" % i for i in kept), refused.value or b""])
    assert sorted(value or b"" for value in pair.values()) == expected
    assert before == report.delivered_before == len(kept[:before])
    assert before % SMALL_COMMITS == 0
    assert before > 0
    assert (report.records_read, report.records_written, report.duplicates) == (434, len(expected), 0)
    assert sum(r.records_skipped for r in report.ranges) == 434 - len(expected)
    assert [r.from_offset for r in report.target_ranges] == [0, 0]


def test_a_retry_of_what_was_delivered_writes_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try's report was lost on its way: the second one counts each of a thousand ranges of one piece, half of
    which touch, and knows where the records are.
    """
    pair.fill(numbered(1_500))
    ranges = [f"{pair.source}:0:{start}:{start + 1}" for start in range(1_500) if start % 3 < 2]
    # One transaction, however slow the machine is.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_MS", 60_000)
    first = pair.run(ranges, topic=pair.target)

    second = pair.run(ranges, topic=pair.target, is_retry=True, target_starts={pair.target: {"0": 0}})

    assert pair.values() == [b"%d" % i for i in range(1_500) if i % 3 < 2]
    assert [r.records_written for r in first.ranges] == [1] * 1_000
    assert second.ranges == first.ranges
    assert second.target_ranges == first.target_ranges == (OffsetRange(pair.target, 0, 0, 1_000),)
    assert second.delivered_before == 1_000


@pytest.mark.long
def test_many_ranges_in_many_pieces(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """More pieces than fit into one transaction of progress, which has one group for each here."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.run_store._GROUPS_OF_TRANSACTION", 10)
    pair.fill(numbered(120))
    ranges = [f"{pair.source}:0:{start}:{start + 9}" for start in range(0, 120, 10)]
    options = {"topic": pair.target, "spans": plan_spans(OffsetRanges.parse(ranges), 5), "preserve_order": False}

    report = pair.run(ranges, **options)
    again = pair.run(ranges, **options, is_retry=True)

    assert numbers(pair.broker, pair.target) == [i for i in range(120) if i % 10 < 9]
    assert [r.records_written for r in report.ranges] == [9] * 12
    assert (len(report.progress_groups), again.delivered_before, again.ranges) == (24, 108, report.ranges)


def test_what_another_plan_delivered_is_looked_for_at_every_try(pair: Pair) -> None:
    """A clear made a new plan; its first try found what was delivered before it, and failed. The next one must too."""
    refused = large()
    pair.fill([*numbered(60), refused, *numbered(39, 60)])
    pair.copy(60)
    pair.refused(lambda: pair.retry(100))

    report = pair.retry(100)

    written = [b"%d" % i for i in range(99)]
    assert pair.values() == [*written[:60], refused.value, *written[60:]]
    assert (report.delivered_before, report.records_written) == (60, 100)


@pytest.mark.usefixtures("small_commits")
def test_a_driver_whose_run_was_taken_over_is_fenced(pair: Pair) -> None:
    """It still lives and writes when the next try starts, after a clear with another plan; it fails by name, and each
    record is there once.
    """
    pair.fill(numbered(650), in_batch=10)
    earlier = in_background(lambda: pair.copy(600, source_options=SLOW))
    wait_for_copies(pair.broker, pair.target, SMALL_COMMITS)
    assert not earlier.done()

    report = pair.retry(650)

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert pair.values() == [b"%d" % i for i in range(650)]
    assert report.delivered_before > 0


def test_at_least_once_leaves_no_progress(pair: Pair) -> None:
    """It has neither transactions nor groups."""
    pair.fill(numbered(50))

    report = pair.copy(50, delivery="at_least_once")

    assert pair.values() == [b"%d" % i for i in range(50)]
    assert report.progress_groups == ()


def test_at_least_once_writes_whole_ranges_again_into_a_compacted_target(pair: Pair) -> None:
    """Compacted records would count as missing, and be written after newer values."""
    pair.broker.alter_topic(pair.target, {"cleanup.policy": "compact"})
    pair.fill([Record(b"k%d" % (i % 3), b"%d" % i) for i in range(30)])
    pair.copy(20, delivery="at_least_once")

    report = pair.retry(30, delivery="at_least_once")

    last = {record.key: record.value for record in pair.broker.consume(pair.target)}
    assert last == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}
    assert (report.delivered_before, report.records_written) == (0, 30)
    assert "whole ranges are written again, in order" in report.warnings[0]


_COUNT = 200
_VALUES = [b"%d" % i for i in range(_COUNT)]


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
@pytest.mark.usefixtures("small_commits")
def test_while_tasks_write(pair: Pair, delivery: str) -> None:
    """What was committed before is lost with the topic, and is written again."""
    pair.fill(numbered(_COUNT), in_batch=10)
    slow = {**SLOW, "kafka.fetch.max.wait.ms": "500"}
    first = in_background(lambda: pair.copy(_COUNT, source_options=slow, delivery=delivery))
    wait_for_copies(pair.broker, pair.target, SMALL_COMMITS)
    pair.recreate_target()
    failure = first.exception(180)

    pair.retry(_COUNT, delivery=delivery)

    assert isinstance(failure, TargetRecreatedError), failure
    found = pair.values()
    if delivery == "exactly_once":
        assert found == _VALUES
    assert set(found) == set(_VALUES)
    assert len(found) == _COUNT


@pytest.mark.long
def test_one_that_held_many_records_of_others(pair: Pair) -> None:
    """The records of the run began at an offset that the new topic does not have."""
    pair.fill(numbered(_COUNT))
    pair.broker.produce(pair.target, numbered(1_000))
    begins = {"audit_from": {pair.target: {"0": 1_000}}}
    pair.copy(_COUNT, **begins)
    pair.recreate_target()
    # A retry that failed has delivered something to the new topic.
    pair.retry(50, **begins)

    report = pair.retry(_COUNT, **begins)

    assert pair.values() == _VALUES
    assert (report.delivered_before, report.records_written) == (50, _COUNT)
    assert [r.from_offset for r in report.target_ranges] == [0]


_FEW = 100


@pytest.mark.usefixtures("small_commits")
def test_a_retry_without_its_state_writes_nothing_twice(new_task: NewTask) -> None:
    """The state store deletes what is old, and the mark at the brokers is still there."""
    task = new_task(records=[*numbered(60), large()])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        task.run()
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    first, task.store = task.store, TaskStateStore()

    result = task.run()

    assert values(task.kafka, task.target) == values(task.kafka, task.source)
    assert result["run_id"] == first.values["kafka_spark_run"]["value"]["run_id"]
    assert result["delivered_before"] == 50
    assert any("Airflow has stored nothing of that" in warning for warning in result["warnings"])


@pytest.mark.parametrize("keeps_state", [True, False])
def test_records_that_a_task_passed_over_are_written_by_the_next_try(
    new_task: NewTask, monkeypatch: pytest.MonkeyPatch, *, keeps_state: bool
) -> None:
    """The committed progress says that they are done, and the worker has found that they are not. Its finding is in the
    mark too, in case the state is lost.
    """
    task = new_task(records=numbered(_FEW))

    def with_a_gap(spark: Any, tasks: Any, *options: Any) -> Any:
        gap = [OffsetRange(task.source, 0, 0, 40), OffsetRange(task.source, 0, 60, _FEW)]
        return read_tasks(spark, [gap], *options)

    with monkeypatch.context() as patch:
        patch.setattr(kafka_source, "read_tasks", with_a_gap)
        with pytest.raises(DeliveryError, match="fewer records than there are"):
            task.run()
    if not keeps_state:
        task.store = TaskStateStore()

    result = task.run()

    assert numbers(task.kafka, task.target) == list(range(_FEW))
    if keeps_state:
        assert (result["delivered_before"], result["records_written"]) == (80, _FEW)


def test_a_duplicate_is_found_by_every_further_try(new_task: NewTask) -> None:
    """Otherwise a retry would be green that only counts its own records. It is in the mark too, in case the state is
    lost.
    """
    task = new_task(records=[*numbered(60), large()])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(AirflowFailException):
        task.run(delivery="at_least_once")
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    task.kafka.produce(task.target, task.kafka.consume(task.target)[:1] or pytest.fail("nothing was written"))

    for kept in (task.store, task.store, TaskStateStore()):
        task.store = kept
        with pytest.raises(AirflowFailException, match=DuplicateRecordsError.__name__):
            task.run()

    task.store = TaskStateStore()
    assert task.run(allow_duplicates=True)["duplicates"] == 1
    assert task.values().total() == 62


@pytest.mark.usefixtures("small_commits")
def test_duplicates_that_a_try_has_found_are_known_to_the_next_one(pair: Pair) -> None:
    """A try found them when it read the target back, and failed; the next one goes on from its progress."""
    pair.fill([*numbered(60), large()])
    pair.copy(10)
    pair.broker.produce(pair.target, pair.broker.consume(pair.target)[:3])
    pair.refused(lambda: pair.copy(61, is_retry=True))

    report = pair.copy(61, is_retry=True)

    assert (report.duplicates, report.records_written) == (3, 61)
