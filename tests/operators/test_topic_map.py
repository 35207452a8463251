"""Promises of ``topic_map``: each source topic goes to a target of its own, in one task."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.offsets.provenance import Provenance
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import KINDS, Batch, CopyTask, NewTask, Replay, Stream, covering, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Scene(CopyTask):
    """Two sources with ten records each, and a target for each."""

    @property
    def map(self) -> dict[str, str]:
        found: dict[str, str] = self.given["topic_map"]
        return found

    def assert_each_has_its_own(self) -> None:
        for source, target in self.map.items():
            origins = [Provenance.parse(r.headers[-1][1] or b"") for r in self.kafka.consume(target)]
            expected = Counter((source, p, o) for p in range(2) for o in range(5))
            assert Counter((origin.topic, origin.partition, origin.offset) for origin in origins) == expected


@pytest.fixture
def scene(new_task: NewTask, topic: TopicFactory) -> Any:
    found = new_task(Scene, target_topic=None)
    found.sources = [topic(2, suffix="orders"), topic(2, suffix="payments")]
    for name in found.sources:
        found.kafka.produce(name, numbered(0, 10))
    found.given = {"topic_map": {name: topic(n, suffix="v2") for name, n in zip(found.sources, (3, 2), strict=True)}}
    return found


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


def test_what_is_refused_starts_nothing(scene: Scene, topic: TopicFactory) -> None:
    """Each target is checked for the records that go there."""
    orders, payments = scene.sources
    small = topic(1, suffix="small")
    log_append = topic(2, {"message.timestamp.type": "LogAppendTime"}, suffix="log-append")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"topic_map": {"other": "x"}}, "TargetError: topic_map must have a target for each"),
        ({"topic_map": "{{ '[' }}"}, "InvalidInputError: topic_map must be JSON"),
        ({"target_topic": "x"}, "TargetError: .*exactly one of target_topic"),
        *(
            ({"topic_map": {**scene.map, payments: target}, "preserve_partition": True}, f"TargetError: .*{says}")
            for target, says in (
                ("nowhere", "'nowhere' does not exist"),
                (small, f"needs at least 2 partitions in the target topic '{small}'"),
                (orders, f"'{orders}' is also read"),
                (payments, f"'{payments}' is also read"),
                (log_append, f"'{log_append}' has message.timestamp.type"),
            )
        ),
    ]
    for parameters, says in refused:
        with pytest.raises(AirflowFailException, match=rf"^(?s:{says})"):
            scene.run(**parameters)
        scene.tries = 0
    assert (scene.spark.requests, has_submitted_nothing(scene.store)) == ([], True)
