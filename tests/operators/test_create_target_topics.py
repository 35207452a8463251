"""Promises of ``create_target_topics``: a missing target is made like its source, when all else is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.topic_creation import topic_settings
from airflow_provider_kafka_spark.core.errors import InvalidInputError, JobReportMissingError
from airflow_provider_kafka_spark.core.verification import PLAN_ONLY
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators import new_targets
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "leader.replication.throttled.replicas": "*"}


class Scene:
    """A source of three partitions and ten records, and the name of a target that does not exist."""

    def __init__(self, kafka: KafkaBroker, source: str, target: str, folder: Path) -> None:
        self.kafka, self.source, self.target, self.folder = kafka, source, target, folder
        self.store, self.number = TaskStateStore(), 0

    def run(self, kind: type = KafkaToKafkaBatchOperator, **parameters: Any) -> dict[str, Any]:
        """One try of the task."""
        more: dict[str, Any] = {"topics": [self.source]}
        if kind is ReplayOffsetRangesOperator:
            more = {"offset_ranges": [f"{self.source}:{p}:0:{n}" for p, n in enumerate((4, 3, 3))]}
        if kind is KafkaToKafkaAvailableNowOperator:
            more |= {"checkpoint_location": str(self.folder / "checkpoint"), "starting_offsets": "earliest"}
        given = {"target_topic": self.target, "create_target_topics": "{{ 'true' }}", **more, **parameters}
        operator = kind(task_id="task", **{name: value for name, value in given.items() if value is not None})
        operator.render_template_fields({})
        self.number += 1
        ti = Try(try_number=self.number, max_tries=5)
        return operator.execute(task_context(self.store, ti=ti))  # type: ignore[no-any-return]

    @property
    def exists(self) -> bool:
        return self.target in self.kafka.topics()

    def settings(self) -> dict[str, str]:
        """What was set for the target."""
        with KafkaHook(timeout=20) as hook:
            return topic_settings(hook, [self.target])[self.target]

    def values(self) -> list[bytes | None]:
        return sorted(record.value for record in self.kafka.consume(self.target))  # type: ignore[type-var]


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Iterator[Scene]:
    source = topic(3, SETTINGS, suffix="source")
    kafka.produce(source, [Record(b"k%d" % i, b"%d" % i, partition=i % 3) for i in range(10)])
    scene = Scene(kafka, source, f"made-{uuid4().hex[:8]}", tmp_path)
    yield scene
    if scene.exists:
        kafka.delete_topic(scene.target)


ALL = sorted(b"%d" % i for i in range(10))
KINDS = (KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator)


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_deleted", [False, True])
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


@pytest.mark.parametrize("moment", ["create_topics", "_visible"])
def test_a_try_that_dies_at_the_creation_is_followed_by_one_that_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    real: Callable[..., Any] = getattr(new_targets, moment)

    def die(*arguments: Any) -> None:
        real(*arguments)
        raise JobReportMissingError("died")

    with monkeypatch.context() as patch:
        patch.setattr(new_targets, moment, die)
        with pytest.raises(JobReportMissingError):
            scene.run()
    assert scene.exists

    assert scene.run()["records_written"] == 10
    assert scene.values() == ALL


def test_another_task_may_make_it_at_the_same_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's topic is used as it is."""
    real = new_targets.create_topics

    def create(*arguments: Any) -> None:
        scene.kafka.create_topic(scene.target, 5)
        real(*arguments)

    monkeypatch.setattr(new_targets, "create_topics", create)

    assert scene.run()["records_written"] == 10
    assert len(scene.kafka.offsets(scene.target)) == 5
    assert scene.settings() == {}


def test_an_existing_target_is_not_changed(scene: Scene) -> None:
    scene.kafka.create_topic(scene.target, 1, {"retention.ms": "-1"})

    result = scene.run(new_topic_partitions=4)

    assert (result["records_written"], result["warnings"]) == (10, [])
    assert scene.settings() == {"retention.ms": "-1"}
    assert len(scene.kafka.offsets(scene.target)) == 1


