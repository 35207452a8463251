"""Promises of the stream operator, on a real broker and a real Spark.

Jobs run in a Spark of this process, in place of ``spark-submit``: all else is as it is in production.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_kafka_spark.core.errors import CheckpointInUseError, ConsumerGroupError, DeliveryError
from airflow_provider_kafka_spark.core.protocol import JobReport
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.streams.checkpoint import Lock
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs.checkpoint_lock import checkpoint_lock
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor
from airflow_provider_kafka_spark.state import checkpoint
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]


Stream = Callable[..., dict[str, Any]]


@pytest.fixture
def stream(kafka: KafkaBroker, in_process_spark: InProcessSpark, tmp_path: Path) -> Stream:
    """One run of the operator: ``stream(topics=["orders"], target_topic="copy")``."""

    def run(run_id: str = "run", **parameters: Any) -> dict[str, Any]:
        parameters.setdefault("checkpoint_location", str(tmp_path / "checkpoint"))
        parameters.setdefault("starting_offsets", "earliest")
        operator = KafkaToKafkaAvailableNowOperator(task_id="task", **parameters)
        result = operator.execute(task_context(ti=TaskInstance(run_id=run_id)))  # type: ignore[arg-type]
        assert json.loads(json.dumps(result)) == result
        return result

    return run


def values(kafka: KafkaBroker, topic: str) -> list[bytes | None]:
    return sorted(record.value for record in kafka.consume(topic))  # type: ignore[type-var]


def numbered(first: int, last: int, partitions: int = 1) -> list[Record]:
    return [Record(b"k%d" % i, b"v%05d" % i, (("h", b"1"),), partition=i % partitions) for i in range(first, last)]


def expected(first: int, last: int) -> list[bytes]:
    return [b"v%05d" % i for i in range(first, last)]


def test_three_runs_with_production_in_between(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, in_process_spark: InProcessSpark
) -> None:
    """Each run takes what came since the one before, and one with nothing to do starts no Spark."""
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    parameters = {"topics": [source], "target_topic": target}
    kafka.produce(source, numbered(0, 100, 2))
    first = stream(**parameters)
    kafka.produce(source, numbered(100, 150, 2))
    second = stream(**parameters)
    third = stream(**parameters)

    assert [r["records_written"] for r in (first, second, third)] == [100, 50, 0]
    assert [r["until_offset"] for r in second["ranges"]] == [75, 75]
    assert [r["from_offset"] for r in second["ranges"]] == [50, 50]
    assert values(kafka, target) == expected(0, 150)
    assert len(in_process_spark.requests) == 2
    assert first["run_id"] == second["run_id"] == third["run_id"]
    assert third["records_behind"] == 0


def test_a_sensor_after_a_run_sees_that_the_topic_was_recreated(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, tmp_path: Path
) -> None:
    """The offsets of the checkpoint, or of the result, are those of the old topic."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 20))
    result = stream(topics=[source], target_topic=target, checkpoint_location=str(tmp_path / "stream"))
    kafka.produce(source, numbered(20, 25))
    new = {"topic": source, "partition": 0, "from_offset": 20, "until_offset": 25}
    sinces: list[Any] = [str(tmp_path / "stream"), result, json.dumps(result)]
    context: Any = task_context()

    def found(since: Any, **more: Any) -> Any:
        sensor = KafkaNewRecordsSensor(task_id="wait", topics=[source], since=since, deferrable=False, **more)
        return sensor.execute(context)

    assert [found(since) for since in sinces] == [[new]] * 3
    kafka.delete_topic(source)
    kafka.create_topic(source)
    kafka.produce(source, numbered(0, 40))
    for since in sinces:
        with pytest.raises(AirflowFailException, match="deleted and recreated"):
            found(since)
        assert found(since, fail_on_data_loss=False) == [{**new, "from_offset": 0, "until_offset": 40}]


