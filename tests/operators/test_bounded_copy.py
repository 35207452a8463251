"""Promises of what batch copies and replays share: what a second try and a clear take for delivered, and what not."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobMemoryError, JobReportMissingError
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try
from tests.operators.conftest import RecordingSpark
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, Stream, execute

pytestmark = pytest.mark.broker


class Scene(CopyTask):
    """A source of two partitions, one list of texts in each, and a target."""

    def fill(self, first: list[str], second: list[str]) -> None:
        records = [Record(value=v.encode(), partition=p) for p, part in enumerate((first, second)) for v in part]
        self.kafka.produce(self.source, records)

    def deliver_in_part(self, **parameters: Any) -> None:
        """A first try that delivers two records, and fails at the third."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 2)
            with pytest.raises(AirflowFailException):
                self.clear(**parameters)
        assert self.values().total() == 2

    def run_ids(self) -> list[str]:
        """Of the target's records, in the order of their first ones."""
        headers = [dict(record.headers)[PROVENANCE_HEADER] for record in self.kafka.consume(self.target)]
        return list(dict.fromkeys(Provenance.parse(value or b"").run_id for value in headers))


def counted(*values: str) -> Counter[bytes]:
    return Counter(value.encode() for value in values)


@pytest.fixture
def scene(new_task: NewTask) -> Any:
    return new_task(Scene, 2)


@pytest.mark.spark
@pytest.mark.parametrize("again", ["clear", "retry-that-permits-loss"])
def test_a_recreated_topic_is_copied_from_its_beginning(scene: Scene, again: str) -> None:
    """What was delivered of the topic's predecessor stands for nothing of the new one, although the offsets are the
    same.
    """
    # Fails on the data, not before.
    given = {"where": "assert_true(string(value) <> 'bad') is null", "fail_on_data_loss": again == "clear"}
    scene.fill(["old 1", "old 2", "bad"], [])
    scene.deliver_in_part(**given)
    scene.recreate(scene.source)
    scene.fill(["new 1", "new 2", "new 3"], ["new 4"])

    result = scene.clear(**given) if again == "clear" else scene.run(**given)

    assert scene.values() == counted("old 1", "old 2", "new 1", "new 2", "new 3", "new 4")
    assert (result["records_written"], result["delivered_before"]) == (4, 0)
    old, new = scene.run_ids()
    assert result["run_id"] == new != old
    (warning,) = result["warnings"]
    assert f"topic {scene.source!r}" in warning
    assert old in warning
    if again != "clear":
        lost = [(r["topic"], r["from_offset"], r["until_offset"]) for r in result["missing_ranges"]]
        assert lost == [(scene.source, 0, 0)]
        assert "recreated" in result["missing_ranges"][0]["reason"]


