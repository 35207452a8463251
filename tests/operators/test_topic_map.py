"""Promises of ``topic_map``: each source topic goes to a target of its own, in one task."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.offsets.provenance import Provenance
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import KINDS, Batch, CopyTask, Replay, Stream, covering

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Scene(CopyTask):
    """Two sources with ten records each, and a target for each."""

    @property
    def map(self) -> dict[str, str]:
        found: dict[str, str] = self.given["topic_map"]
        return found

    @property
    def orders(self) -> str:
        return self.sources[0]

    @property
    def payments(self) -> str:
        return self.sources[1]

    def origins(self, target: str) -> Counter[tuple[str, int, int]]:
        """Where each record of a target came from."""
        found = [Provenance.parse(r.headers[-1][1] or b"") for r in self.kafka.consume(target)]
        return Counter((origin.topic, origin.partition, origin.offset) for origin in found)

    def assert_each_has_its_own(self) -> None:
        for source, target in self.map.items():
            assert self.origins(target) == once(source)


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
    return Scene(kafka, in_process_spark, tmp_path, [orders, payments], {"topic_map": names})


SQL = {"where": "offset >= 0", "columns": {"value": "upper(string(value))"}}


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "delivery", "sql", "reader", "preserve_partition"),
    covering(
        [
            (Batch, "at_least_once", True, "public", True),
            (Replay, "exactly_once", False, "internal", False),
            (Stream, "exactly_once", True, "internal", True),
        ],
        KINDS, ("exactly_once", "at_least_once"), (False, True), ("internal", "public"), (False, True),
    ),
)  # fmt: skip
def test_each_topic_goes_to_its_own_target(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    delivery: str,
    sql: bool,
    reader: str,
    preserve_partition: bool,
) -> None:
    """Also with a Spark of which only the public reader is known. An outlet is announced for each target."""
    if reader == "public":
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)
    asset = Asset("copied")
    given = {"delivery": delivery, "preserve_partition": preserve_partition, "outlets": [asset], **(SQL if sql else {})}
    plan = scene.run(kind, plan_only=True, **given)
    result = scene.run(kind, **given)

    scene.assert_each_has_its_own()
    assert plan["target_topics"] == result["target_topics"] == sorted(scene.map.values())
    assert {r["topic"] for r in result["target_ranges"]} == set(scene.map.values())
    assert scene.event(asset).extra["target_ranges"] == result["target_ranges"]
    assert result["records_written"] == 20
    assert scene.spark.requests[-1].transform.topic_map == scene.map


@pytest.mark.long
def test_a_retry_and_a_clear_write_to_each_target_what_it_lacks(scene: Scene) -> None:
    """The job of the first try delivered everything, and its report was lost. Before the clear one target is lost."""
    scene.lose_report(delivery="at_least_once")
    scene.succeed(delivery="at_least_once")
    scene.assert_each_has_its_own()
    scene.recreate(max(scene.map.values()))

    result = scene.clear(delivery="at_least_once")

    assert (result["delivered_before"], result["records_written"]) == (10, 20)
    scene.assert_each_has_its_own()


@pytest.mark.long
def test_a_topic_more_is_no_other_delivery_and_another_target_is_one(scene: Scene, topic: TopicFactory) -> None:
    more, more_target, other = topic(2, suffix="more"), topic(2, suffix="more-v2"), topic(2, suffix="other")
    produce(scene.kafka, more)
    first = scene.clear()

    sources = [scene.orders, scene.payments, more]
    second = scene.clear(topics=sources, topic_map={**scene.map, more: more_target})
    third = scene.clear(topic_map={**scene.map, scene.orders: other})

    assert (second["run_id"], second["delivered_before"]) == (first["run_id"], 20)
    assert third["run_id"] != first["run_id"]
    assert any(f"the target of '{scene.orders}'" in warning for warning in third["warnings"])
    assert [scene.origins(t) for t in (more_target, other)] == [once(more), once(scene.orders)]
    assert scene.origins(scene.map[scene.orders]) == once(scene.orders)


def test_what_is_refused_starts_nothing(scene: Scene, topic: TopicFactory) -> None:
    """Each target is checked for the records that go there."""
    small = topic(1, suffix="small")
    log_append = topic(2, {"message.timestamp.type": "LogAppendTime"}, suffix="log-append")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"topic_map": {"other": "x"}}, "TargetError: topic_map must have a target for each"),
        ({"topic_map": "{{ '[' }}"}, "InvalidInputError: topic_map must be JSON"),
        ({"target_topic": "x"}, "TargetError: .*exactly one of target_topic"),
        *(
            ({"topic_map": {**scene.map, scene.payments: target}, "preserve_partition": True}, f"TargetError: .*{says}")
            for target, says in (
                ("nowhere", "'nowhere' does not exist"),
                (small, f"needs at least 2 partitions in the target topic '{small}'"),
                (scene.orders, f"'{scene.orders}' is also read"),
                (scene.payments, f"'{scene.payments}' is also read"),
                (log_append, f"'{log_append}' has message.timestamp.type"),
            )
        ),
    ]
    for parameters, says in refused:
        with pytest.raises(AirflowFailException, match=rf"^(?s:{says})"):
            scene.run(**parameters)
        scene.tries = 0
    assert (scene.spark.requests, has_submitted_nothing(scene.store)) == ([], True)
