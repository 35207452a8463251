"""Promises of ``on_rerun``: what a clear after a success does, and a backfill that reprocesses."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError

from airflow_provider_kafka_spark.core.errors import JobReportMissingError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.runs.run_identity import instance_id, owner_group
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership
from airflow_provider_kafka_spark.operators import bounded_copy
from airflow_provider_kafka_spark.submission.applications import Applications
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import Try, task_context
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, audit, large, numbered, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Task(CopyTask):
    """A task that copies the source to the target, and announces it."""

    asset = Asset("copied")

    @property
    def announced(self) -> dict[str, Any] | None:
        """What the event of the last run says, if there is one."""
        extra: dict[str, Any] = self.event(self.asset).extra
        return extra if self.asset in self.operator.outlets else None


@pytest.fixture
def task(new_task: NewTask) -> Any:
    return new_task(Task, 2, 2, numbered(0, 10), outlets=[Task.asset])


@pytest.mark.parametrize(
    "routed", [pytest.param(False, id="exactly-once"), pytest.param(True, id="at-least-once", marks=pytest.mark.long)]
)
def test_a_clear_after_a_success_writes_only_what_is_new(task: Task, routed: bool) -> None:
    """Other records of the target stay out of the result; each event announces what none has announced before."""
    by_row = {"target_topic": None, "target_topic_expr": f"if(offset >= 0, '{task.target}', null)"}
    parameters: dict[str, Any] = {"delivery": "at_least_once", **by_row} if routed else {}
    task.kafka.produce(task.target, [Record(value=b"other")])
    first = task.clear(**parameters)
    announced_first = task.announced
    task.kafka.produce(task.target, [Record(value=b"other")] * 3)
    again = task.clear(**parameters)
    announced_again = task.announced
    task.kafka.produce(task.source, numbered(10, 16))
    more = task.clear(**parameters)

    assert sum(task.values().values()) == 16 + 4
    assert max((task.values() - Counter({b"other": 4})).values()) == 1
    assert (first["delivered_before"], again["delivered_before"], more["delivered_before"]) == (0, 10, 10)
    assert (again["records_written"], more["records_written"]) == (10, 16)
    assert again["run_id"] == first["run_id"] == more["run_id"]
    assert again["target_ranges"] == first["target_ranges"]
    assert any("has delivered" in warning for warning in again["warnings"])
    assert announced_first is not None
    assert announced_again is None
    places = {(r["partition"], n) for r in first["target_ranges"] for n in range(r["from_offset"], r["until_offset"])}
    assert task.announced is not None
    assert task.announced["target_ranges"]
    for r in task.announced["target_ranges"]:
        assert not places & {(r["partition"], n) for n in range(r["from_offset"], r["until_offset"])}


def test_a_clear_writes_again_what_the_target_has_lost(task: Task) -> None:
    task.clear(preserve_partition=True)
    losses = (lambda: task.kafka.delete_records(task.target, {0: 3}), lambda: task.recreate(task.target))
    for lose, left in zip(losses, (7, 0), strict=True):
        lose()

        result = task.clear(preserve_partition=True)

        assert task.values() == once(0, 10)
        assert result["delivered_before"] == left
        assert task.announced is not None


@pytest.mark.parametrize(
    ("parameters", "policy"),
    [({"provenance": None}, "delete"), ({}, "compact")],
    ids=["no-header", "compacted"],
)
def test_where_the_target_cannot_be_read_back_the_proof_counts(
    task: Task, parameters: dict[str, Any], policy: str
) -> None:
    """Until the plan is another one: everything is then written again, with a warning."""
    task.kafka.alter_topic(task.target, {"cleanup.policy": policy})
    keyed = [Record(key=b"%d" % i, value=b"%d" % i, partition=i % 2) for i in range(10, 14)]
    task.kafka.delete_records(task.source, {0: 5, 1: 5})
    task.kafka.produce(task.source, keyed)
    first = task.clear(**parameters)
    again = task.clear(**parameters)
    announced = task.announced
    written_once = task.values()
    task.kafka.produce(task.source, [Record(key=b"14", value=b"14", partition=0)])
    more = task.clear(**parameters)

    assert written_once == once(10, 14)
    assert (again["delivered_before"], again["target_ranges"], announced) == (4, first["target_ranges"], None)
    assert any("written again" in warning for warning in more["warnings"])
    assert task.values() == once(10, 14) + once(10, 15)


def test_a_clear_may_be_refused_or_copy_again(task: Task) -> None:
    """A plan says either."""
    first = task.clear()
    for parameters in ({}, {"plan_only": True}):
        with pytest.raises(AirflowFailException, match=f"delivered 10 records before, under run_id {first['run_id']}"):
            task.clear(on_rerun="fail", **parameters)
    refused = task.values()
    plan = task.clear(on_rerun="copy_again", plan_only=True)
    second = task.clear(on_rerun="copy_again")

    assert (refused, task.values()) == (once(0, 10), once(0, 10) + once(0, 10))
    assert second["run_id"] != first["run_id"]
    for result in (plan, second):
        assert any("on_rerun='copy_again': everything is written again" in w for w in result["warnings"])
    assert second["delivered_before"] == 0
    assert task.announced is not None


@pytest.mark.long
def test_a_retry_within_a_clear_writes_only_what_is_missing(task: Task) -> None:
    """It announces what no event has announced, although the clear's first try has written it; and an audit of its
    result finds all that the tries have written.
    """
    task.given["preserve_partition"] = True
    task.clear()
    first_targets = task.announced["target_ranges"] if task.announced else []
    task.kafka.produce(task.source, numbered(10, 16))
    task.die_at("collected", bounded_copy, task.clear)
    task.kafka.produce(task.target, [Record(value=b"other", partition=p) for p in (0, 1)])
    result = task.succeed()

    assert task.values() == once(0, 16) + Counter({b"other": 2})
    assert (result["delivered_before"], result["records_written"]) == (16, 16)
    assert task.announced is not None
    ends = {r["partition"]: r["until_offset"] for r in first_targets}
    assert all(r["from_offset"] >= ends[r["partition"]] for r in task.announced["target_ranges"])
    assert len(task.announced["target_ranges"]) == 2
    assert audit(result, fail_on_finding=True)["once"] == 16


@pytest.fixture
def refused_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login has no rights on groups, as at least once permits."""

    def refuse(run: RunOwnership) -> None:
        error = run.admin.jvm.org.apache.kafka.common.errors.GroupAuthorizationException("owner")
        raise Py4JJavaError("refused", error)

    monkeypatch.setattr(RunOwnership, "_read_mark", refuse)


