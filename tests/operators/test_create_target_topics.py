"""Promises of ``create_target_topics``: a missing target is made like its source, when all else is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.topic_creation import topic_settings
from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.errors import InvalidInputError, JobReportMissingError, UnknownTopicError
from airflow_provider_kafka_spark.core.verification import PLAN_ONLY
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators import new_targets
from airflow_provider_kafka_spark.operators.attempt import Attempt
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import Batch, CopyTask, Stream

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "leader.replication.throttled.replicas": "*"}


class Scene(CopyTask):
    """A source of three partitions and ten records, and the name of a target that does not exist."""

    @property
    def exists(self) -> bool:
        return self.target in self.kafka.topics()

    def run_without_records(self, **parameters: Any) -> dict[str, Any]:
        """It starts no Spark."""
        result = self.run(starting_offsets={self.source: {"0": 4, "1": 3, "2": 3}}, **parameters)
        assert (result["records_read"], self.spark.requests) == (0, [])
        return result

    def settings(self) -> dict[str, str]:
        """What was set for the target."""
        with KafkaHook(timeout=20) as hook:
            return topic_settings(hook, [self.target])[self.target]


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Iterator[Scene]:
    source = topic(3, SETTINGS, suffix="source")
    kafka.produce(source, [Record(b"k%d" % i, b"%d" % i, partition=i % 3) for i in range(10)])
    given = {"target_topic": f"made-{uuid4().hex[:8]}", "create_target_topics": "{{ 'true' }}"}
    scene = Scene(kafka, in_process_spark, tmp_path, [source], given)
    yield scene
    if scene.exists:
        kafka.delete_topic(scene.target)


ALL = Counter(b"%d" % i for i in range(10))


@pytest.mark.parametrize("kind", [Batch, pytest.param(Stream, marks=pytest.mark.long)])
def test_a_missing_target_is_shown_by_the_plan_and_made_like_its_source(scene: Scene, kind: type) -> None:
    """With the settings of the source that are no defaults, but not those that name its brokers."""
    plan = scene.run(kind, plan_only=True)
    planned = scene.exists
    result = scene.run(kind, preserve_partition=True)

    shape = "3 partitions, cleanup.policy=compact, segment.bytes=1048576"
    assert plan["warnings"][0] == f"Target topic {scene.target!r} will be created: {shape}"
    assert plan["warnings"][-1] == PLAN_ONLY
    assert not planned
    assert result["warnings"][0] == f"Target topic {scene.target!r} was created: {shape}"
    assert result["records_written"] == 10
    assert scene.settings() == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    assert len(scene.kafka.offsets(scene.target)) == 3
    assert scene.values() == ALL


@pytest.mark.parametrize(("kind", "is_deleted"), [(Batch, True), (Stream, False)])
def test_a_retry_finds_the_topic_made_or_makes_it_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: type, is_deleted: bool
) -> None:
    """The first try died when the topic was there; each record is delivered once."""
    with monkeypatch.context() as patch:
        patch.setattr(SparkJobHook, "run", _die)
        with pytest.raises(JobReportMissingError):
            scene.run(kind)
    assert scene.exists
    if is_deleted:
        scene.kafka.delete_topic(scene.target)

    result = scene.run(kind)

    assert result["records_written"] == 10
    assert scene.values() == ALL
    assert len(scene.kafka.offsets(scene.target)) == 3


def _die(*_: object) -> None:
    raise JobReportMissingError("died")


def test_another_task_may_make_it_at_the_same_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's topic is used as it is."""
    real = new_targets.create_topics

    def create(*arguments: Any) -> None:
        scene.kafka.create_topic(scene.target, 5)
        real(*arguments)

    monkeypatch.setattr(new_targets, "create_topics", create)

    scene.run_without_records()
    assert len(scene.kafka.offsets(scene.target)) == 5
    assert scene.settings() == {}


