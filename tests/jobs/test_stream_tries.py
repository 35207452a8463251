"""Tries of a stream: an uncommitted batch is finished exactly once, whatever the tries before were."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_provider_kafka_spark.core.errors import CheckpointInUseError, TargetRecreatedError
from airflow_provider_kafka_spark.core.streams.checkpoint import SUBMISSION_NAME, LatestSubmission
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.write import write_records
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from tests.airflow_fakes import TaskStateStore
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, values
from tests.operators.copy_task import NewTask, Stream

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.usefixtures("small_commits")
def test_at_least_once_and_back(new_task: NewTask) -> None:
    """Progress from before a try without transactions does not have what that one delivered: also for another run of
    the DAG, which has no state.
    """
    task = new_task(records=[*numbered(60), large(), *numbered(139, 60), large(), *numbered(100, 199)])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        task.run(Stream)
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    task.die_at("merged", batch, lambda: task.run(Stream, delivery="at_least_once"))
    task.store = TaskStateStore()

    task.run(Stream)

    assert task.values() == task.values(task.source)


def test_nobody_but_the_jvm_calls_the_copy_of_a_batch(new_task: NewTask) -> None:
    """Another user of the machine reaches the port. PySpark asks for no login there, and counts from 0."""
    task = new_task(records=numbered(10))

    task.run(Stream)

    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.server_socket.getsockname()[1]  # noqa: SLF001 - py4j's
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        assert stranger.makefile("rb").readline() == b"!xsObject ID unknown\n"
    assert gateway.gateway_property.pool.next_id > 2**64
    assert task.values() == task.values(task.source)


def test_the_target_of_an_uncommitted_batch_is_recreated(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is not committed, and the retry writes all of it to the new topic."""
    task = new_task(records=numbered(200))

    def write_and_recreate(*arguments: Any) -> Any:
        result = write_records(*arguments)
        task.recreate(task.target, 1)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_records", write_and_recreate)
        with pytest.raises(TargetRecreatedError):
            task.run(Stream)

    result = task.run(Stream)

    assert values(task.kafka, task.target) == [b"%d" % i for i in range(200)]
    assert (result["records_written"], result["delivered_before"]) == (200, 0)


def test_a_driver_of_an_earlier_submission_does_nothing(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker has chosen its number before a later one did."""
    task = new_task(records=numbered(10))
    monkeypatch.setattr(CheckpointFolder, "latest_submission", lambda _: 0)
    task.checkpoint.mkdir()
    (task.checkpoint / SUBMISSION_NAME).write_text(LatestSubmission(2**60).to_json())

    with pytest.raises(CheckpointInUseError, match=f"submission {2**60} has used it since"):
        task.run(Stream)

    assert task.values().total() == 0
    assert [path.name for path in task.checkpoint.iterdir()] == [SUBMISSION_NAME]
