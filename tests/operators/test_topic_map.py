"""What ``topic_map`` refuses. That each source has a target of its own is with the maps of a stream."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import CopyTask, NewTask, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def scene(new_task: NewTask, topic: TopicFactory) -> Any:
    found = new_task(target_topic=None)
    found.sources = [topic(2, suffix="orders"), topic(2, suffix="payments")]
    for name in found.sources:
        found.kafka.produce(name, numbered(0, 10))
    found.given = {"topic_map": {name: topic(n, suffix="v2") for name, n in zip(found.sources, (3, 2), strict=True)}}
    return found


def test_what_is_refused_starts_nothing(scene: CopyTask, topic: TopicFactory) -> None:
    """Each target is checked for the records that go there."""
    orders, payments = scene.sources
    targets = scene.given["topic_map"]
    small = topic(1, suffix="small")
    log_append = topic(2, {"message.timestamp.type": "LogAppendTime"}, suffix="log-append")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"topic_map": {"other": "x"}}, "TargetError: topic_map must have a target for each"),
        ({"topic_map": "{{ '[' }}"}, "InvalidInputError: topic_map must be JSON"),
        ({"target_topic": "x"}, "TargetError: .*exactly one of target_topic"),
        *(
            ({"topic_map": {**targets, payments: target}, "preserve_partition": True}, f"TargetError: .*{says}")
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
