"""Logs that have lost records between two tries, or while a job runs: cut by an unclean election, compacted, aged out.

What only this proves: that no task takes the records that stand at the same offsets now for those that it has copied or
planned, and none for delivered that a target has acknowledged and lost. Topic ids stay the same. A log is cut in the
broker's own file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import KINDS, Batch, CopyTask, NewTask, Replay, Stream, audit, covering, execute, large
from tests.raw_batches import cut_at
from tests.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Records of a batch and of a transaction, and of all; how many offsets of a source are left, and how many of a target,
#: with the markers.
SIZE, RECORDS, LEFT, LEFT_OF_TARGET = 10, 100, 60, 66

NewOnOther = Callable[..., CopyTask]


@pytest.fixture
def new_on_other(
    other_broker: KafkaBroker, connection: Callable[..., None], in_process_spark: InProcessSpark, tmp_path: Path
) -> NewOnOther:
    """Makes a task with a source and a target on the broker whose logs are cut."""
    connection("kafka_default", extra={"bootstrap.servers": other_broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")

    def make(name: str, records: int = 0, **parameters: Any) -> CopyTask:
        source, target = (other_broker.create_topic(f"{name}-{side}") for side in ("source", "target"))
        for i in range(0, records, SIZE):
            other_broker.produce(source, [Record(b"k", b"%d" % (i + j)) for j in range(SIZE)])
        given = {"target_topic": target, "preserve_partition": True, **parameters}
        return CopyTask(other_broker, in_process_spark, tmp_path / name, [source], given)

    return make


@dataclass
class Case:
    """A task that has read or planned 100 records, and what it has to do then.

    :param then: how many records are put at the end of the log that was cut to 60.
    """

    task: CopyTask
    kind: type
    then: int

    def fill(self, text: str, end: int, start: int = 0) -> None:
        for i in range(start, end, SIZE):
            records = [Record(b"k", f"{text}{i + j}".encode()) for j in range(SIZE)]
            self.task.kafka.produce(self.task.source, records)

    def run(self, **parameters: Any) -> dict[str, Any]:
        """A retry of a batch; the next run of a stream."""
        if self.kind is Stream:
            self.task.store = TaskStateStore()
        return self.task.run(self.kind, **parameters)

    def run_after(self, act: Callable[[], Any]) -> None:
        """A run, and what happens when its plan is made."""
        run = SparkJobHook.run

        def act_first(*arguments: Any) -> JobReport:
            act()
            return run(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkJobHook, "run", act_first)
            self.run()

    def check(self) -> None:
        """Red first, with a name and a way out. Then all is there that the source has, and each record that is read
        again is there once more only where it was copied under another run.
        """
        with pytest.raises(AirflowFailException, match=r"DataLossError: .*was cut at 60 by an unclean leader election"):
            self.run()
        lost = self.run(fail_on_data_loss=False)
        now, copied = self.task.values(self.task.source), self.task.values()
        again = self.run(fail_on_data_loss=False)

        assert "was cut at 60" in str(lost)
        assert now - copied == Counter()
        old = {f"old{i}".encode(): 1 for i in range(100)}
        twice = Counter({v: 1 for v in now if v in old}) if self.kind is Batch else Counter[bytes]()
        assert copied == Counter(old) + Counter({v: 1 for v in now if v not in old}) + twice
        assert self.task.values() == copied
        assert again["records_read"] == 0 or self.kind is Batch


def test_other_records_at_the_same_offsets(other_broker: KafkaBroker, new_on_other: NewOnOther) -> None:
    def case(name: str, kind: type, then: int, **parameters: Any) -> Case:
        return Case(new_on_other(name, **parameters), kind, then)

    cases = [
        case("stream", Stream, 90),
        case("short-stream", Stream, 30),
        case("stream-with-segments", Stream, 90, provenance="segments"),
        case("batch", Batch, 90),
        case("batch-with-segments", Batch, 90, provenance="segments"),
        # Killed between the last records and the commit of a batch that goes up to 100.
        case("killed-stream", Stream, 90),
        case("killed-stream-of-a-short-log", Stream, 0),
    ]
    # Half of it has come between the plan and Spark's start.
    ahead = case("stream-ahead-of-its-plan", Stream, 90)
    ahead.fill("old", 50)
    ahead.run_after(lambda: ahead.fill("old", 100, 50))
    for c in cases:
        is_killed = "killed" in c.task.source
        c.fill("old", 30 if is_killed else 100)
        if c.kind is Batch:
            c.task.lose_report()
        else:
            c.run()
        if is_killed:
            c.fill("old", 100, 30)
            c.run()
            (c.task.checkpoint / "generation-0" / "commits" / "1").unlink()
    running, run = case("running-batch", Batch, 90), SparkJobHook.run
    running.fill("old", 100)
    cases += [ahead, running]

    def run_and_cut(*arguments: Any) -> JobReport:
        report = run(*arguments)
        cut_at(other_broker, {c.task.source: LEFT for c in cases})
        for c in cases:
            c.fill("new", c.then)
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkJobHook, "run", run_and_cut)
        with pytest.raises(AirflowFailException, match=r"DataLossError: .*running-batch-source\[0\] was cut at 60"):
            running.run()
    for c in cases:
        c.check()


#: Of the driver, when its Spark tasks have ended.
_LAST_LOOK = "_raise_if_incomplete"
ALL = Counter(b"%d" % i for i in range(RECORDS))
FOREIGN = Counter({b"foreign": 2 * RECORDS})


def check(task: CopyTask, kind: type, act: str = "succeed") -> None:
    """What is gone is written again; where no header says what that is, all is, and the result says so."""
    left = task.values() - FOREIGN
    assert 0 < left.total() < RECORDS
    result = getattr(task, act)(kind)
    is_exact = task.given.get("provenance", "headers") == "headers"
    assert task.values() - FOREIGN == (ALL if is_exact else ALL + left), task.source
    assert kind is Stream or result["evidence"]["may_have_duplicates"] is not is_exact


def test_what_a_target_has_lost_is_written_again(
    other_broker: KafkaBroker, new_on_other: NewOnOther, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a try that was killed, and after a success whose task is cleared."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    killed = [
        (new_on_other("headers", RECORDS), Batch),
        (new_on_other("segments", RECORDS, provenance="segments"), Batch),
        (new_on_other("streamed", RECORDS), Stream),
    ]
    # No record tells of it, so that nothing tells those of others from it.
    short = new_on_other("no-provenance", RECORDS, provenance=None)
    one_by_one = {"delivery": "at_least_once", "sink_options": {"kafka.batch.size": "1"}}
    cleared = [
        new_on_other("cleared", RECORDS, provenance="segments"),
        new_on_other("cleared-no-provenance", RECORDS, provenance=None),
        new_on_other("cleared-at-least-once", RECORDS, provenance=None, **one_by_one),
    ]
    for task, kind in (*killed, (short, Batch)):
        task.lose_report(kind)
        if kind is Stream:
            # Killed between the last records and the commit of the batch.
            (task.checkpoint / "generation-0" / "commits" / "0").unlink()
    for task in cleared:
        task.succeed()
    left = {task.target: LEFT_OF_TARGET for task in (*(task for task, _ in killed), short, *cleared)}
    # Without transactions there are no markers.
    cut_at(other_broker, {**left, cleared[-1].target: LEFT})
    # Others write in the place of what is gone.
    for task in (*(task for task, _ in killed), cleared[0]):
        other_broker.produce(task.target, [Record(b"k", b"foreign")] * 2 * RECORDS)

    for task, kind in (*killed, (short, Batch)):
        check(task, kind)
    for task in cleared:
        check(task, Batch, "clear")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="headers"),
        pytest.param({"provenance": "segments"}, id="segments", marks=pytest.mark.long),
        pytest.param(
            {"delivery": "at_least_once", "sink_options": {"kafka.batch.size": "1"}},
            id="at-least-once", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_a_target_that_is_cut_while_its_job_runs(
    other_broker: KafkaBroker,
    new_on_other: NewOnOther,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    given: dict[str, Any],
) -> None:
    """And filled again by others: the job fails, and its retry writes what is gone."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    task, looks = new_on_other(f"running-{request.node.callspec.id}", RECORDS, **given), getattr(batch, _LAST_LOOK)

    def cut_first(*arguments: Any) -> None:
        cut_at(other_broker, {task.target: LEFT_OF_TARGET})
        other_broker.produce(task.target, [Record(b"k", b"foreign")] * 2 * RECORDS)
        looks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(batch, _LAST_LOOK, cut_first)
        with pytest.raises(DeliveryError, match="another leader has cut"):
            task.run()
    check(task, Batch)


