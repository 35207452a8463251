"""Promises of the stream operator, on a real broker and a real Spark.

Jobs run in a Spark of this process, in place of ``spark-submit``: all else is as it is in production.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    CheckpointInUseError,
    ConsumerGroupError,
    DeliveryError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.streams.batch_notes import BatchNote
from airflow_provider_kafka_spark.core.streams.checkpoint import Lock
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs import available_now as job
from airflow_provider_kafka_spark.jobs import remaining
from airflow_provider_kafka_spark.jobs.checkpoint_lock import checkpoint_lock
from airflow_provider_kafka_spark.operators import available_now, stream_result
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.state import checkpoint
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.operators.copy_task import CopyTask, NewTask, Stream, audit, large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Scene(CopyTask):
    """A source and a target of one partition each, and runs of a stream from the one to the other."""

    def stream(self, run_id: str = "run", **parameters: Any) -> dict[str, Any]:
        """A try of this DAG run, of which Airflow remembers nothing but the checkpoint."""
        given = {"starting_offsets": "earliest", **self.given, **parameters}
        topics = {} if {"topic_pattern", "assign"} & set(parameters) else {"topics": self.sources}
        operator = Stream(task_id="task", checkpoint_location=str(self.checkpoint), **topics, **given)
        result = operator.execute(task_context(ti=TaskInstance(run_id=run_id)))  # type: ignore[arg-type]
        assert json.loads(json.dumps(result)) == result
        return result

    def produce(self, first: int, last: int, partitions: int = 1, topic: str | None = None) -> None:
        records = [
            Record(b"k%d" % i, b"v%05d" % i, (("h", b"1"),), partition=i % partitions) for i in range(first, last)
        ]
        self.kafka.produce(topic or self.source, records)

    def assert_copied(self, *ranges: range) -> None:
        """The target has each of these records once."""
        found = sorted(record.value or b"" for record in self.kafka.consume(self.target))
        assert found == [b"v%05d" % i for numbers in ranges for i in numbers]


@pytest.fixture
def scene(new_task: NewTask) -> Any:
    return new_task(Scene)


@pytest.fixture
def wide(scene: Scene, topic: TopicFactory) -> Scene:
    """With a source of two partitions."""
    scene.sources = [topic(2, suffix="wide")]
    return scene


def test_three_runs_with_production_in_between(wide: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run takes what came since the one before, and one with nothing to do starts no Spark. The lag is measured to
    the real end: Spark's own counts to the end fixed at the start, so it is always 0. After success what is
    finished is committed for lag monitors, forwards only, also by a run that has nothing to copy. A group with members
    is refused before anything starts: their commits and ours would overwrite each other.
    """
    group = f"lag-of-{wide.source}"
    wide.produce(0, 100, 2)
    with wide.kafka.group_member(group, wide.source), pytest.raises(ConsumerGroupError, match="must have no members"):
        wide.stream(commit_group_id=group)
    assert not wide.spark.requests

    def produce(report: JobReport) -> JobReport:
        wide.produce(100, 150, 2)
        return report

    with monkeypatch.context() as patch:
        _changed_report(patch, produce)
        first = wide.stream()
    second = wide.stream()
    third, again = wide.stream(commit_group_id=group), wide.stream(commit_group_id=group)

    assert [r["records_written"] for r in (first, second, third)] == [100, 50, 0]
    assert [(r["from_offset"], r["until_offset"]) for r in second["ranges"]] == [(50, 75), (50, 75)]
    wide.assert_copied(range(150))
    assert len(wide.spark.requests) == 2
    assert first["run_id"] == second["run_id"] == third["run_id"]
    assert (first["records_behind"], third["records_behind"]) == (50, 0)
    assert first["behind"] == {f"{wide.source}[0]": 25, f"{wide.source}[1]": 25}
    assert (first["group_committed"], again["group_committed"]) == (None, {})
    assert third["group_committed"] == {f"{wide.source}[0]": 75, f"{wide.source}[1]": 75}
    assert wide.kafka.committed(group, wide.source) == {0: 75, 1: 75}
    wide.produce(150, 160, 2)
    wide.run(Stream, commit_group_id=group)
    # When the run looked, before it copied.
    (lag,) = wide.event(COPIES).extra["log"]["groups"]
    assert lag == {"group_id": group, "topic": wide.source, "side": "source", "behind": 10}