@pytest.mark.spark
def test_a_clear_with_another_transform_writes_all_by_it(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """What was delivered by the old expressions is not taken for delivered by the new ones; that it is there as well is
    said.
    """
    scene.fill(["a", "b", "bad"], [])
    first = "if(string(value) = 'bad', raise_error('boom'), concat('v1 ', string(value)))"
    scene.deliver_in_part(columns={"value": first})

    result = scene.clear(columns={"value": "concat('v2 ', string(value))"})

    assert scene.values() == counted("v1 a", "v1 b", "v2 a", "v2 b", "v2 bad")
    assert (result["records_written"], result["delivered_before"]) == (3, 0)
    (warning,) = result["warnings"]
    assert "columns" in warning
    assert warning in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.parametrize("kind", [Batch, Stream])
def test_a_record_for_which_memory_is_too_small_is_named_and_not_tried_a_third_time(scene: Scene, kind: type) -> None:
    """The job ends as one that has failed; Spark would end its JVM."""
    scene.fill(["a", "b", "c"], [])
    # The JVM refuses it, and takes no memory for it.
    given = {"where": "offset < 2 or length(space(int(offset) + 2000000000)) > 0"}

    with pytest.raises(JobMemoryError, match=rf"Out of memory near {scene.source}\[0\]@2.*: raise driver_memory"):
        scene.run(kind, **given)
    with pytest.raises(AirflowFailException, match=rf"RepeatedMemoryError: .*{scene.source}\[0\]@2"):
        scene.run(kind, **given)

    # A retry unpacks one record at a time.
    assert scene.spark.requests[-1].source_options["kafka.max.poll.records"] == "1"
    # What stood before it may have been committed. A stream keeps its expressions.
    assert kind is Stream or scene.clear(where=None)["records_written"] == 3


@pytest.mark.spark
def test_a_retry_after_the_end_returns_the_result(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker that dies between the delivery and Airflow's hearing of it leaves nothing to be copied: the result is
    given again, without Spark.
    """
    scene.fill(["a", "b"], ["c"])
    asset = Asset(f"kafka-topic://{scene.target}")
    result = scene.run(Replay, outlets=[asset])
    announced = scene.event(asset).extra
    scene.store.values = json.loads(json.dumps(scene.store.values))

    again = scene.run(Replay, outlets=[asset])

    assert again == result
    assert scene.event(asset).extra == {**announced, "try_number": 2}
    assert "An earlier try of this run delivered everything" in capsys.readouterr().out
    assert scene.spark.jobs == ["batch"]
    assert scene.values() == counted("a", "b", "c")


def test_a_connection_that_leads_to_another_cluster_is_another_source(
    kafka: KafkaBroker,
    other_broker: KafkaBroker,
    topic: TopicFactory,
    connection: Callable[..., None],
    recording_spark: RecordingSpark,
) -> None:
    """A clear after the source's connection was edited looks for nothing that was delivered from the cluster before."""
    source, target, store = topic(suffix="source"), topic(suffix="target"), TaskStateStore()
    clusters = {"source_conn_id": "source", "target_conn_id": "kafka_default"}
    given: dict[str, Any] = {**clusters, "topics": [source], "target_topic": target}
    connection("source", extra={"bootstrap.servers": kafka.bootstrap_servers})
    kafka.produce(source, [Record(value=b"v")])
    fail_once(given, store)
    other_broker.create_topic(source)
    other_broker.produce(source, [Record(value=b"other")])
    connection("source", extra={"bootstrap.servers": other_broker.bootstrap_servers})

    with pytest.raises(AirflowFailException, match=r"DataLossError: .*another cluster.*Clear the task"):
        execute(Batch(task_id="task", **given), store)
    for _ in range(2):
        fail_once(given, store, clear_number=1)

    first, cleared, retried = recording_spark.requests
    assert first.run_id != cleared.run_id == retried.run_id
    assert [request.history.is_retry for request in (first, cleared, retried)] == [False, False, True]


def test_a_retry_at_another_target_cluster_begins_there(
    kafka: KafkaBroker,
    other_broker: KafkaBroker,
    topic: TopicFactory,
    connection: Callable[..., None],
    recording_spark: RecordingSpark,
) -> None:
    """Where the first target ended says nothing about the second: what a further try looks for would lie before it."""
    source, target, store = topic(suffix="source"), topic(suffix="target"), TaskStateStore()
    kafka.produce(source, [Record(value=b"v")])
    kafka.produce(target, [Record(value=b"of others") for _ in range(3)])
    other_broker.create_topic(target)
    for broker in (kafka, other_broker, other_broker):
        connection("target", extra={"bootstrap.servers": broker.bootstrap_servers})
        fail_once({"target_conn_id": "target", "topics": [source], "target_topic": target}, store)

    first, second, third = recording_spark.requests
    assert first.run_id != second.run_id == third.run_id
    assert [request.history.is_retry for request in (first, second, third)] == [False, False, True]
    assert [request.history.target_starts for request in (first, third)] == [{target: {"0": 3}}, {target: {"0": 0}}]


@pytest.fixture
def two_topics(kafka: KafkaBroker, topic: TopicFactory) -> tuple[str, str, str]:
    """Two sources with ten records each, and a target."""
    first, second, target = topic(suffix="first"), topic(suffix="second"), topic(suffix="target")
    minute_ago = int(time.time() - 60) * 1000
    for name in (first, second):
        kafka.produce(name, [Record(value=b"v", timestamp=minute_ago) for _ in range(10)])
    return first, second, target


def fail_once(parameters: dict[str, Any], store: TaskStateStore, **context: Any) -> None:
    """One try that submits its job, and has no report of it."""
    with pytest.raises(JobReportMissingError):
        execute(Batch(task_id="task", **parameters), store, **context)


def test_a_retry_carries_out_what_its_first_try_was_asked_for(
    kafka: KafkaBroker,
    two_topics: tuple[str, str, str],
    recording_spark: RecordingSpark,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever its parameters render to by now, which the log names; a clear plans anew with them."""
    first, second, target = two_topics
    hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    given: dict[str, Any] = {
        "topics": [first, second],
        "target_topic": target,
        "starting_timestamp": hour_ago,
        "where": "offset >= 0",
        "columns": {"value": "value", "key": "key"},
        "source_options": {"kafka.fetch.min.bytes": 1},
        "sink_options": {"kafka.linger.ms": 1},
    }
    later = {
        "topics": [second],
        "starting_timestamp": hour_ago + timedelta(minutes=1),
        "where": "offset >= 1",
        "columns": {"value": "key"},
        "source_options": {"kafka.fetch.min.bytes": 2},
        "sink_options": {"kafka.linger.ms": 2},
    }
    own_of_a_try = "submission report_uri source_options event_token report_key proceed_file".split()
    store = TaskStateStore()

    fail_once(given, store)
    store.values = json.loads(json.dumps(store.values))
    assert "have changed since" not in capsys.readouterr().out
    kafka.produce(first, [Record(value=b"later")])
    fail_once({**later, "target_topic": "another", "source_conn_id": "another"}, store)
    log = capsys.readouterr().out
    fail_once({**given, "topics": 7, "max_planned_records": 1}, store)
    assert "topics must be a list of names" in capsys.readouterr().out
    fail_once({**given, "columns": "{broken"}, store)
    assert "columns must be JSON where it is text" in capsys.readouterr().out
    fail_once({**later, "target_topic": target}, store, clear_number=1)

    asked, retried, malformed, _, cleared = recording_spark.requests
    for request in (retried, malformed):
        own = {name: getattr(request, name) for name in own_of_a_try}
        assert request == replace(asked, history=replace(asked.history, has_begun=True), **own)
        assert request.source_options["kafka.fetch.min.bytes"] == "1"
    numbers = [request.submission.number for request in (asked, retried, malformed, cleared)]
    assert numbers == sorted(set(numbers))
    assert asked.ranges.format() == [f"{first}:0:0:10", f"{second}:0:0:10"]
    for name in (*later, "target_topic", "source_conn_id"):
        assert f"{name} was " in log
    assert (cleared.ranges.format(), cleared.transform.where) == ([f"{second}:0:0:10"], "offset >= 1")


def test_each_cluster_is_asked_once_for_a_plan(
    two_topics: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was planned, and what was checked, is of the same moment."""
    source, _, target = two_topics
    asked, state = list[list[str]](), KafkaHook.state

    def counted(hook: KafkaHook, topics: Iterable[str], *arguments: Any, **options: Any) -> ClusterState:
        asked.append(names := list(topics))
        return state(hook, names, *arguments, **options)

    monkeypatch.setattr(KafkaHook, "state", counted)
    common: dict[str, Any] = {"task_id": "task", "topics": [source], "target_topic": target, "plan_only": True}
    stream = {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest"}
    for operator in (Batch(**common), Stream(**common, **stream)):
        asked.clear()
        assert execute(operator)["planned_records"] == 10
        assert asked == [[target], [source]]


def test_another_spelling_of_the_same_is_no_difference(
    two_topics: tuple[str, str, str], recording_spark: RecordingSpark, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list made from a set has another order in each process, and a moment has many spellings."""
    first, second, target = two_topics
    store, moment = TaskStateStore(), datetime.now(timezone.utc).replace(microsecond=0)
    elsewhere = moment.astimezone(timezone(timedelta(hours=1))).isoformat()
    spellings: list[tuple[Any, ...]] = [
        ([first, second], {first: {"0": 0}, second: {"0": -2}}, moment),
        ([second, first], json.dumps({second: {"0": -2}, first: {"0": 0}}), elsewhere),
    ]

    for topics, offsets, end in spellings:
        given = {"topics": topics, "starting_offsets": offsets, "ending_timestamp": end}
        fail_once({"target_topic": target, **given}, store)

    assert "have changed since" not in capsys.readouterr().out
    asked, retried = recording_spark.requests
    assert (asked.run_id, asked.ranges) == (retried.run_id, retried.ranges)


@pytest.mark.spark
def test_a_topic_that_is_created_again_while_its_job_starts_is_an_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new topic has records at the planned offsets: all counts are right, and what was planned is lost."""
    start = SparkJobHook.run

    def recreate_and_start(*arguments: Any) -> JobReport:
        scene.recreate(scene.source)
        scene.fill(["new"], [])
        return start(*arguments)

    monkeypatch.setattr(SparkJobHook, "run", recreate_and_start)
    scene.fill(["old"], [])

    with pytest.raises(AirflowFailException, match=r"DataLossError: .*deleted and recreated.*Clear the task"):
        scene.clear()
    permitted = scene.clear(fail_on_data_loss=False)

    assert [(r["from_offset"], r["until_offset"]) for r in permitted["missing_ranges"]] == [(0, 0)]
    assert "recreated" in permitted["missing_ranges"][0]["reason"]


def test_operators_that_one_task_calls_do_their_own_work(
    kafka: KafkaBroker, two_topics: tuple[str, str, str], recording_spark: RecordingSpark
) -> None:
    """In the first try and at a retry; two of one id are refused, since a retry could not distinguish them."""
    *sources, target = two_topics
    store = TaskStateStore()

    def copy(source: str, task_id: str, number: int) -> None:
        execute(Batch(task_id=task_id, topics=[source], target_topic=target), store, ti=Try(try_number=number))

    for number in (1, 2):
        for source in sources:
            with pytest.raises(JobReportMissingError):
                copy(source, f"copy-{source}", number)
    assert [request.ranges.format() for request in recording_spark.requests] == [
        [f"{s}:0:0:10"] for s in [*sources, *sources]
    ]
    assert len({request.run_id for request in recording_spark.requests}) == 2

    with pytest.raises(JobReportMissingError):
        copy(sources[0], "same", 3)
    with pytest.raises(AirflowFailException, match=r"InvalidInputError: task_id must be another .* got 'same'"):
        copy(sources[1], "same", 3)