@pytest.mark.usefixtures("refused_mark")
def test_without_a_mark_nothing_counts_as_proved_that_was_not(task: Task) -> None:
    """The first try has written nothing; a clear of the second finds the proof, and with more records it is another."""
    task.given |= {"delivery": "at_least_once", "provenance": None}
    task.die_at("write_records", batch)
    task.succeed()
    retried = task.values()
    task.clear()
    cleared = task.values()
    task.kafka.produce(task.source, numbered(10, 12))
    task.clear()

    assert retried == cleared == once(0, 10)
    assert task.values() == once(0, 12) + once(0, 10)


def test_a_dag_run_that_was_deleted_and_made_again(task: Task) -> None:
    """Under its id, while the mark of the deleted one is still there. Its first try fails before there is a plan, which
    has lost nothing.
    """
    task.clear()
    task.store.values.clear()
    task.tries = task.clears = 0
    task.die_at("_parameters", act=task.run)

    result = task.succeed()

    assert task.values() == once(0, 10) + once(0, 10)
    assert (result["delivered_before"], result["warnings"]) == (0, [])


@pytest.mark.parametrize(
    ("has_mark", "on_rerun"),
    [
        (True, "missing_only"),
        (True, "copy_again"),
        pytest.param(True, "fail", marks=pytest.mark.long),
        (False, "missing_only"),
    ],
)
def test_a_clear_without_the_state(task: Task, has_mark: bool, on_rerun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has deleted it, or Airflow at the success, and with it all that on_rerun goes by. Brokers keep the mark
    for a week; the target is read back, as after any success. The mark has the number of the last submission, whose
    worker had a clock that was 50 minutes ahead.
    """
    task.given["preserve_partition"] = True
    with monkeypatch.context() as patch:
        patch.setattr(bounded_copy, "time", SimpleNamespace(time=lambda: time.time() + 3000))
        first = task.clear()
    task.store.values.clear()
    if not has_mark:
        group = owner_group(instance_id("tests", "dag", "manual__2026-11-20", "task"))
        admin = AdminClient({"bootstrap.servers": task.kafka.bootstrap_servers})
        admin.delete_consumer_groups([group])[group].result(timeout=30)
    else:
        task.kafka.delete_records(task.target, {0: 3})

    result = task.clear(on_rerun=on_rerun)

    assert any("Airflow has stored nothing of that" in warning for warning in result["warnings"])
    assert task.values() == Counter(dict.fromkeys(once(0, 10), 1 if has_mark else 2))
    assert (result["run_id"] == first["run_id"]) is has_mark
    assert result["delivered_before"] == (7 if has_mark else 0)


def test_a_clear_without_records_waits_for_a_driver_of_before(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would write after the success."""
    waited: list[str] = []
    task.lose_report()
    monkeypatch.setattr(Applications, "wait_for", lambda _, application_id: waited.append(application_id))

    task.clear(starting_timestamp=int(time.time() * 1000))

    assert len(waited) == 1


def test_a_run_of_a_topic_that_was_recreated_is_not_taken_over(task: Task) -> None:
    """Without the state the target is all that tells. Its records have the topic, partitions and offsets of the new
    one's, and are others. A next clear that has lost the state too goes on with the new run.
    """
    first = task.clear()
    task.kafka.delete_topic(task.source)
    task.kafka.create_topic(task.source, 2)
    task.kafka.produce(task.source, numbered(100, 110))
    results = []
    for _ in range(2):
        task.store.values.clear()
        results.append(task.clear())

    assert task.values() == once(0, 10) + once(100, 110)
    assert any("has read other source topics of the same names" in warning for warning in results[0]["warnings"])
    assert [result["delivered_before"] for result in results] == [0, 10]
    assert results[0]["run_id"] == results[1]["run_id"] != first["run_id"]


@pytest.mark.parametrize(
    "others", [pytest.param(("green",), marks=pytest.mark.long), ("lost", "green")], ids=" then ".join
)
def test_what_a_failed_plan_has_left_is_found_after_other_plans(new_task: NewTask, others: tuple[str, ...]) -> None:
    """Also in a partition that the plans between have nothing of; and the announced ranges have all of it."""
    records = [*numbered(0, 4), large(), *numbered(4, 8)]
    records = [record._replace(partition=number) for number in range(2) for record in records]
    task = new_task(CopyTask, 2, 2, records, preserve_partition=True)
    first, between, whole = (
        [f"{task.source}:{number}:{start}:{end}" for number, start, end in ranges]
        for ranges in ([(0, 0, 6), (1, 0, 6)], [(0, 5, 9)], [(0, 0, 9), (1, 0, 9)])
    )
    left = task.fail_at_large(lambda: task.run(Replay, offset_ranges=first), commit_records=3)
    for other in others:
        task.clears += 1
        (task.succeed if other == "green" else task.lose_report)(Replay, offset_ranges=between)
    task.clears += 1
    result = task.succeed(Replay, offset_ranges=whole)

    assert left.total() >= 3
    assert task.values() == task.values(task.source)
    told = OffsetRanges.parse(result["target_ranges"])
    for r in task.kafka.consume(task.target):
        assert any(t.partition == r.partition and t.from_offset <= (r.offset or 0) < t.until_offset for t in told), r


def test_what_an_api_user_has_stored_moves_no_record(
    task: Task, topic: TopicFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another target, a file for the report, and then a result that proves everything: a retry asks the target."""
    other, file = topic(2, suffix="other"), tmp_path / "dag.py"
    file.write_text("print()")
    task.lose_report()
    stored = task.store.values
    stored["kafka_spark_requested"]["value"]["requested"]["target_topic"] = other
    remote = {"tag": "t", "report_uri": str(file), "digest": ""}
    stored["kafka_spark_run"]["value"]["remote"] = remote
    first = task.run()
    task.kafka.produce(task.source, numbered(10, 12))
    stored["kafka_spark_run"]["value"] |= {"result": {**first, "warnings": ["mine"]}, "succeeded": False}
    second = task.run()

    assert task.values() == once(0, 12)
    assert task.kafka.consume(other) == []
    assert (first["delivered_before"], second["delivered_before"]) == (10, 10)
    assert file.read_text() == "print()"
    assert "was not stored by this task instance" in caplog.text


@pytest.mark.parametrize("kept", [pytest.param("begun", marks=pytest.mark.long), "delivered"])
def test_an_older_state_of_the_task_is_no_memory(task: Task, kept: str) -> None:
    """Its MAC is right. The mark at the brokers is of a later submission, so it is forgotten: nothing is duplicated."""
    task.die_at("_plan", act=task.run)
    if kept == "delivered":
        task.succeed()
        task.kafka.produce(task.source, numbered(10, 14))
        task.clears += 1
    older = dict(task.store.values)
    task.lose_report()
    task.store.values |= older
    with pytest.raises(JobReportMissingError, match="Somebody has written an older one"):
        task.run()
    result = task.run()

    assert task.values() == task.values(task.source)
    assert result["delivered_before"] == task.values().total()


def test_a_try_that_a_trigger_resumes_needs_its_state(task: Task) -> None:
    """A first try without a state is otherwise one that has submitted nothing."""
    operator = Batch(task_id="task", topics=[task.source], target_topic=task.target)
    with pytest.raises(JobReportMissingError, match="the task's state is gone"):
        operator.resume(task_context(ti=Try()), {"status": "ended"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "plans", ["a then b then a", *(pytest.param(p, marks=pytest.mark.long) for p in ("ab then b", "a then b"))]
)
def test_a_target_that_only_a_failed_plan_has_is_searched(new_task: NewTask, topic: TopicFactory, plans: str) -> None:
    """Each plan but the last has some of two topics, which go to targets of their own; the first one fails."""
    task = new_task(CopyTask, 2, 2, [*numbered(0, 8), large()])
    others = topic(2, suffix="b-source"), topic(2, suffix="b-target")
    task.kafka.produce(others[0], numbered(0, 8))
    given = {"target_topic": None, "topic_map": {task.source: task.target, others[0]: others[1]}}
    ranges = {"a": [f"{task.source}:0:0:5", f"{task.source}:1:0:4"], "b": [f"{others[0]}:{p}:0:4" for p in range(2)]}
    first, *rest = ([r for name in plan for r in ranges[name]] for plan in (*plans.split(" then "), "ab"))
    task.fail_at_large(lambda: task.run(Replay, offset_ranges=first, **given), commit_records=3)
    for plan in rest:
        task.clears += 1
        task.succeed(Replay, offset_ranges=plan, **given)

    assert task.values() == task.values(task.source)
    assert task.values(others[1]) == task.values(others[0])


def test_what_a_driver_does_not_know_of_its_targets_is_said(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are compacted, where their records are after the state is lost, and in which form."""
    task.clear()
    with monkeypatch.context() as patch:
        patch.setattr(KafkaAdmin, "configs", lambda *_: {})
        blind = task.clear()
    task.store.values.clear()
    other = task.clear(columns={"value": "upper(string(value))"})

    assert any("nothing tells whether it is compacted" in warning for warning in blind["warnings"])
    assert any("has delivered by other parameters" in warning for warning in other["warnings"])
    assert task.values() == once(0, 10)


def test_a_finished_run_whose_target_has_another_leader(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its records say nothing of it, and the task has lost what it knew, nobody looks whether the log was cut."""
    task.clear(provenance=None)
    task.store.values.clear()
    monkeypatch.setattr(KafkaAdmin, "leader_epochs", lambda _, topics: {(name, 0): 99 for name in topics})

    again = task.clear(provenance=None)

    assert task.values() == once(0, 10)
    assert any("whether the log was cut was not looked at" in warning for warning in again["warnings"])