def test_a_run_after_one_on_a_worker_whose_clock_was_ahead(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of the DAG has another task's state: the number of the last submission is beside the checkpoint, for a
    new generation too. The old generation is kept, and a retry of the run does not reset again.
    """
    runs: list[dict[str, Any]] = [{}, {}, {"reset_checkpoint_to": {scene.source: {"0": 2}}}]
    for i, changed in enumerate(runs):
        scene.produce(i, i + 1)
        with monkeypatch.context() as patch:
            if i == 0:
                patch.setattr(available_now, "time", SimpleNamespace(time=lambda: time.time() + 3_000))
            assert scene.stream(f"run {i}", **changed)["records_written"] == 1

    assert scene.stream("run 2", **runs[2])["records_written"] == 0
    scene.assert_copied(range(3))
    assert {path.name for path in scene.checkpoint.iterdir()} == {"generation-0", "generation-1", "submission.json"}
    requests = scene.spark.requests
    assert [r.submission.number - requests[0].submission.number for r in requests] == [0, 1, 2]
    assert all(abs(r.submission.at_ms / 1000 - time.time()) < 600 for r in requests[1:])


def test_transforms_are_those_of_a_batch(scene: Scene, topic: TopicFactory) -> None:
    """where, columns, a topic per row, headers and provenance work as in a bounded copy, of the partitions that were
    assigned; kept records are counted apart.
    """
    source, targets = topic(3), [topic(suffix="even"), topic(suffix="odd")]
    scene.produce(0, 30, 3, topic=source)
    result = scene.stream(
        assign={source: [0, 1]},
        target_topic=None,
        target_topic_expr=f"if(partition = 0, '{targets[0]}', '{targets[1]}')",
        where="string(key) <> 'k4'",
        columns={"value": "upper(string(value))"},
    )
    assert (result["records_read"], result["records_written"]) == (20, 19)
    assert sorted(result["target_topics"]) == sorted(targets)
    odd = scene.kafka.consume(targets[1])
    assert sorted(record.value or b"" for record in odd) == [b"V%05d" % i for i in range(1, 30, 3) if i != 4]
    headers = dict(odd[0].headers)
    assert headers["h"] == b"1"
    provenance = Provenance.parse(headers[PROVENANCE_HEADER] or b"")
    assert (provenance.run_id, provenance.topic, provenance.partition) == (result["run_id"], source, 1)


def test_the_first_run_says_where_to_start_and_latest_stays_where_it_was(scene: Scene) -> None:
    """Without starting_offsets Spark would start at the end and call it a success. A first run that finds nothing pins
    its start: what comes before the second run is not skipped. Runs without records may be skipped, that one too.
    """
    given = {"starting_offsets": "latest", "on_empty": "skip"}
    scene.produce(0, 10)
    with pytest.raises(AirflowFailException, match=r"first run .* starting_offsets must say where to start"):
        scene.stream(starting_offsets=None)
    with pytest.raises(AirflowSkipException, match="No records"):
        scene.stream("first", **given)
    scene.produce(10, 15)
    second = scene.stream("second", **given)
    with pytest.raises(AirflowSkipException, match="No records"):
        scene.stream("third", **given)

    assert second["records_written"] == 5
    scene.assert_copied(range(10, 15))


def test_a_batch_without_its_commit_is_finished_and_not_doubled(
    wide: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash after the batch was written and before its commit: the same offsets are read again, and nothing is
    written twice.
    """
    wide.produce(0, 100, 2)
    wide.stream()
    wide.produce(100, 140, 2)
    wide.stream()
    (wide.checkpoint / "generation-0" / "commits" / "1").unlink()
    wide.produce(140, 150, 2)

    result = wide.stream()

    wide.assert_copied(range(150))
    assert result["unfinished"] == [f"{wide.source}:0:50:70", f"{wide.source}:1:50:70"]
    batches = [(b["batch"], b["replayed"], b["delivered_before"]) for b in result["batches"]]
    assert batches == [(1, True, 40), (2, False, 0)]
    assert (result["records_written"], result["delivered_before"]) == (50, 40)
    assert "Batch 1 of an earlier run is uncommitted" in capsys.readouterr().out


def test_what_an_unfinished_batch_has_written_is_looked_for_after_the_ends_before_its_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that have the time of their writing are found by offset: the clock of a driver decides nothing. Of a
    target that was recreated since, all is read.
    """
    looked, read_ranges = list[list[str]](), remaining.read_ranges

    def looking(session: Any, ranges: Any, options: Any) -> Any:
        looked.append([r.format() for r in ranges])
        return read_ranges(session, ranges, options)

    monkeypatch.setattr(remaining, "read_ranges", looking)
    parameters = {"delivery": "at_least_once", "preserve_timestamps": False}
    generation = scene.checkpoint / "generation-0"
    scene.produce(0, 10)
    scene.stream(**parameters)
    scene.produce(10, 14)
    scene.stream(**parameters)
    (generation / "commits" / "1").unlink()
    offsets = generation / "offsets" / "1"
    ahead = int(time.time() * 1000) + 15 * 60_000
    (generation / "offsets" / ".1.crc").unlink()
    offsets.write_text(re.sub(r'"batchTimestampMs":\d+', f'"batchTimestampMs":{ahead}', offsets.read_text()))

    result = scene.stream(**parameters)

    scene.assert_copied(range(14))
    assert (result["delivered_before"], looked) == (4, [[f"{scene.target}:0:10:14"]])
    (generation / "commits" / "1").unlink()
    scene.recreate(scene.target, 1)
    scene.kafka.produce(scene.target, [Record(value=b"other")] * 20)
    assert scene.stream(**parameters)["delivered_before"] == 0
    assert looked[1:] == [[f"{scene.target}:0:0:20"]]


@pytest.fixture
def large_at_the_end(scene: Scene) -> Scene:
    """The last of 26 records is a large one. One of 27 offsets is a marker."""
    scene.kafka.produce_transaction(scene.source, [Record(b"k", b"v%05d" % i) for i in range(12)])
    scene.produce(12, 25)
    scene.kafka.produce(scene.source, [large()])
    return scene


def test_partitions_that_are_added_after_a_crash_are_read_from_their_beginning(scene: Scene) -> None:
    """An unfinished batch and a change in the number of partitions: Spark up to 4.0.1 would fail at every restart."""
    scene.produce(0, 10)
    scene.stream()
    (scene.checkpoint / "generation-0" / "commits" / "0").unlink()
    scene.kafka.add_partitions(scene.source, 2)
    scene.produce(10, 20, 2)
    result = scene.stream()
    scene.assert_copied(range(20))
    assert (result["delivered_before"], result["added_partitions"]) == (10, [f"{scene.source}[1]"])


def test_what_is_gone_is_an_error_unless_its_loss_is_permitted(scene: Scene, topic: TopicFactory) -> None:
    """Of a topic that was recreated, one that was deleted, and one of which unread records have aged out. Spark would
    silently read only the records after the old offset. If loss is permitted, the new topic is read from its start, the
    others continue, and each gap is in the result.
    """
    recreated, deleted, aged = scene.sources = [topic(suffix=name) for name in ("recreated", "deleted", "aged")]
    for i, name in enumerate(scene.sources):
        scene.produce(10 * i, 10 * i + 10, topic=name)
    scene.stream()
    scene.recreate(recreated, 1)
    scene.produce(100, 140, topic=recreated)
    scene.kafka.delete_topic(deleted)
    scene.produce(30, 50, topic=aged)
    scene.kafka.delete_records(aged, {0: 15})

    with pytest.raises(AirflowFailException) as error:
        scene.stream()
    result = scene.stream(fail_on_data_loss=False)
    scene.produce(140, 145, topic=recreated)
    again = scene.stream(fail_on_data_loss=False)

    for says in (
        r"deleted and recreated .* up to offset 10",
        r"the topic was deleted; the stream had read it up to offset 10",
        r"\[0\].*aged out: the log now starts at 15",
    ):
        assert re.search(says, str(error.value)), str(error.value)
    missing = {m["topic"]: (m["from_offset"], m["until_offset"], m["reason"]) for m in result["missing_ranges"]}
    assert {name: (start, end) for name, (start, end, _) in missing.items()} == {
        recreated: (10, 10), deleted: (10, 10), aged: (10, 15),
    }  # fmt: skip
    assert "recreated" in missing[recreated][2]
    assert (result["generation"], result["records_written"], again["records_written"]) == (1, 55, 5)
    scene.assert_copied(range(30), range(35, 50), range(100, 145))


def test_transactions(scene: Scene) -> None:
    """Aborted records stay out, what is open comes when it is committed, and gaps do not look like a loss. A batch of
    offsets without a record moves the stream on.
    """
    records = {i: Record(b"k", b"v%05d" % i) for i in range(15)}
    scene.kafka.produce_transaction(scene.source, list(records.values()), commit=False)
    aborted = scene.stream()
    scene.produce(0, 5)
    scene.kafka.produce_transaction(scene.source, [records[i] for i in range(5, 10)])
    with scene.kafka.open_transaction(scene.source, [records[i] for i in range(10, 15)]) as transaction:
        first = scene.stream()
        transaction.commit()
    second = scene.stream()
    assert (aborted["records_read"], aborted["gaps"], aborted["records_behind"]) == (0, 16, 0)
    assert (first["records_written"], second["records_written"]) == (10, 5)
    assert first["gaps"] == 1
    assert "open transaction" in " ".join(first["warnings"])
    scene.assert_copied(range(15))


def test_two_runs_at_once_are_refused_and_the_lock_of_a_dead_one_is_taken_over(
    scene: Scene, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the lock beats, the second one does not start. A driver that was killed leaves its lock, which does
    not change any more.
    """
    scene.produce(0, 10)
    with (
        checkpoint_lock(spark, f"file://{scene.checkpoint}/lock.json", "task 'other'", None),
        pytest.raises(CheckpointInUseError, match="in use by task 'other'"),
    ):
        scene.stream()
    monkeypatch.setattr(checkpoint, "STALE_SECONDS", 2.0)
    lock = scene.checkpoint / "lock.json"
    lock.write_text(Lock("task 'dead'", "local-1", 7).format())

    assert scene.stream()["records_written"] == 10
    assert not lock.exists()


def _changed_report(monkeypatch: pytest.MonkeyPatch, change: Callable[[JobReport], JobReport]) -> None:
    run = SparkJobHook.run
    monkeypatch.setattr(SparkJobHook, "run", lambda *arguments: change(run(*arguments)))


def test_a_missing_count_is_not_green(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that says less than the checkpoint fails the task. A retry looks at the note of the batch; without it,
    nobody knows what was copied.
    """
    scene.produce(0, 10)
    note = scene.checkpoint / "generation-0" / "batches" / "0"

    def less(report: JobReport) -> JobReport:
        (counts,) = report.ranges
        return replace(report, ranges=(replace(counts, offset_range=replace(counts.offset_range, until_offset=9)),))

    _changed_report(monkeypatch, less)
    with pytest.raises(DeliveryError, match=r"the stream went from 0 to 9.*reported up to 9, committed up to 10"):
        scene.run(Stream)
    text = note.read_text()
    note.unlink()
    with pytest.raises(AirflowFailException, match=r"UncopiedRecordsError.*was rejected, and no note"):
        scene.run(Stream)
    note.write_text(text)
    assert scene.run(Stream)["finished_before"] == [f"{scene.source}:0:0:10"]


def test_a_retry_that_finds_all_finished_is_not_skipped(scene: Scene) -> None:
    """The worker died when the job had ended: the retry announces what that has copied, also if it has too much."""
    scene.produce(0, 10)
    asset = Asset("copied")
    given: dict[str, Any] = {"outlets": [asset], "on_empty": "skip"}
    scene.die_at("collected_stream", available_now, lambda: scene.run(Stream, **given))
    result = scene.run(Stream, max_planned_records=5, **given)

    assert result["finished_before"] == [f"{scene.source}:0:0:10"]
    assert f"{scene.source}:0:0:10" in scene.event(asset).extra["offset_ranges"]
    scene.assert_copied(range(10))


@pytest.mark.parametrize("provenance", ["headers", pytest.param("segments", marks=pytest.mark.long)])
def test_a_task_announces_what_its_own_tries_have_finished(large_at_the_end: Scene, provenance: str) -> None:
    """The next DAG run finishes a batch that the failed one has begun, and announces it; a clear of the failed one
    announces its own two batches. Of a batch without a note it announces nothing, and warns.
    """
    scene, asset = large_at_the_end, Asset("copied")
    given: dict[str, Any] = {"max_offsets_per_trigger": 10, "outlets": [asset]}
    given |= {"preserve_partition": True, "provenance": provenance}
    failed, states = scene.run_id, (scene.store, TaskStateStore())
    scene.fail_at_large(lambda: scene.run(Stream, **given))
    scene.run_id, scene.store = "next", states[1]
    scene.produce(30, 35)
    scene.succeed(Stream, **given)
    others = scene.event(asset).extra
    scene.run_id, scene.store = failed, states[0]
    scene.clears += 1
    result = scene.run(Stream, **given)
    own = scene.event(asset).extra
    (scene.checkpoint / "generation-0" / "batches" / "0").unlink()
    scene.clears += 1
    without = scene.run(Stream, **given)

    assert others["offset_ranges"] == [f"{scene.source}:0:20:32"]
    assert result["finished_before"] == [f"{scene.source}:0:0:20"]
    assert own["offset_ranges"] == [*result["finished_before"], f"{scene.source}:0:32:32"]
    places = [OffsetRanges.parse(entry["target_ranges"], merge_overlaps=True) for entry in (own, others)]
    assert places[0]
    assert not places[0].intersect(places[1])
    assert without["finished_before"] == [f"{scene.source}:0:10:20"]
    assert re.search(rf"No note .* {scene.source}:0:0:10: they are neither", " ".join(without["warnings"]))


def test_what_was_not_proved_is_looked_at_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try whose batch is committed has failed since no broker answered for the second count. The next try counts, and
    is green. If the batch has fewer records than there are, each further try fails: the stream is past them.
    """
    scene.produce(0, 10)
    note = scene.checkpoint / "generation-0" / "batches" / "0"

    def silent(*_: Any, **__: Any) -> None:
        raise BrokerUnavailableError("No broker answered.")

    with monkeypatch.context() as patch:
        patch.setattr(stream_result, "check_counts", silent)
        with pytest.raises(BrokerUnavailableError):
            scene.run(Stream)
        patch.setattr(KafkaHook, "count_records", silent)
        text = note.read_text()
        # As of a job that has not seen the last record.
        note.write_text(text.replace('"records_read": 10', '"records_read": 9').replace('written": 10', 'written": 9'))
        with pytest.raises(BrokerUnavailableError):
            scene.run(Stream)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"UncopiedRecordsError.*9 read, 10 there\. The stream"):
            scene.run(Stream)
        scene.clears += 1
    note.write_text(text)
    result = scene.run(Stream)

    assert (result["finished_before"], len(scene.spark.requests)) == ([f"{scene.source}:0:0:10"], 1)
    scene.assert_copied(range(10))


def test_old_notes_are_removed_up_to_the_first_of_the_task_at_work(
    scene: Scene, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next try needs them, however many batches came after."""
    folder = scene.folder / "batches"
    folder.mkdir()
    report = JobReport("id", "", (), ("copy",), "", "", 1.0)
    for number, owner in enumerate(["other", "other", "task", "other", "other"]):
        (folder / str(number)).write_text(BatchNote(owner, report).to_json())
    (folder / "0").write_text("damaged")
    monkeypatch.setattr(job, "KEPT_NOTES", 1)
    job.remove_notes(spark, SimpleNamespace(checkpoint=f"file://{scene.folder}", owner="task"))  # type: ignore[arg-type]

    assert {path.name for path in folder.iterdir()} == {"2", "3", "4"}


def test_segments_of_what_a_try_finished_before_it_died(large_at_the_end: Scene) -> None:
    """They stand beside the batches in the checkpoint; the audit of the retry's result sees all records. The retry
    announces them: a DAG that reads what events announce would never see them otherwise. A clear announces what is new.
    """
    scene, asset = large_at_the_end, Asset("copied")
    source, finished = scene.source, [f"{scene.source}:0:0:20"]
    given: dict[str, Any] = {"preserve_partition": True, "provenance": "segments", "max_offsets_per_trigger": 10}
    given["outlets"] = [asset]
    scene.fail_at_large(lambda: scene.run(Stream, **given))
    result = scene.run(Stream, **given)
    announced = scene.event(asset).extra
    again = scene.succeed(Stream, **given)
    assert (again, scene.event(asset).extra) == (result, {**announced, "try_number": 3})
    scene.produce(30, 35)
    cleared = scene.clear(Stream, **given)

    assert announced["offset_ranges"] == [*finished, f"{source}:0:20:27"]
    assert (announced["target_ranges"][0]["from_offset"], cleared["finished_before"]) == (0, [])
    assert scene.event(asset).extra["offset_ranges"] == [f"{source}:0:27:32"]
    assert min(r["from_offset"] for r in scene.event(asset).extra["target_ranges"]) > max(
        r["until_offset"] for r in announced["target_ranges"]
    )
    assert (result["finished_before"], result["mapped_before"]) == (finished, finished)
    assert sum(s["until_offset"] - s["from_offset"] for s in result["segments"]) == 26
    audited = audit(result)
    assert (audited["once"], audited["state"]) == (26, "complete")
    assert not any("not audited" in warning for warning in audited["warnings"])
    audited = audit({**result, "mapped_before": [f"{source}:0:10:27"]})
    assert audited["state"] == "unknown"
    assert any("10 offsets that earlier tries had finished are not audited" in w for w in audited["warnings"])