def test_it_is_waited_for_until_the_brokers_know_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that answers need not be the one that has made it."""
    known, unknown = Attempt.target_state, list[Attempt]()

    def target_state(attempt: Attempt) -> ClusterState:
        if scene.exists and not unknown:
            unknown.append(attempt)
            raise UnknownTopicError("Not here yet.")
        return known(attempt)

    monkeypatch.setattr(Attempt, "target_state", target_state)

    scene.run_without_records()
    assert len(unknown) == 1


def test_an_existing_target_is_not_changed(scene: Scene) -> None:
    scene.kafka.create_topic(scene.target, 1, {"retention.ms": "-1"})

    assert scene.run_without_records(new_topic_partitions=4)["warnings"] == []
    assert scene.settings() == {"retention.ms": "-1"}
    assert len(scene.kafka.offsets(scene.target)) == 1


def test_a_run_without_records_makes_the_target_too(scene: Scene) -> None:
    """Consumers can subscribe to it. The number of its partitions may be given."""
    scene.run_without_records(new_topic_partitions="{{ '7' }}")

    assert len(scene.kafka.offsets(scene.target)) == 7


def test_a_setting_that_the_target_refuses_is_named_or_left_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a source of a newer Kafka; and replicas that the target does not have."""
    scene.kafka.alter_topic(scene.source, {"min.insync.replicas": "3"})

    def of_newer_kafka(*arguments: Any) -> dict[str, dict[str, str]]:
        settings = topic_settings(*arguments)
        return {name: {**config, "newer.setting": "1", "retention.ms": "-7"} for name, config in settings.items()}

    monkeypatch.setattr(new_targets, "topic_settings", of_newer_kafka)
    for plan_only in (True, False):
        with pytest.raises(AirflowFailException, match=r"^TargetError: .*leave_out") as raised:
            scene.run(plan_only=plan_only)
        for part in ("min.insync.replicas=3 (the cluster has 1 brokers)", "newer.setting=1 (", "retention.ms=-7 ("):
            assert part in str(raised.value)
        assert "cleanup.policy" not in str(raised.value)
    assert not scene.exists

    result = scene.run_without_records(on_refused_config="{{ 'leave_out' }}")

    left_out = "its brokers refuse min.insync.replicas, newer.setting, retention.ms, which is left out"
    assert left_out in result["warnings"][0]
    assert scene.settings() == {"cleanup.policy": "compact", "segment.bytes": "1048576"}


def test_what_fails_makes_no_topic(scene: Scene) -> None:
    def topics() -> set[str]:
        """Without those that a broker makes for itself, when it is first asked for a transaction."""
        return {name for name in scene.kafka.topics() if not name.startswith("__")}

    before = topics()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"max_planned_records": 9}, "PlanTooLargeError: .*max_planned_records=9 records; this one has up to 10"),
        ({"max_planned_records": 9, "plan_only": True}, "PlanTooLargeError"),
        ({"preserve_partition": True, "new_topic_partitions": 2}, "needs at least 3 partitions"),
        ({"target_topic": "a" * 250}, "TargetError"),
        ({"new_topic_partitions": 0}, "must be an integer of at least 1"),
        ({"on_refused_config": "never"}, "OptionError: on_refused_config must be one of"),
        ({"create_target_topics": False, "new_topic_partitions": 2}, "OptionError: new_topic_partitions=2"),
        ({"create_target_topics": False}, "does not exist"),
        ({"target_topic": None, "target_topic_expr": "topic"}, "OptionError: create_target_topics=True"),
        ({"sink_options": {"kafka.transaction.timeout.ms": "999999999"}}, "transaction.max.timeout.ms"),
    ]
    # Nor does a source whose times of arrival would replace the records' own in a target like it.
    replaces = {"message.timestamp.type": "LogAppendTime"}
    for parameters, says in (*refused, ({}, "LogAppendTime"), ({"plan_only": True}, "LogAppendTime")):
        if says in replaces.values():
            scene.kafka.alter_topic(scene.source, replaces)
        with pytest.raises((AirflowFailException, InvalidInputError), match=says):
            scene.run(**parameters)
        assert (topics(), has_submitted_nothing(scene.store)) == (before, True), parameters


@pytest.mark.long
def test_a_topic_of_several_brokers_is_known_to_all_when_the_job_is_submitted(
    kafka_cluster: KafkaCluster,
    in_process_spark: InProcessSpark,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Whichever broker answers; its replicas are those of the cluster's default, enough for the source's setting."""
    connection("kafka_default", extra={"bootstrap.servers": kafka_cluster.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")
    source, target = (f"{name}-{uuid4().hex[:8]}" for name in ("source", "made"))
    kafka_cluster.create_topic(source, 12, {"min.insync.replicas": "2"})
    kafka_cluster.produce(source, [Record(b"k", b"v", partition=0)])
    seen: list[int] = []

    def run(*_: object) -> None:
        seen.append(len(kafka_cluster.offsets(target)))
        raise JobReportMissingError("died")

    monkeypatch.setattr(SparkJobHook, "run", run)
    given = {"target_topic": target, "create_target_topics": True}
    task = Scene(kafka_cluster, in_process_spark, tmp_path, [source], given)  # type: ignore[arg-type]
    with pytest.raises(JobReportMissingError):
        task.run()

    assert seen == [12]
