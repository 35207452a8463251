"""Cluster mode on a real YARN in full; ``test_whole_way.py`` has the short form."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout, TaskDeferred

from airflow_provider_kafka_spark.core.errors import JobKilledError, JobReportMissingError
from airflow_provider_kafka_spark.core.ledger.entry import STATE_KEY
from airflow_provider_kafka_spark.core.offsets.provenance import Provenance
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.submission.spark_submission import SparkSubmission
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.services.yarn_cluster import YarnCluster
from tests.waiting import until
from tests.yarn.survivor import DiesWhenItRuns, Survivor, WorkerDied, event_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_job_that_is_followed_by_rest_reports_back(
    kafka: KafkaBroker, topic: TopicFactory, on_yarn: dict[str, Any], tmp_path: Path
) -> None:
    """spark-submit leaves at once, and YARN is asked for the end. Executors in processes of their own evaluate SQL."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(b"k", b"%d" % i, partition=i % 2) for i in range(100)])
    ti = TaskInstance()

    operator = ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=[f"{source}:0:10:20", f"{source}:1:0:5"],
        target_topic=target,
        columns={"value": "concat('0', string(value))"},
        yarn_track_via_rm_api=True,
        **on_yarn,
    )
    operator.name = "replay-on-yarn"
    result = operator.execute(task_context(ti=ti))  # type: ignore[arg-type]

    written = kafka.consume(target)
    copied = [Provenance.parse(r.headers[-1][1] or b"") for r in written]
    expected = [2 * p.offset + p.partition for p in copied]
    assert [r.value for r in written] == [b"0%d" % i for i in expected]
    assert sorted((p.partition, p.offset) for p in copied) == [(0, i) for i in range(10, 20)] + [
        (1, i) for i in range(5)
    ]
    assert result["records_written"] == 15
    assert result["application_id"].startswith("application_")
    assert result["application_id"] in ti.pushed["_link_SparkApplicationLink"]
    assert list((tmp_path / "reports").iterdir()) == []


def test_killing_the_task_kills_the_application(
    kafka: KafkaBroker, yarn_cluster: YarnCluster, topic: TopicFactory, on_yarn: dict[str, Any]
) -> None:
    """``on_kill`` ends the application on YARN, and the task fails."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"%d" % i) for i in range(100)])
    operator = ReplayOffsetRangesOperator(
        task_id="killed", offset_ranges=[f"{source}:0:0:100"], target_topic=target, **on_yarn
    )
    operator.name = "killed-on-yarn"

    def kill_once_running() -> None:
        deadline = time.monotonic() + 120
        while operator.spark_application_url is None and time.monotonic() < deadline:
            time.sleep(0.2)
        operator.on_kill()

    killer = threading.Thread(target=kill_once_running)
    killer.start()
    with pytest.raises(JobKilledError, match="application_"):
        operator.execute(task_context())  # type: ignore[arg-type]
    killer.join()

    # YARN takes the order to kill, and then a moment to follow it.
    def states() -> list[str]:
        return [a["state"] for a in yarn_cluster.applications() if a["name"] == "killed-on-yarn"]

    until(lambda: states() == ["KILLED"], "YARN has killed it", 30.0)


@pytest.mark.parametrize("why", ["recreated", "killed"])
def test_a_retry_submits_where_the_report_of_a_dead_worker_proves_nothing(survivor: Survivor, why: str) -> None:
    """The application was killed, or what it has delivered is gone."""
    with pytest.raises(WorkerDied):
        survivor.run(DiesWhenItRuns())
    (first,) = survivor.applications()
    if why == "killed":
        survivor.yarn.kill_applications()
    else:
        survivor.wait_for_end()
        survivor.kafka.delete_topic(survivor.target)
        survivor.kafka.create_topic(survivor.target, 1)
    result = survivor.run()

    assert survivor.values() == list(range(100))
    assert result["records_written"] == 100
    assert [app["id"] for app in survivor.applications() if app["id"] != first["id"]] == [result["application_id"]]


@pytest.fixture
def deferred(survivor: Survivor) -> Survivor:
    survivor.parameters["deferrable"] = True
    return survivor


def test_a_deferred_copy_that_fails_says_why_and_a_retry_submits(deferred: Survivor) -> None:
    """The driver died; what a resumed task finds is its own job's end, and only another try starts another one."""
    with pytest.raises(TaskDeferred) as left:
        deferred.run(TaskInstance())
    asyncio.run(left.value.trigger.on_kill())
    event = event_of(left.value.trigger)
    with pytest.raises(JobReportMissingError):
        deferred.run(TaskInstance(), resumes=event.payload)
    with pytest.raises(TaskDeferred) as again:
        deferred.run(TaskInstance())
    event = event_of(again.value.trigger)
    result = deferred.run(TaskInstance(), resumes=event.payload)

    assert sorted(app["finalStatus"] for app in deferred.applications()) == ["KILLED", "SUCCEEDED"]
    assert deferred.values() == list(range(100))
    assert result["records_written"] == 100


