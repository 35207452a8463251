"""Promises of a run's identity: what another deployment or another item of a mapped task delivers is not this run's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.settings import DEPLOYMENT
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import CopyTask, Replay, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Make = Callable[..., CopyTask]


@pytest.fixture
def make(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Make:
    """A task that reads a topic of 30 records."""
    source = topic(suffix="source")
    kafka.produce(source, [Record(value=b"%d" % i) for i in range(30)])

    def make(target: str, **fields: Any) -> CopyTask:
        given = {"target_topic": target, "provenance": "segments", "preserve_partition": True}
        return CopyTask(kafka, in_process_spark, tmp_path, [source], given, **fields)

    return make


@pytest.mark.parametrize("names", [("production", "staging"), pytest.param(("same", "same"), id="one-name")])
def test_two_deployments_with_the_same_names(
    topic: TopicFactory, make: Make, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    """One has written to its target when the other one begins: its progress stays. With one name for both this is so
    as long as they have different targets, and do not run at once.
    """
    tasks = {i: make(topic(suffix=f"target-{i}")) for i in range(2)}

    def of(i: int) -> CopyTask:
        monkeypatch.setenv(DEPLOYMENT.variable, names[i])
        return tasks[i]

    for i in tasks:
        of(i).lose_report()
    results = [of(i).succeed() for i in tasks]

    assert [task.values() for task in tasks.values()] == [once(0, 30)] * 2
    assert [(result["delivered_before"], result["duplicates"]) for result in results] == [(30, 0)] * 2
    assert [result["warnings"] for result in results] == [[], []]


def test_a_list_that_has_changed_before_a_clear(topic: TopicFactory, make: Make) -> None:
    """It had grown at its front: the items that moved are refused by name, or found where they were; so nothing is
    written twice. One at the end is new.
    """
    target = topic(suffix="target")
    with DAG("dag") as dag:
        Replay.partial(task_id="task").expand(offset_ranges=[[], []])
    tasks = [make(target, map_index=i, dag=dag) for i in range(4)]

    def ranges(start: int) -> list[str]:
        return [f"{tasks[0].source}:0:{start}:{start + 10}"]

    first = [tasks[i].clear(Replay, topics=None, offset_ranges=ranges(10 * i)) for i in range(2)]
    for task in tasks:
        task.clears = 1
    for task, start in zip(tasks, (20, 0), strict=False):
        with pytest.raises(AirflowFailException, match=r"The item at a map index must be .*:0:10.*; got .*"):
            task.run(Replay, topics=None, offset_ranges=ranges(start))
    moved = tasks[2].succeed(Replay, topics=None, offset_ranges=ranges(10))
    new = tasks[3].succeed(Replay, topics=None, offset_ranges=ranges(20))

    assert tasks[0].values() == once(0, 30)
    assert moved["run_id"] == first[1]["run_id"]
    assert any("had another map index before the clear" in warning for warning in moved["warnings"])
    assert new["warnings"] == []