def test_a_target_that_is_cut_while_another_partition_is_written(
    other_broker: KafkaBroker, new_on_other: NewOnOther, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clear has found there is not written by this job, and is to be there at its end."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    task, looks = new_on_other("found", RECORDS), getattr(batch, _LAST_LOOK)
    task.succeed()
    for topic in (task.source, task.target):
        other_broker.add_partitions(topic, 2)
    other_broker.produce(task.source, [Record(b"k", b"more", partition=1)] * SIZE)

    def cut_first(*arguments: Any) -> None:
        cut_at(other_broker, {task.target: LEFT_OF_TARGET})
        other_broker.produce(task.target, [Record(b"k", b"foreign", partition=0)] * 2 * RECORDS)
        looks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(batch, _LAST_LOOK, cut_first)
        with pytest.raises(DeliveryError, match=r"found-target\[0\] has not: another leader has cut"):
            task.clear()
    task.run()
    assert task.values() - FOREIGN == ALL + Counter({b"more": SIZE})


COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}


def _compact(kafka: KafkaBroker, name: str) -> None:
    """Of each key, only its last record is left. A record that is ``segment.ms`` younger than the first one of the
    newest segment begins another one; the newest is never compacted.
    """
    time.sleep(0.2)
    kafka.produce(name, [Record(b"last", b"v")])
    until(lambda: max(Counter(r.key for r in kafka.consume(name)).values()) == 1, "the log is compacted")


