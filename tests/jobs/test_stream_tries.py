"""Tries of a stream: an uncommitted batch is finished exactly once, whatever the tries before were."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_provider_kafka_spark.core.errors import CheckpointInUseError, TargetRecreatedError
from airflow_provider_kafka_spark.core.streams.checkpoint import SUBMISSION_NAME, LatestSubmission
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.write import write_records
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, values

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("in_process_spark")]


def attempt(number: int, store: TaskStateStore, checkpoint: Path, **parameters: Any) -> dict[str, Any]:
    """One try of the same task."""
    operator = KafkaToKafkaAvailableNowOperator(
        task_id="task", starting_offsets="earliest", checkpoint_location=str(checkpoint), **parameters
    )
    return operator.execute(task_context(store, ti=Try(try_number=number)))


@pytest.mark.usefixtures("small_commits")
def test_at_least_once_and_back(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> None:
    """Progress from before a try without transactions does not have what that one delivered: also for another run of
    the DAG, which has no state.
    """
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka.produce(source, [*numbered(60), large(), *numbered(139, 60), large(), *numbered(100, 199)])
    store, options = TaskStateStore(), {"topics": [source], "target_topic": target}
    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        attempt(1, store, tmp_path / "checkpoint", **options)
    kafka.alter_topic(target, TAKES_LARGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "merged", _fail)
        with pytest.raises(Exception, match="stop here"):
            attempt(2, store, tmp_path / "checkpoint", delivery="at_least_once", **options)

    attempt(3, TaskStateStore(), tmp_path / "checkpoint", **options)

    assert Counter(values(kafka, target)) == Counter(values(kafka, source))


def test_nobody_but_the_jvm_calls_the_copy_of_a_batch(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, in_process_spark: InProcessSpark
) -> None:
    """Another user of the machine reaches the port. PySpark asks for no login there, and counts from 0."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(10))

    attempt(1, TaskStateStore(), tmp_path / "checkpoint", topics=[source], target_topic=target)

    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.server_socket.getsockname()[1]  # noqa: SLF001 - py4j's
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        assert stranger.makefile("rb").readline() == b"!xsObject ID unknown\n"
    assert gateway.gateway_property.pool.next_id > 2**64
    assert values(kafka, target) == values(kafka, source)


def test_the_target_of_an_uncommitted_batch_is_recreated(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is not committed, and the retry writes all of it to the new topic."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(200))
    store, options = TaskStateStore(), {"topics": [source], "target_topic": target}

    def write_and_recreate(*arguments: Any) -> Any:
        result = write_records(*arguments)
        kafka.delete_topic(target)
        kafka.create_topic(target, 1)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_records", write_and_recreate)
        with pytest.raises(TargetRecreatedError):
            attempt(1, store, tmp_path / "checkpoint", **options)

    result = attempt(2, store, tmp_path / "checkpoint", **options)

    assert values(kafka, target) == [b"%d" % i for i in range(200)]
    assert (result["records_written"], result["delivered_before"]) == (200, 0)


def test_a_driver_of_an_earlier_submission_does_nothing(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has chosen its number before a later one did."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(10))
    monkeypatch.setattr(CheckpointFolder, "latest_submission", lambda _: 0)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / SUBMISSION_NAME).write_text(LatestSubmission(2**60).to_json())

    with pytest.raises(CheckpointInUseError, match=f"submission {2**60} has used it since"):
        attempt(1, TaskStateStore(), folder, topics=[source], target_topic=target)

    assert values(kafka, target) == []
    assert [path.name for path in folder.iterdir()] == [SUBMISSION_NAME]


def _fail(*_: object) -> Any:
    raise RuntimeError("stop here")