def test_a_deferred_copy_has_an_end_at_its_execution_timeout(deferred: Survivor) -> None:
    """Airflow ends no task that is deferred: the trigger looks at the time, and the job is ended, whatever has become
    of the task's state.
    """
    ti = TaskInstance()
    ti.start_date = datetime.now(timezone.utc)
    with pytest.raises(TaskDeferred) as left:
        deferred.run(ti, execution_timeout=timedelta(seconds=1))
    event = event_of(left.value.trigger)
    deferred.store.values.clear()
    with pytest.raises(AirflowTaskTimeout, match=f"application {event.payload['application_id']} was ordered to end"):
        deferred.run(ti, resumes=event.payload, execution_timeout=timedelta(seconds=1))
    deferred.wait_for_end()

    assert event.payload["status"] == "timed_out"
    assert [app["finalStatus"] for app in deferred.applications()] == ["KILLED"]


def test_a_stream_in_cluster_mode(
    kafka: KafkaBroker,
    topic: TopicFactory,
    on_yarn: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Worker and driver share the checkpoint by URI, and a retry waits for the application of a worker that died."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(b"k", b"%d" % i, partition=i % 2) for i in range(100)])
    store = TaskStateStore()

    def stream() -> KafkaToKafkaAvailableNowOperator:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="stream",
            topics=[source],
            starting_offsets="earliest",
            checkpoint_location=(tmp_path / "checkpoint").as_uri(),
            target_topic=target,
            **on_yarn,
        )
        operator.name = "stream-on-yarn"
        return operator

    with monkeypatch.context() as patch:
        patch.setattr(SparkSubmission, "end", lambda _: None)
        with pytest.raises(WorkerDied):
            stream().execute(task_context(store, ti=DiesWhenItRuns()))  # type: ignore[arg-type]
    second = stream().execute(task_context(store))  # type: ignore[arg-type]

    assert sorted(int(r.value or b"") for r in kafka.consume(target)) == list(range(100))
    assert (second["records_written"], second["records_behind"]) == (0, 0)
    operator = stream()
    operator.checkpoint_location = str(tmp_path / "checkpoint")
    with pytest.raises(AirflowFailException, match="checkpoint_location must be a URI that both sides reach"):
        operator.execute(task_context())  # type: ignore[arg-type]


def test_a_deferred_stream_reports_its_own_batches(deferred: Survivor, tmp_path: Path) -> None:
    """The resumed task collects what its job has done; records that came meanwhile are for the next run. Of a job that
    fails, the ledger has the batches that it has finished.
    """
    kafka, stores = deferred.kafka, {day: TaskStateStore() for day in ("monday", "tuesday")}

    def stream(resumes: dict[str, Any] | None = None, run_id: str = "monday") -> dict[str, Any]:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="stream",
            topics=[deferred.source],
            starting_offsets="earliest",
            checkpoint_location=(tmp_path / "checkpoint").as_uri(),
            target_topic=deferred.target,
            max_offsets_per_trigger=100,
            **deferred.parameters,
        )
        operator.name = deferred.name
        ti = TaskInstance(run_id=run_id, task_id=operator.task_id)
        context: Any = task_context(stores[run_id], ti=ti)
        return operator.execute(context) if resumes is None else operator.resume(context, resumes)

    with pytest.raises(TaskDeferred) as left:
        stream()
    event = event_of(left.value.trigger)
    kafka.produce(deferred.source, [Record(value=b"%d" % i) for i in range(100, 210)])
    kafka.produce(deferred.source, [Record(key=os.urandom(50_000), value=b"210")])
    first = stream(event.payload)
    assert (first["records_written"], first["records_behind"], first["finished_before"]) == (100, 111, [])
    assert first["evidence"]["target_ends"] == {deferred.target: {"0": 0}}

    kafka.alter_topic(deferred.target, {"max.message.bytes": "20000"})
    with pytest.raises(TaskDeferred) as left:
        stream(run_id="tuesday")
    event = event_of(left.value.trigger)
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        stream(event.payload, run_id="tuesday")
    entry = stores["tuesday"].get(STATE_KEY)
    assert (entry["state"], entry["offset_ranges"]) == ("partial", [f"{deferred.source}:0:100:200"])

    kafka.alter_topic(deferred.target, {"max.message.bytes": "1000000"})
    deferred.parameters["deferrable"] = False
    last = stream(run_id="tuesday")

    assert deferred.values() == list(range(211))
    assert (last["records_behind"], len(deferred.applications())) == (0, 3)


def test_an_application_that_yarn_does_not_know_has_ended(on_yarn: dict[str, Any]) -> None:
    """As one of a cluster that was set up anew; nothing can run of it."""
    assert on_yarn

    SparkJobHook().applications.wait_for("application_1500000000000_0001")
