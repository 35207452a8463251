"""Planners agree on a cut, whatever their requests to Airflow meet; and cuts of deleted records are forgotten."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from airflow_provider_kafka_spark.state.window_cuts import WindowCuts
from tests.airflow_fakes import Variables, use_variables

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
ONE, TWO, THREE = 1_000, 2_000, 3_000
CONTEXT = {"ti": SimpleNamespace(dag_id="dag")}


LogCuts = Callable[[Collection[Reached]], Mapping[Reached, int]]


def no_cuts(_: Collection[Reached]) -> dict[Reached, int]:
    return {}


def cluster(first_at: Mapping[tuple[TopicPartition, int], int], log_start: int = 0, epoch: int = 5) -> ClusterState:
    """A compacted topic: no answer is settled."""
    partitions = {i: PartitionState(log_start, 100, 100, epoch) for i in (0, 1)}
    topic = TopicState("orders", "a", partitions, {"cleanup.policy": "compact,delete"})
    return ClusterState("c", "kafka_default", 0, {"orders": topic}, first_at)


def cuts(
    partitions: Sequence[TopicPartition],
    log_start: int = 0,
    *,
    epoch: int = 5,
    log_cuts: LogCuts = no_cuts,
    **moments: int,
) -> dict[int, int]:
    """What a planner decides for the first partition, by moment.

    :param epoch: of the leaders.
    :param log_cuts: what the brokers say.
    :param moments: what it has found in each partition, such as ``at_1000=10``.
    """
    found = {int(at[3:]): offset for at, offset in moments.items()}
    state = cluster({(p, at): offset for at, offset in found.items() for p in partitions}, log_start, epoch)
    decided = WindowCuts(CONTEXT, "copy", "orders", log_cuts).decide(state, partitions, sorted(found))
    return {at: decided.cuts[P, at] for at in found}


def keep_slowly(monkeypatch: pytest.MonkeyPatch, delays: Mapping[str, float], settling_seconds: float) -> None:
    """Each planner's first request to keep a cut waits for so long, by the name of its thread."""

    class SlowVariables(Variables):
        def set(self, key: str, value: str, description: str | None = None) -> None:
            time.sleep(delays.get(threading.current_thread().name, 0))
            super().set(key, value, description)

    use_variables(monkeypatch, SlowVariables(), settling_seconds)


@pytest.mark.parametrize("delays", [{"a": 0.2}, {"a": 0.1, "b": 0.3}], ids=str)
def test_two_that_decide_a_cut_at_once_use_the_same_one(
    monkeypatch: pytest.MonkeyPatch, delays: Mapping[str, float]
) -> None:
    """One window ends there, the other begins there; between their searches the log was compacted."""
    keep_slowly(monkeypatch, delays, settling_seconds=1.0)
    decided: dict[str, dict[int, int]] = {}

    def plan(name: str, **moments: int) -> None:
        decided[name] = cuts([P], **moments)

    planners = [
        threading.Thread(target=plan, name="a", args=("a",), kwargs={"at_1000": 10, "at_2000": 20}),
        threading.Thread(target=plan, name="b", args=("b",), kwargs={"at_2000": 25, "at_3000": 30}),
    ]
    for planner in planners:
        planner.start()
    for planner in planners:
        planner.join(30)

    assert decided["a"][TWO] == decided["b"][TWO]


def test_one_that_took_longer_than_the_others_wait_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep_slowly(monkeypatch, {threading.current_thread().name: 0.1}, settling_seconds=0.05)

    with caplog.at_level(logging.WARNING):
        cuts([P], at_1000=10)

    assert "may use another cut" in caplog.text


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    return use_variables(monkeypatch, Variables())


@pytest.mark.parametrize(
    ("log_start", "left"),
    [
        (0, [1, 2, 3, 4]),
        # Records of the window between the first two are there.
        (19, [1, 2, 3, 4]),
        (20, [2, 3, 4]),
        (35, [3, 4]),
        (100, [4]),
    ],
)
def test_cuts_before_the_log_are_forgotten_once_no_window_has_records_there(
    variables: Variables, log_start: int, left: list[int]
) -> None:
    cuts([P, Q], at_1000=10, at_2000=20, at_3000=30)
    cuts([P, Q], log_start, at_4000=100)
    assert sorted(int(name.rpartition(":")[2]) // 1000 for name in variables.values) == left


def test_a_cut_is_not_forgotten_for_a_partition_that_the_next_one_does_not_know(variables: Variables) -> None:
    cuts([P], at_2000=20)
    cuts([P, Q], at_1000=10)
    cuts([P], 50, at_4000=100)
    assert len(variables.values) == 3


def test_cuts_of_another_topic_of_this_name_stay(variables: Variables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them is there now may be a matter of the connection."""
    cuts([P], at_1000=10, at_2000=20)
    other: Any = cluster({(P, THREE): 100}, 100)
    object.__setattr__(other.topics["orders"], "topic_id", "b")
    WindowCuts(CONTEXT, "copy", "orders", no_cuts).decide(other, [P], [THREE])
    assert len(variables.values) == 3


def test_a_log_that_was_cut_is_asked_about_and_remembered(variables: Variables) -> None:
    """The brokers may take their time: what was kept meanwhile counts. Once they forget the epoch, the cut stays."""
    cuts([P], at_1000=80)
    asked: list[Reached] = []

    def slowly(reached: Collection[Reached]) -> dict[Reached, int]:
        asked.extend(reached)
        cuts([P], at_2000=85, at_3000=100, epoch=6)
        return {Reached(P, 80, 5): 70}

    assert cuts([P], at_1000=75, at_2000=95, epoch=6, log_cuts=slowly) == {ONE: 70, TWO: 85}
    assert asked == [Reached(P, 80, 5)]
    assert cuts([P], at_1000=75, at_2000=95, epoch=7) == {ONE: 70, TWO: 85}
    assert len(variables.values) == 3