def test_no_batch_is_larger_than_asked(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """``max_offsets_per_trigger`` bounds every micro-batch, and the counts of the batches add up."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 100, 2))
    result = stream(topics=[source], target_topic=target, max_offsets_per_trigger=30)
    assert [b["batch"] for b in result["batches"]] == [0, 1, 2, 3]
    assert [b["records_written"] for b in result["batches"]] == [30, 30, 30, 10]
    assert {(r["records_read"], r["records_written"]) for r in result["ranges"]} == {(50, 50)}
    assert values(kafka, target) == expected(0, 100)


def test_transforms_are_those_of_a_batch(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """where, columns, a topic per row, headers and provenance work as in a bounded copy, and kept records are counted
    apart.
    """
    source = topic(2, suffix="source")
    targets = [topic(suffix="even"), topic(suffix="odd")]
    kafka.produce(source, numbered(0, 20, 2))
    result = stream(
        topics=[source],
        target_topic_expr=f"if(partition = 0, '{targets[0]}', '{targets[1]}')",
        where="string(key) <> 'k3'",
        columns={"value": "upper(string(value))"},
    )
    assert (result["records_read"], result["records_written"]) == (20, 19)
    assert sorted(result["target_topics"]) == sorted(targets)
    odd = kafka.consume(targets[1])
    assert sorted(str(record.value, "ascii") for record in odd if record.value) == [
        f"V{i:05d}" for i in range(1, 20, 2) if i != 3
    ]
    headers = dict(odd[0].headers)
    assert headers["h"] == b"1"
    provenance = Provenance.parse(headers[PROVENANCE_HEADER] or b"")
    assert (provenance.run_id, provenance.topic, provenance.partition) == (result["run_id"], source, 1)


def test_the_first_run_says_where_to_start(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """Without starting_offsets Spark would start at the end and call it a success."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    with pytest.raises(AirflowFailException, match=r"first run .* starting_offsets must say where to start"):
        stream(topics=[source], target_topic=target, starting_offsets=None)


def test_latest_stays_where_it_was_on_the_first_run(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """A first run that finds nothing pins its start: what comes before the second run is not skipped."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    first = stream(topics=[source], target_topic=target, starting_offsets="latest")
    kafka.produce(source, numbered(10, 15))
    second = stream(topics=[source], target_topic=target, starting_offsets="latest")
    assert (first["records_written"], second["records_written"]) == (0, 5)
    assert values(kafka, target) == expected(10, 15)


def test_a_batch_without_its_commit_is_finished_and_not_doubled(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash after the batch was written and before its commit: the same offsets are read again, and nothing is
    written twice.
    """
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 100, 2))
    stream(topics=[source], target_topic=target)
    kafka.produce(source, numbered(100, 140, 2))
    stream(topics=[source], target_topic=target)
    (tmp_path / "checkpoint" / "generation-0" / "commits" / "1").unlink()
    kafka.produce(source, numbered(140, 150, 2))

    result = stream(topics=[source], target_topic=target)

    assert values(kafka, target) == expected(0, 150)
    assert result["unfinished"] == [f"{source}:0:50:70", f"{source}:1:50:70"]
    assert [(b["batch"], b["replayed"], b["delivered_before"]) for b in result["batches"]] == [
        (1, True, 40),
        (2, False, 0),
    ]
    assert (result["records_written"], result["delivered_before"]) == (50, 40)
    assert "Batch 1 of an earlier run is uncommitted" in capsys.readouterr().out


def test_a_batch_that_was_written_in_part_is_finished(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """The batch fails at a record that the target refuses; when that is corrected, the retry writes just the rest."""
    source, target = topic(2, suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    # They do not compress.
    large = Record(b"k", os.urandom(50_000), partition=1)
    kafka.produce(source, [*numbered(0, 1000, 2), large])
    with pytest.raises(Exception, match=r"is larger than max\.message\.bytes"):
        stream(topics=[source], target_topic=target)
    before = len(kafka.consume(target))
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})

    result = stream(topics=[source], target_topic=target)

    assert before > 0
    assert result["delivered_before"] == before
    assert sorted(Counter(values(kafka, target)).values()) == [1] * 1001


