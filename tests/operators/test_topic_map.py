"""Promises of ``topic_map``: each source topic goes to a target of its own, in one task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import InvalidInputError, JobReportMissingError
from airflow_provider_kafka_spark.core.provenance import Provenance
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KINDS = (KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator)


@dataclass
class Scene:
    """Two sources with ten records each, and a target for each."""

    kafka: KafkaBroker
    orders: str
    payments: str
    map: dict[str, str]
    folder: Path
    spark: InProcessSpark
    store: TaskStateStore = field(default_factory=TaskStateStore)
    tries: int = 0
    clears: int = 0

    def run(self, kind: type = KafkaToKafkaBatchOperator, *, clears: bool = False, **parameters: Any) -> dict[str, Any]:
        """One try of the task."""
        sources = [self.orders, self.payments]
        more: dict[str, Any] = {"topics": sources}
        if kind is ReplayOffsetRangesOperator:
            more = {"offset_ranges": [f"{topic}:{p}:0:5" for topic in sources for p in range(2)]}
        if kind is KafkaToKafkaAvailableNowOperator:
            more |= {"checkpoint_location": str(self.folder / "checkpoint"), "starting_offsets": "earliest"}
        given = {"topic_map": self.map, **more, **parameters}
        operator = kind(task_id="task", **{name: value for name, value in given.items() if value is not None})
        operator.render_template_fields({})
        self.tries, self.clears = self.tries + 1, self.clears + clears
        context = task_context(self.store, clear_number=self.clears, ti=Try(try_number=self.tries, max_tries=9))
        result: dict[str, Any] = operator.execute(context)
        if clears:
            for callback in operator.on_success_callback:
                callback({"task": operator, **context})
        self.event = context["outlet_events"]
        return result

    def origins(self, target: str) -> Counter[tuple[str, int, int]]:
        """Where each record of a target came from."""
        found = [Provenance.parse(r.headers[-1][1] or b"") for r in self.kafka.consume(target)]
        return Counter((origin.topic, origin.partition, origin.offset) for origin in found)


def once(source: str, count: int = 5) -> Counter[tuple[str, int, int]]:
    return Counter((source, p, o) for p in range(2) for o in range(count))


def produce(kafka: KafkaBroker, name: str) -> None:
    kafka.produce(name, [Record(b"k%d" % i, b"%d" % i, partition=i % 2) for i in range(10)])


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Scene:
    orders, payments = topic(2, suffix="orders"), topic(2, suffix="payments")
    for name in (orders, payments):
        produce(kafka, name)
    names = {orders: topic(3, suffix="orders-v2"), payments: topic(2, suffix="payments-v2")}
    return Scene(kafka, orders, payments, names, tmp_path, in_process_spark)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, id="plain"),
        pytest.param({"where": "offset >= 0", "columns": {"value": "upper(string(value))"}}, id="sql"),
        pytest.param({"delivery": "at_least_once"}, id="at-least-once"),
        pytest.param({"preserve_partition": True}, id="same-partition"),
    ],
)
def test_each_topic_goes_to_its_own_target(scene: Scene, kind: type, parameters: dict[str, Any]) -> None:
    plan = scene.run(kind, plan_only=True, **parameters)
    result = scene.run(kind, **parameters)

    for source, target in scene.map.items():
        assert scene.origins(target) == once(source)
    assert plan["target_topics"] == result["target_topics"] == sorted(scene.map.values())
    assert {r["topic"] for r in result["target_ranges"]} == set(scene.map.values())
    assert result["records_written"] == 20
    assert scene.spark.requests[-1].transform.topic_map == scene.map


@pytest.mark.parametrize("where", [None, "offset >= 0"])
def test_a_spark_with_only_its_public_reader_has_the_map_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    assert scene.run(where=where)["records_written"] == 20

    for source, target in scene.map.items():
        assert scene.origins(target) == once(source)


def test_a_map_that_is_text_may_have_more_topics_and_several_for_one_target(scene: Scene) -> None:
    """As a form gives it. What is not read does not matter."""
    target = scene.map[scene.orders]
    text = f'{{"{scene.orders}": "{target}", "{scene.payments}": "{target}", "unread": "{scene.map[scene.payments]}"}}'

    assert scene.run(topic_map="{{ '" + text + "' }}")["records_written"] == 20

    assert scene.origins(target) == once(scene.orders) + once(scene.payments)
    assert scene.spark.requests[-1].transform.topic_map == {scene.orders: target, scene.payments: target}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_retry_writes_to_each_target_what_it_lacks(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: type, delivery: str
) -> None:
    """The job of the first try delivered everything, and its report was lost."""
    real = SparkJobHook.run

    def lose(*arguments: Any) -> None:
        real(*arguments)
        raise JobReportMissingError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(SparkJobHook, "run", lose)
        with pytest.raises(JobReportMissingError):
            scene.run(kind, delivery=delivery)

    scene.run(kind, delivery=delivery)

    for source, target in scene.map.items():
        assert scene.origins(target) == once(source)


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_clear_writes_what_one_of_the_targets_has_lost(scene: Scene, deleted: int) -> None:
    scene.run(clears=True)
    lost = sorted(scene.map.values())[deleted]
    scene.kafka.delete_topic(lost)
    scene.kafka.create_topic(lost, 2)

    result = scene.run(clears=True)

    assert (result["delivered_before"], result["records_written"]) == (10, 20)
    for source, target in scene.map.items():
        assert scene.origins(target) == once(source)


def test_a_topic_more_is_no_other_delivery_and_another_target_is_one(scene: Scene, topic: TopicFactory) -> None:
    more, more_target, other = topic(2, suffix="more"), topic(2, suffix="more-v2"), topic(2, suffix="other")
    produce(scene.kafka, more)
    first = scene.run(clears=True)

    sources = [scene.orders, scene.payments, more]
    second = scene.run(clears=True, topics=sources, topic_map={**scene.map, more: more_target})
    third = scene.run(clears=True, topic_map={**scene.map, scene.orders: other})

    assert (second["run_id"], second["delivered_before"]) == (first["run_id"], 20)
    assert third["run_id"] != first["run_id"]
    assert any(f"the target of '{scene.orders}'" in warning for warning in third["warnings"])
    assert [scene.origins(t) for t in (more_target, other)] == [once(more), once(scene.orders)]
    assert scene.origins(scene.map[scene.orders]) == once(scene.orders)


def test_a_stream_belongs_to_its_map(scene: Scene) -> None:
    kind = KafkaToKafkaAvailableNowOperator
    scene.run(kind, clears=True)
    produce(scene.kafka, scene.orders)
    scene.store = TaskStateStore()

    assert scene.run(kind, clears=True)["records_written"] == 10
    for source, target in scene.map.items():
        assert scene.origins(target) == once(source, 10 if source == scene.orders else 5)
    scene.store = TaskStateStore()
    scene.run(kind, topic_map={**scene.map, "unread": "other"})
    scene.store = TaskStateStore()
    with pytest.raises(AirflowFailException, match=r"^CheckpointError: .*topic_map is"):
        scene.run(kind, topic_map={**scene.map, scene.orders: scene.map[scene.payments]})


def test_an_outlet_is_announced_for_each_target(scene: Scene) -> None:
    asset = Asset("copied")
    result = scene.run(outlets=[asset])

    extra = scene.event[asset].extra
    assert extra["target_ranges"] == result["target_ranges"]
    assert {r["topic"] for r in extra["target_ranges"]} == set(scene.map.values())


@pytest.fixture
def made(scene: Scene) -> Iterator[dict[str, str]]:
    """Names of targets that do not exist."""
    names = {source: f"made-{uuid4().hex[:8]}" for source in scene.map}
    yield names
    for name in names.values():
        if name in scene.kafka.topics():
            scene.kafka.delete_topic(name)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_targets_are_each_made_like_their_source(scene: Scene, kind: type, made: dict[str, str]) -> None:
    """Of two different sources; one target exists."""
    scene.kafka.alter_topic(scene.orders, {"cleanup.policy": "compact"})
    names = {scene.orders: made[scene.orders], scene.payments: scene.map[scene.payments]}
    plan = scene.run(kind, topic_map=names, create_target_topics=True, plan_only=True)
    result = scene.run(kind, topic_map=made, create_target_topics=True)

    will_be = f"Target topic {made[scene.orders]!r} will be created: 2 partitions, cleanup.policy=compact"
    assert [w for w in plan["warnings"] if "created" in w] == [will_be]
    assert [w.split(": ")[1] for w in result["warnings"] if "created" in w] in (
        ["2 partitions, cleanup.policy=compact", "2 partitions"],
        ["2 partitions", "2 partitions, cleanup.policy=compact"],
    )
    for source, target in made.items():
        assert scene.origins(target) == once(source)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        pytest.param(
            {"topic_map": {"other": "x"}}, "TargetError: topic_map must have a target for each", id="unmapped"
        ),
        pytest.param({"topic_map": {}}, "TargetError: topic_map must map source topics", id="empty"),
        pytest.param({"topic_map": {"orders": 7}}, "got 7", id="number"),
        pytest.param({"topic_map": ["orders"]}, "got ['orders']", id="list"),
        pytest.param({"topic_map": "{{ '[' }}"}, "topic_map must be JSON", id="text"),
        pytest.param({"target_topic": "x"}, "exactly one of target_topic", id="and-topic"),
        pytest.param({"target_topic_expr": "topic"}, "exactly one of target_topic", id="and-expr"),
        pytest.param({"topic_map": None}, "got neither", id="none"),
    ],
)
def test_bad_input(scene: Scene, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises((AirflowFailException, InvalidInputError)) as raised:
        scene.run(**parameters)

    assert says in str(raised.value)
    assert (scene.spark.requests, scene.store.values) == ([], {})


def test_a_target_that_is_missing_too_small_or_read_is_named(scene: Scene, topic: TopicFactory) -> None:
    """Each target is checked for the records that go there, before Spark starts."""
    small = topic(1, suffix="small")
    for names, says in (
        ({scene.payments: "nowhere"}, "'nowhere' does not exist"),
        ({scene.payments: small}, f"needs at least 2 partitions in the target topic '{small}'"),
        ({scene.payments: scene.orders}, f"'{scene.orders}' is also read"),
        ({scene.payments: scene.payments}, f"'{scene.payments}' is also read"),
    ):
        with pytest.raises(AirflowFailException, match=r"^TargetError") as raised:
            scene.run(topic_map={**scene.map, **names}, preserve_partition=True)
        assert says in str(raised.value)
    scene.tries = 0
    log_append = topic(2, {"message.timestamp.type": "LogAppendTime"}, suffix="log-append")
    with pytest.raises(AirflowFailException, match=f"'{log_append}' has message.timestamp.type"):
        scene.run(topic_map={**scene.map, scene.payments: log_append})
    assert scene.spark.requests == []
