"""Cluster mode on a real YARN in full; ``test_whole_way.py`` has the short form."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout, TaskDeferred

from airflow_provider_kafka_spark.core.errors import JobKilledError, JobReportMissingError
from airflow_provider_kafka_spark.core.ledger.entry import STATE_KEY
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.testing.broker_client import Record
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.waiting import until
from tests.yarn.survivor import DiesWhenItRuns, Survivor, WorkerDied, event_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_job_that_is_followed_by_rest_reports_back(survivor: Survivor) -> None:
    """spark-submit leaves at once, and YARN is asked for the end. Executors in processes of their own evaluate SQL."""
    ti = TaskInstance()

    result = survivor.run(ti, yarn_track_via_rm_api=True, columns={"value": "concat('1', string(value))"})

    assert survivor.values() == sorted(int(f"1{i}") for i in range(100))
    assert (result["records_written"], survivor.reports()) == (100, [])
    assert result["application_id"].startswith("application_")
    assert result["application_id"] in ti.pushed["_link_SparkApplicationLink"]


_WARNINGS_ONLY = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
"""


@pytest.mark.parametrize("level", ["info", "warn"])
def test_killing_the_task_kills_the_application(
    survivor: Survivor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, level: str
) -> None:
    """``on_kill`` ends the application on YARN, and the task fails. Without a line of the log that has its id, the
    worker finds it by its tag.
    """
    if level == "warn":
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
        (tmp_path / "log4j2.properties").write_text(_WARNINGS_ONLY)
    operator = survivor.operator()

    def kill_once_running() -> None:
        until(lambda: [app["state"] for app in survivor.applications()] == ["RUNNING"], "it runs", 120.0)
        assert (operator.spark_application_url is None) == (level == "warn")
        operator.on_kill()

    killer = threading.Thread(target=kill_once_running)
    killer.start()
    with pytest.raises(JobKilledError, match="was ordered to end"):
        operator.execute(task_context())  # type: ignore[arg-type]
    killer.join()

    # YARN takes the order to kill, and then a moment to follow it.
    until(lambda: [app["state"] for app in survivor.applications()] == ["KILLED"], "YARN has killed it", 30.0)


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


@dataclass
class Stream:
    """Tries of a stream, which share its checkpoint, in DAG runs with a state each."""

    survivor: Survivor
    checkpoint: Path
    stores: dict[str, TaskStateStore] = field(default_factory=lambda: defaultdict(TaskStateStore))

    def run(self, resumes: Any = None, ti: TaskInstance | None = None, **changed: Any) -> dict[str, Any]:
        """With the event of its trigger, the rest of a try."""
        given: dict[str, Any] = {"checkpoint_location": self.checkpoint.as_uri(), "max_offsets_per_trigger": 100}
        given |= {"topics": [self.survivor.source], "target_topic": self.survivor.target, **changed}
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="stream", starting_offsets="earliest", **given, **self.survivor.parameters
        )
        operator.name = self.survivor.name
        ti = ti or TaskInstance()
        ti.task_id = operator.task_id
        context: Any = task_context(self.stores[ti.run_id], ti=ti)
        return operator.execute(context) if resumes is None else operator.resume(context, resumes)


@pytest.fixture
def stream(survivor: Survivor, tmp_path: Path) -> Stream:
    return Stream(survivor, tmp_path / "checkpoint")


def test_a_stream_in_cluster_mode(survivor: Survivor, stream: Stream) -> None:
    """Worker and driver share the checkpoint by URI, and a retry waits for the application of a worker that died."""
    with pytest.raises(WorkerDied):
        stream.run(ti=DiesWhenItRuns())
    second = stream.run()

    assert survivor.values() == list(range(100))
    assert (second["records_written"], second["records_behind"]) == (0, 0)
    with pytest.raises(AirflowFailException, match="checkpoint_location must be a URI that both sides reach"):
        # A retry would have the location of its first try.
        stream.run(ti=TaskInstance(run_id="another"), checkpoint_location=str(stream.checkpoint))


def test_a_deferred_stream_reports_its_own_batches(deferred: Survivor, stream: Stream) -> None:
    """The resumed task collects what its job has done; records that came meanwhile are for the next run. Of a job that
    fails, the ledger has the batches that it has finished.
    """
    kafka, of_tuesday = deferred.kafka, TaskInstance(run_id="tuesday")
    with pytest.raises(TaskDeferred) as left:
        stream.run()
    event = event_of(left.value.trigger)
    kafka.produce(deferred.source, [Record(value=b"%d" % i) for i in range(100, 210)])
    kafka.produce(deferred.source, [Record(key=os.urandom(50_000), value=b"210")])
    first = stream.run(event.payload)
    assert (first["records_written"], first["records_behind"], first["finished_before"]) == (100, 111, [])
    assert first["evidence"]["target_ends"] == {deferred.target: {"0": 0}}

    kafka.alter_topic(deferred.target, {"max.message.bytes": "20000"})
    with pytest.raises(TaskDeferred) as left:
        stream.run(ti=of_tuesday)
    event = event_of(left.value.trigger)
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        stream.run(event.payload, of_tuesday)
    entry = stream.stores["tuesday"].get(STATE_KEY)
    assert (entry["state"], entry["offset_ranges"]) == ("partial", [f"{deferred.source}:0:100:200"])

    kafka.alter_topic(deferred.target, {"max.message.bytes": "1000000"})
    deferred.parameters["deferrable"] = False
    last = stream.run(ti=of_tuesday)

    assert deferred.values() == list(range(211))
    assert (last["records_behind"], len(deferred.applications())) == (0, 3)


def test_an_application_that_yarn_does_not_know_has_ended(on_yarn: dict[str, Any]) -> None:
    """As one of a cluster that was set up anew; nothing can run of it."""
    assert on_yarn

    SparkJobHook().applications.wait_for("application_1500000000000_0001")