@pytest.mark.long
@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize("provenance", ["headers", "segments"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_what_was_compacted_since_is_neither_missing_nor_invented(
    kafka: KafkaBroker, topic: TopicFactory, provenance: str, side: str
) -> None:
    """Three of ten records are left. An audit, a replay of the result and a copy by an older plan say what is there."""
    source = topic(suffix="source", config=COMPACTED if side == "source" else {})
    target = topic(suffix="target", config=COMPACTED if side == "target" else {})
    kafka.produce(source, [Record(b"k%d" % (i % 3), b"%d" % i) for i in range(10)])
    layout: dict[str, Any] = {"target_topic": target, "provenance": provenance, "preserve_partition": True}
    elsewhere = {**layout, "target_topic": topic(suffix="elsewhere")}
    plan = execute(Batch(task_id="plan", topics=[source], plan_only=True, **elsewhere))
    copied = execute(Batch(task_id="copy", topics=[source], **layout))
    _compact(kafka, source if side == "source" else target)

    audited = audit(copied, fail_on_finding=False)
    by_plan = execute(Batch(task_id="by_plan", plan=plan, **elsewhere))
    replayed = execute(Replay(task_id="replay", offset_ranges=copied, **elsewhere))

    # Headers and segments tell of records that their source has no more.
    assert (audited["once"], audited["unknown"]) == ((10, 0) if side == "source" else (3, 7))
    assert audited["duplicated"] == audited["missing"] == audited["different"] == 0
    left = [b"7", b"8", b"9"] if side == "source" else [b"%d" % i for i in range(10)]
    for result in (by_plan, replayed):
        assert (result["records_written"], result["gaps"]) == (len(left), 10 - len(left))
    assert [r.value for r in kafka.consume(elsewhere["target_topic"])] == left * 2


def test_a_retry_after_the_compaction_of_what_was_delivered(new_task: NewTask, topic: TopicFactory) -> None:
    """Its segments have more records than it has read, and it is green; a clear writes nothing again."""
    records = [*(Record(b"k%d" % i, b"%d" % i) for i in range(10)), large()]
    task = new_task(provenance="segments", preserve_partition=True)
    task.sources = [topic(suffix="compacted", config=COMPACTED)]
    task.kafka.produce(task.source, records)
    delivered = task.fail_at_large(commit_records=5)
    task.kafka.produce(task.source, [Record(b"k%d" % i, b"newer") for i in range(10)])
    _compact(task.kafka, task.source)

    result = task.succeed()

    assert delivered.total() == 10
    assert (result["records_written"], result["delivered_before"]) == (1, 0)
    assert sum(segment["until_offset"] - segment["from_offset"] for segment in result["segments"]) == 11
    assert task.values() == delivered + Counter({records[-1].value or b"": 1})
    again = task.clear()
    assert task.values(task.source) - task.values() == Counter()
    assert again["records_written"] == 12


@pytest.mark.parametrize(
    ("kind", "provenance"),
    covering([(Batch, "headers"), (Replay, "segments"), (Stream, "segments")], KINDS, ("headers", "segments")),
)
def test_what_a_strict_try_delivered_counts(new_task: NewTask, kind: type, provenance: str) -> None:
    """A try is stopped in the middle, records age out that it has delivered, and the loss is permitted."""
    records = [Record(value=b"%d" % i) for i in range(20)]
    records[12] = large()
    task = new_task(records=records, provenance=provenance, preserve_partition=True)
    delivered = task.fail_at_large(lambda: task.run(kind), 5)
    assert 0 < delivered.total() < 20
    task.kafka.delete_records(task.source, {0: 3})

    with pytest.raises(AirflowFailException, match="fail_on_data_loss=False"):
        task.run(kind)
    result = task.succeed(kind, fail_on_data_loss=False)

    assert (task.values() - delivered).total() == 20 - delivered.total()
    assert task.values() == Counter(record.value or b"" for record in records)
    assert result["duplicates"] == 0
    assert [w for w in result["warnings"] if "again" in w or "more than once" in w] == []