def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream
) -> None:
    """And named in the result."""
    source, target = topic(1, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    stream(topics=[source], target_topic=target)
    kafka.add_partitions(source, 3)
    kafka.produce(source, [Record(b"k", b"v%05d" % i, partition=i % 3) for i in range(10, 40)])
    result = stream(topics=[source], target_topic=target)
    assert result["added_partitions"] == [f"{source}[1]", f"{source}[2]"]
    assert values(kafka, target) == expected(0, 40)


def test_partitions_added_after_a_crash(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, tmp_path: Path
) -> None:
    """An unfinished batch and a change in the number of partitions: Spark up to 4.0.1 would fail at every restart."""
    source, target = topic(1, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    stream(topics=[source], target_topic=target)
    (tmp_path / "checkpoint" / "generation-0" / "commits" / "0").unlink()
    kafka.add_partitions(source, 2)
    kafka.produce(source, [Record(b"k", b"v%05d" % i, partition=i % 2) for i in range(10, 20)])
    result = stream(topics=[source], target_topic=target)
    assert values(kafka, target) == expected(0, 20)
    assert result["delivered_before"] == 10


def test_a_topic_that_was_created_again_is_an_error(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """Spark would silently read only the records after the old offset; if loss is permitted, the new topic is read from
    its start and the gap is reported.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 30))
    stream(topics=[source], target_topic=target)
    kafka.delete_topic(source)
    kafka.create_topic(source, 1)
    kafka.produce(source, numbered(100, 140))

    with pytest.raises(AirflowFailException, match=r"deleted and recreated .* up to offset 30"):
        stream(topics=[source], target_topic=target)
    result = stream(topics=[source], target_topic=target, fail_on_data_loss=False)

    assert "recreated" in result["missing_ranges"][0]["reason"]
    assert (result["generation"], result["records_written"]) == (1, 40)
    assert values(kafka, target) == [*expected(0, 30), *expected(100, 140)]
    assert stream(topics=[source], target_topic=target)["records_written"] == 0


def test_a_deleted_topic_is_an_error(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """If loss is permitted, the others continue and the gap is reported."""
    gone, stays, target = topic(suffix="gone"), topic(suffix="stays"), topic(suffix="target")
    kafka.produce(gone, numbered(0, 5))
    kafka.produce(stays, numbered(5, 10))
    stream(topics=[gone, stays], target_topic=target)
    kafka.delete_topic(gone)
    kafka.produce(stays, numbered(10, 15))
    with pytest.raises(AirflowFailException, match=r"the topic was deleted; the stream had read it up to offset 5"):
        stream(topics=[gone, stays], target_topic=target)
    for first, last in ((10, 15), (15, 20)):
        result = stream(topics=[gone, stays], target_topic=target, fail_on_data_loss=False)
        assert result["records_written"] == 5
        assert values(kafka, target) == expected(0, last)
        kafka.produce(stays, numbered(first + 5, last + 5))


def test_retention_moved_past_the_checkpoint(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """What aged out unread is named; permitted, the rest is copied and the gap is in the result."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    stream(topics=[source], target_topic=target)
    kafka.produce(source, numbered(10, 30))
    kafka.delete_records(source, {0: 15})
    with pytest.raises(AirflowFailException, match=r"\[0\].*aged out: the log now starts at 15"):
        stream(topics=[source], target_topic=target)
    result = stream(topics=[source], target_topic=target, fail_on_data_loss=False)
    assert [(m["from_offset"], m["until_offset"]) for m in result["missing_ranges"]] == [(10, 15)]
    assert values(kafka, target) == [*expected(0, 10), *expected(15, 30)]


def test_transactions(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """Aborted records stay out, what is open comes when it is committed, and gaps do not look like a loss."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 5))
    kafka.produce_transaction(source, numbered(50, 55), commit=False)
    kafka.produce_transaction(source, numbered(5, 10), commit=True)
    with kafka.open_transaction(source, numbered(10, 15)) as transaction:
        first = stream(topics=[source], target_topic=target)
        transaction.commit()
    second = stream(topics=[source], target_topic=target)
    assert (first["records_written"], second["records_written"]) == (10, 5)
    assert first["gaps"] == 7
    assert "open transaction" in " ".join(first["warnings"])
    assert values(kafka, target) == expected(0, 15)


def test_only_aborted_records(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """A batch of offsets without a record moves the stream on."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce_transaction(source, numbered(0, 5), commit=False)
    result = stream(topics=[source], target_topic=target)
    assert (result["records_read"], result["gaps"], result["records_behind"]) == (0, 6, 0)


def test_a_compacted_topic(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """Offsets that compaction took are gaps, counted by a second client."""
    at_once = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}
    source, target = topic(suffix="source", config=at_once), topic(suffix="target")
    kafka.produce(source, [Record(b"k%d" % (i % 5), b"v%05d" % i) for i in range(50)])
    deadline = time.monotonic() + 60
    while len(kafka.consume(source)) >= 50:
        assert time.monotonic() < deadline
        # The segment that is being written is not compacted, and a new one begins with a record.
        kafka.produce(source, [Record(b"last", b"last")])
        time.sleep(0.2)

    result = stream(topics=[source], target_topic=target)

    assert result["gaps"] > 0
    assert [r.value for r in kafka.consume(target)][-1] == b"last"
    assert result["records_written"] == len(kafka.consume(target))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"target": "other"}, "target_topic is", id="target"),
        pytest.param({"where": "partition = 0"}, "where is 'partition = 0' and was None", id="where"),
        pytest.param({"columns": {"value": "key"}}, "columns is", id="columns"),
        pytest.param({"preserve_partition": True}, "preserve_partition is True and was False", id="partitions"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused(
    kafka: KafkaBroker,
    topic: TopicFactory,
    stream: Stream,
    in_process_spark: InProcessSpark,
    changed: dict[str, Any],
    named: str,
) -> None:
    """Spark would copy nothing, or something else, and succeed. The message says how to go on."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    stream(topics=[source], target_topic=target)
    kafka.produce(source, numbered(10, 15))
    changed = dict(changed)
    target = topic(suffix="other") if changed.pop("target", None) else target

    with pytest.raises(AirflowFailException, match="belongs to another job") as error:
        stream(topics=[source], target_topic=target, **changed)
    assert named in str(error.value)
    assert f"reset_checkpoint_to={{'{source}': {{'0': 10}}}}" in str(error.value)
    assert len(in_process_spark.requests) == 1

    result = stream(topics=[source], target_topic=target, reset_checkpoint_to={source: {"0": 10}}, **changed)
    assert (result["records_read"], result["generation"]) == (5, 1)


def test_a_reset_starts_again_once(kafka: KafkaBroker, topic: TopicFactory, stream: Stream, tmp_path: Path) -> None:
    """The old generation is kept, a retry of the run does not reset again, and a reset that stays in the DAG is an
    error.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    parameters = {"topics": [source], "target_topic": target}
    stream("monday", **parameters)
    again = stream("tuesday", **parameters, reset_checkpoint_to={source: {"0": 4}})
    retried = stream("tuesday", **parameters, reset_checkpoint_to={source: {"0": 4}})
    with pytest.raises(AirflowFailException, match="was done already, by the DAG run 'tuesday'"):
        stream("wednesday", **parameters, reset_checkpoint_to={source: {"0": 4}})
    assert [again["records_written"], retried["records_written"]] == [6, 0]
    assert stream("wednesday", **parameters)["records_written"] == 0
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"generation-0", "generation-1"}
    later = stream("thursday", **parameters, reset_checkpoint_to="earliest")
    assert (later["records_written"], later["generation"]) == (10, 2)


def test_plan_only_shows_from_where_to_where(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, in_process_spark: InProcessSpark
) -> None:
    """With the lag of each partition, and nothing started or written."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10, 2))
    stream(topics=[source], target_topic=target)
    kafka.produce(source, [Record(b"k", b"v", partition=1)] * 3)
    plan = stream(topics=[source], target_topic=target, plan_only=True)
    assert [(r["partition"], r["from_offset"], r["until_offset"], r["planned_records"]) for r in plan["ranges"]] == [
        (0, 5, 5, 0),
        (1, 5, 8, 3),
    ]
    assert len(in_process_spark.requests) == 1


def test_runs_without_records_may_be_skipped(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """The first one, which makes the checkpoint, too; a skipped run loses nothing."""
    source, target = topic(suffix="source"), topic(suffix="target")
    parameters = {"topics": [source], "target_topic": target, "on_empty": "skip"}

    for run_id in ("first", "second"):
        with pytest.raises(AirflowSkipException, match="No records"):
            stream(run_id, **parameters)
    kafka.produce(source, numbered(0, 10))
    assert stream("third", **parameters)["records_written"] == 10
    with pytest.raises(AirflowSkipException, match="No records"):
        stream("fourth", **parameters)
    assert values(kafka, target) == expected(0, 10)


def test_finished_offsets_are_committed_for_lag_monitors(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream
) -> None:
    """After success, forwards only, and also by a run that has nothing to copy."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    group = f"lag-of-{source}"
    kafka.produce(source, numbered(0, 10, 2))
    parameters = {"topics": [source], "target_topic": target}
    assert stream(**parameters)["group_committed"] is None
    result = stream(**parameters, commit_group_id=group)
    again = stream(**parameters, commit_group_id=group)
    assert result["group_committed"] == {f"{source}[0]": 5, f"{source}[1]": 5}
    assert again["group_committed"] == {}
    assert kafka.committed(group, source) == {0: 5, 1: 5}


def test_a_group_with_members_is_refused_before_anything_starts(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, in_process_spark: InProcessSpark
) -> None:
    """Its members' commits and ours would overwrite each other."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    with kafka.group_member("busy-" + source, source), pytest.raises(ConsumerGroupError, match="must have no members"):
        stream(topics=[source], target_topic=target, commit_group_id="busy-" + source)
    assert not in_process_spark.requests


def test_two_runs_at_once_are_refused(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    """As long as the lock beats, the second one does not start."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    lock = f"file://{tmp_path}/checkpoint/lock.json"
    with (
        checkpoint_lock(spark, lock, "task 'other'", None),
        pytest.raises(CheckpointInUseError, match="in use by task 'other'"),
    ):
        stream(topics=[source], target_topic=target)
    assert stream(topics=[source], target_topic=target)["records_written"] == 10


def test_the_lock_of_a_dead_run_is_taken_over(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was killed leaves its lock, which does not change any more."""
    monkeypatch.setattr(checkpoint, "STALE_SECONDS", 2.0)
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "lock.json").write_text(Lock("task 'dead'", "local-1", 7).format())
    assert stream(topics=[source], target_topic=target)["records_written"] == 10
    assert not (tmp_path / "checkpoint" / "lock.json").exists()


def test_the_lag_is_measured_to_the_real_end(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own lag counts to the end fixed at the start, so it is always 0."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    run = SparkJobHook.run

    def run_and_produce(*args: Any) -> JobReport:
        report = run(*args)
        kafka.produce(source, numbered(10, 17))
        return report

    monkeypatch.setattr(SparkJobHook, "run", run_and_produce)
    result = stream(topics=[source], target_topic=target)
    assert (result["records_behind"], result["behind"]) == (7, {f"{source}[0]": 7})


def test_a_pattern_takes_in_topics_that_come_later(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """By the whole name, from their beginning."""
    first = topic(suffix="in")
    prefix, target = first[:-8], topic(suffix="target")
    kafka.produce(first, numbered(0, 5))
    stream(topic_pattern=f"{prefix}.*", target_topic=target)
    second = topic(suffix="in")
    kafka.produce(second, numbered(5, 9))
    result = stream(topic_pattern=f"{prefix}.*", target_topic=target)
    assert result["added_partitions"] == [f"{second}[0]"]
    assert values(kafka, target) == expected(0, 9)


def test_assigned_partitions_only(kafka: KafkaBroker, topic: TopicFactory, stream: Stream) -> None:
    """``assign`` reads the named partitions and no other."""
    source, target = topic(3, suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 30, 3))
    result = stream(assign={source: [0, 2]}, target_topic=target)
    assert [r["partition"] for r in result["ranges"]] == [0, 2]
    assert result["records_written"] == 20


def test_a_missing_count_is_not_green(
    kafka: KafkaBroker, topic: TopicFactory, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that says less than the checkpoint fails the task."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    run = SparkJobHook.run

    def lie(*args: Any) -> JobReport:
        report = run(*args)
        (counts,) = report.ranges
        read = replace(counts.offset_range, until_offset=counts.offset_range.until_offset - 1)
        return replace(report, ranges=(replace(counts, offset_range=read),))

    monkeypatch.setattr(SparkJobHook, "run", lie)
    with pytest.raises(DeliveryError, match=r"the stream went from 0 to 9.*reported up to 9, committed up to 10"):
        stream(topics=[source], target_topic=target)


def test_a_retry_that_finds_all_finished_is_not_skipped(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path
) -> None:
    """The worker died when the job had ended: the retry announces what that has copied, also if it has too much."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(0, 10))
    store, asset = TaskStateStore(), Asset("copied")

    def attempt(number: int, **parameters: Any) -> tuple[dict[str, Any], Any]:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="task",
            topics=[source],
            target_topic=target,
            starting_offsets="earliest",
            checkpoint_location=str(tmp_path / "checkpoint"),
            outlets=[asset],
            on_empty="skip",
            **parameters,
        )
        context = task_context(store, ti=Try(try_number=number))
        return operator.execute(context), context["outlet_events"][asset].extra  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaToKafkaAvailableNowOperator, "_collect", _fail)
        with pytest.raises(RuntimeError, match="the worker is gone"):
            attempt(1)
    result, announced = attempt(2, max_planned_records=5)

    assert result["finished_before"] == [f"{source}:0:0:10"]
    assert f"{source}:0:0:10" in announced["offset_ranges"]
    assert values(kafka, target) == expected(0, 10)


def _fail(*_: object) -> None:
    raise RuntimeError("the worker is gone")


@pytest.mark.parametrize("dies", ["in-a-batch", "at-the-end"])
def test_segments_of_what_a_try_finished_before_it_died(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path, dies: str
) -> None:
    """They stand beside the batches in the checkpoint; the audit of the retry's result sees all records."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    # Its marker is an offset without a record.
    kafka.produce_transaction(source, numbered(0, 12))
    kafka.produce(source, [*numbered(12, 25), Record(b"k", os.urandom(50_000 if dies == "in-a-batch" else 10))])
    store = TaskStateStore()

    def attempt(number: int) -> dict[str, Any]:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="task",
            topics=[source],
            target_topic=target,
            preserve_partition=True,
            provenance="segments",
            starting_offsets="earliest",
            checkpoint_location=str(tmp_path / "checkpoint"),
            max_offsets_per_trigger=10,
        )
        return operator.execute(task_context(store, ti=Try(try_number=number)))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        if dies == "at-the-end":
            patch.setattr(KafkaToKafkaAvailableNowOperator, "_collect", _fail)
        with pytest.raises(Exception, match=r"is larger than max\.message\.bytes|the worker is gone"):
            attempt(1)
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    result = attempt(2)

    finished = [f"{source}:0:0:{20 if dies == 'in-a-batch' else 27}"]
    assert (result["finished_before"], result["mapped_before"]) == (finished, finished)
    assert sum(s["until_offset"] - s["from_offset"] for s in result["segments"]) == 26
    audit = AuditReplayOperator(task_id="audit", of=result).execute(task_context())  # type: ignore[arg-type]
    assert (audit["once"], audit["state"]) == (26, "complete")
    assert not any("not audited" in warning for warning in audit["warnings"])
    shorter = {**result, "mapped_before": [f"{source}:0:10:27"]}
    audit = AuditReplayOperator(task_id="audit", of=shorter).execute(task_context())  # type: ignore[arg-type]
    assert audit["state"] == "unknown"
    assert any("10 offsets that earlier tries had finished are not audited" in w for w in audit["warnings"])


def test_what_a_try_finished_before_it_died_is_announced_by_the_next(
    kafka: KafkaBroker,
    topic: TopicFactory,
    in_process_spark: InProcessSpark,
    tmp_path: Path,
) -> None:
    """The checkpoint hides it from the next try: a DAG that reads what events announce would never see it."""
    source, target = topic(suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    kafka.produce(source, [*numbered(0, 25), Record(b"k", os.urandom(50_000))])
    asset, store = Asset("copied"), TaskStateStore()

    def attempt(number: int, *, clear_number: int = 0) -> tuple[KafkaToKafkaAvailableNowOperator, dict[str, Any], Any]:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="task",
            topics=[source],
            target_topic=target,
            starting_offsets="earliest",
            checkpoint_location=str(tmp_path / "checkpoint"),
            max_offsets_per_trigger=10,
            outlets=[asset],
        )
        context = task_context(store, clear_number=clear_number, ti=Try(try_number=number))
        result = operator.execute(context)  # type: ignore[arg-type]
        return operator, result, context["outlet_events"][asset].extra

    with pytest.raises(Exception, match=r"is larger than max\.message\.bytes"):
        attempt(1)
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    _, second, announced = attempt(2)
    kafka.produce(source, numbered(30, 35))
    _, third, announced_again = attempt(3)
    operator, cleared, announced_after_clear = attempt(4, clear_number=1)
    for callback in operator.on_success_callback:
        callback({"task": operator, **task_context(store)})  # type: ignore[arg-type]
    kafka.produce(source, numbered(35, 40))
    _, last, announced_last = attempt(5, clear_number=2)

    assert second["finished_before"] == [f"{source}:0:0:20"]
    assert announced["offset_ranges"] == [f"{source}:0:0:20", f"{source}:0:20:26"]
    # A retry that has nothing else to do.
    assert (third, announced_again) == (second, {**announced, "try_number": 3})
    # No event was emitted before the clear.
    assert announced_after_clear["offset_ranges"] == [f"{source}:0:0:26", f"{source}:0:26:31"]
    # What the first try wrote, and what the second one did.
    first_ends = [(r["from_offset"], r["until_offset"]) for r in announced["target_ranges"]]
    assert first_ends[0][0] == 0
    assert first_ends[-1][1] >= 26
    assert [r["from_offset"] for r in announced_last["target_ranges"]] == [
        max(r["until_offset"] for r in announced_after_clear["target_ranges"]) + 1
    ]
    assert last["finished_before"] == last["written_before"] == []
    assert announced_last["offset_ranges"] == [f"{source}:0:31:36"]
    assert (cleared["records_written"], last["records_written"], len(kafka.consume(target))) == (5, 5, 36)
