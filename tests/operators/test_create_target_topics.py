"""Promises of ``create_target_topics``: a missing target is made like its source, when all else is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.clients import topic_creation
from airflow_provider_kafka_spark.clients.topic_configs import topic_settings
from airflow_provider_kafka_spark.core.copies.verification import PLAN_ONLY
from airflow_provider_kafka_spark.core.errors import BrokerError, InvalidInputError, TargetError, UnknownTopicError
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.new_topics import NewTopic
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators import new_targets
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import Batch, CopyTask, NewTask, Stream

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SMALL = {"segment.bytes": "1048576"}
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
def scene(new_task: NewTask) -> Iterator[Scene]:
    records = [Record(b"k%d" % i, b"%d" % i, partition=i % 3) for i in range(10)]
    given = {"target_topic": f"made-{uuid4().hex[:8]}", "create_target_topics": "{{ 'true' }}"}
    scene: Scene = new_task(Scene, 3, records=records, **given)
    scene.kafka.alter_topic(scene.source, SETTINGS)
    yield scene
    if scene.exists:
        scene.kafka.delete_topic(scene.target)


ALL = Counter(b"%d" % i for i in range(10))


def test_a_missing_target_is_shown_by_the_plan_and_made_like_its_source(scene: Scene) -> None:
    """With the settings of the source that are no defaults, but not those that name its brokers."""
    plan = scene.run(plan_only=True)
    planned = scene.exists
    result = scene.run(preserve_partition=True)

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
def test_a_retry_finds_the_topic_made_or_makes_it_again(scene: Scene, kind: type, is_deleted: bool) -> None:
    """The first try died when the topic was there; each record is delivered once."""
    scene.die_at("run", SparkJobHook, lambda: scene.run(kind))
    assert scene.exists
    if is_deleted:
        scene.kafka.delete_topic(scene.target)

    result = scene.run(kind)

    assert result["records_written"] == 10
    assert scene.values() == ALL
    assert len(scene.kafka.offsets(scene.target)) == 3


def test_another_task_may_make_it_at_the_same_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's topic is used as it is, and is waited for: the broker that answers need not be the one that has
    made it.
    """
    real, known, unknown = new_targets.create_topics, TaskTry.target_state, list[TaskTry]()

    def create(*arguments: Any) -> None:
        scene.kafka.create_topic(scene.target, 5)
        real(*arguments)

    def target_state(task_try: TaskTry) -> ClusterState:
        if scene.exists and not unknown:
            unknown.append(task_try)
            raise UnknownTopicError("Not here yet.")
        return known(task_try)

    monkeypatch.setattr(new_targets, "create_topics", create)
    monkeypatch.setattr(TaskTry, "target_state", target_state)

    scene.run_without_records()
    assert (len(unknown), len(scene.kafka.offsets(scene.target)), scene.settings()) == (1, 5, {})


def test_a_run_without_records_makes_the_target_too_and_changes_no_other(scene: Scene) -> None:
    """Consumers can subscribe to it. The number of its partitions may be given."""
    scene.run_without_records(new_topic_partitions="{{ '7' }}")
    scene.kafka.alter_topic(scene.target, {"retention.ms": "-1"})
    settings, scene.store = scene.settings(), TaskStateStore()

    warnings = scene.run_without_records(new_topic_partitions=4)["warnings"]
    assert not any("created" in warning for warning in warnings)
    assert (len(scene.kafka.offsets(scene.target)), scene.settings()) == (7, settings)


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
        ({"target_topic": scene.source.replace("_", ".")}, "TargetError: .*collides.*Choose another name"),
        ({"new_topic_partitions": 0}, "must be an integer of at least 1"),
        ({"on_refused_config": "never"}, "OptionError: on_refused_config must be 'fail' or 'leave_out'"),
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


def test_many_are_created_in_portions(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller takes no request with more than 10,000 partitions, topics and settings. One topic that is too large
    for any request is refused before anything is created.
    """
    monkeypatch.setattr(topic_creation, "_CHANGES_AT_ONCE", 12)
    requests, real = list[int](), AdminClient.create_topics

    def create(client: AdminClient, topics: list[Any], *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("validate_only"):
            requests.append(len(topics))
        return real(client, topics, *args, **kwargs)

    monkeypatch.setattr(AdminClient, "create_topics", create)
    stem = f"made-{uuid4().hex[:8]}"
    topics = [NewTopic(f"{stem}-{i}", partitions, SMALL) for i, partitions in enumerate((3, 3, 3, 30, 1))]
    with KafkaHook(timeout=20) as hook:
        with pytest.raises((TargetError, BrokerError), match=r"10,?001 partitions"):
            topic_creation.validated(hook, [*topics, NewTopic(stem, 10_001)], "fail")
        assert topic_creation.validated(hook, topics, "fail") == topics
        topic_creation.create_topics(hook, topics)

    assert requests == [2, 1, 1, 1]
    assert [len(kafka.offsets(topic.name)) for topic in topics] == [3, 3, 3, 30, 1]
    for topic in topics:
        kafka.delete_topic(topic.name)