def test_the_number_of_partitions_may_be_given(scene: Scene) -> None:
    scene.run(new_topic_partitions="{{ '7' }}")

    assert len(scene.kafka.offsets(scene.target)) == 7


def test_a_run_without_records_makes_the_target_too(scene: Scene) -> None:
    """Consumers can subscribe to it."""
    ends = {scene.source: {"0": 4, "1": 3, "2": 3}}

    assert scene.run(starting_offsets=ends)["records_read"] == 0
    assert scene.exists


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

    result = scene.run(on_refused_config="{{ 'leave_out' }}")

    left_out = "its brokers refuse min.insync.replicas, newer.setting, retention.ms, which is left out"
    assert left_out in result["warnings"][0]
    assert scene.settings() == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    assert scene.values() == ALL


def test_several_sources_of_one_target_must_have_the_same_settings(scene: Scene, topic: TopicFactory) -> None:
    other = topic(5, {"cleanup.policy": "delete"}, suffix="other")

    with pytest.raises(AirflowFailException, match=r"^TargetError: .*cleanup.policy is .*segment.bytes is .*not set"):
        scene.run(topics=[scene.source, other])
    assert not scene.exists
    scene.kafka.alter_topic(other, {"cleanup.policy": "compact", "segment.bytes": "1048576"})
    assert scene.run(topics=[scene.source, other])["records_written"] == 10
    assert len(scene.kafka.offsets(scene.target)) == 5


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        pytest.param({"max_planned_records": 9}, "PlanTooLargeError", id="too-large"),
        pytest.param({"preserve_partition": True, "new_topic_partitions": 2}, "needs at least 3 partitions", id="few"),
        pytest.param({"target_topic": "a" * 250}, "TargetError", id="name"),
        pytest.param({"new_topic_partitions": 0}, "must be an integer of at least 1", id="partitions"),
        pytest.param({"on_refused_config": "never"}, "OptionError: on_refused_config must be one of", id="on-refused"),
        pytest.param({"create_target_topics": "{{ 'maybe' }}"}, "OptionError: create_target_topics must be", id="flag"),
        pytest.param(
            {"create_target_topics": False, "new_topic_partitions": 2}, "OptionError: new_topic_partitions=2", id="off"
        ),
        pytest.param(
            {"target_topic": None, "target_topic_expr": "topic"}, "OptionError: create_target_topics=True", id="expr"
        ),
        pytest.param({"create_target_topics": False}, "does not exist", id="not-created"),
        pytest.param(
            {"sink_options": {"kafka.transaction.timeout.ms": "999999999"}}, "transaction.max.timeout.ms", id="timeout"
        ),
    ],
)
def test_what_fails_makes_no_topic(scene: Scene, parameters: dict[str, Any], says: str) -> None:
    before = scene.kafka.topics()
    with pytest.raises((AirflowFailException, InvalidInputError)) as raised:
        scene.run(**parameters)

    assert says in f"{raised.value}"
    assert scene.kafka.topics() == before
    assert scene.store.values == {}


def test_a_target_that_would_not_keep_timestamps_is_not_made(scene: Scene) -> None:
    scene.kafka.alter_topic(scene.source, {"message.timestamp.type": "LogAppendTime"})
    for plan_only in (True, False):
        with pytest.raises(AirflowFailException, match="LogAppendTime"):
            scene.run(plan_only=plan_only)
    assert not scene.exists
    assert scene.run(preserve_timestamps=False)["records_written"] == 10


def test_a_topic_of_several_brokers_is_known_to_all_when_the_job_is_submitted(
    kafka_cluster: KafkaCluster, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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
    with pytest.raises(JobReportMissingError):
        Scene(kafka_cluster, source, target, tmp_path).run()  # type: ignore[arg-type]

    assert seen == [12]
