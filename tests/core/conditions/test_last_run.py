"""``since="last_run"``: one value holds the position and what each run found, and never grows without bound."""

from __future__ import annotations

import json

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import ConditionResult
from airflow_provider_kafka_spark.core.conditions.condition import parse_condition
from airflow_provider_kafka_spark.core.conditions.last_run import MAX_RANGES, MAX_RUNS, LastRun, first_of
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.since import parse_since
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    BrokerAuthorizationError,
    ConcurrentRunsError,
    DataLossError,
    ProtocolError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from tests.core.conditions.snapshots import NOW, snapshot, state

ORDERS = Selection(["orders"], None, None)
ORDERS_0 = TopicPartition("orders", 0)


def found(
    start: int, end: int, topic: str = "orders", partitions: int = 1, topic_id: str | None = None
) -> ConditionResult:
    """:param topic_id: of the topic, as far as brokers return it."""
    known = {} if topic_id is None else {"topic_id": topic_id}
    ranges = [
        {"topic": topic, "partition": p, "from_offset": start, "until_offset": end, **known} for p in range(partitions)
    ] * (start < end)
    offsets = {topic: {**{str(p): end for p in range(partitions)}, **known}}
    return ConditionResult(True, "found", ranges, {"offsets": offsets})


def stored(value: LastRun) -> LastRun:
    return LastRun.from_json(json.loads(json.dumps(value.to_json())), "name")


def test_each_run_begins_where_the_last_one_ended_and_finds_the_same_again() -> None:
    state = LastRun()
    assert state.since("earliest", ORDERS) == "earliest"
    for number in range(3):
        state = stored(state.after(f"run-{number}", found(10 * number, 10 * number + 10, topic_id="id")))

    assert state.since("earliest", ORDERS) == {"offsets": {"orders": {"0": 30}}, "source_topic_ids": {"orders": "id"}}
    assert parse_since(state.since("earliest", ORDERS)).to_json() == state.since("earliest", ORDERS)
    again = state.found_by("run-1")
    assert again is not None
    second = found(10, 20, topic_id="id")
    assert (again.value, again.xcoms) == (second.value, second.xcoms)
    assert state.found_by("run-9") is None


@pytest.mark.parametrize("missing_topic", ["fail", "wait"])
def test_the_end_of_a_topic_that_cannot_be_read_is_unknown(missing_topic: str) -> None:
    """All that was in it would be new when it can be read."""
    scope = TopicScope.parse(["orders", "payments"], missing_topic=missing_topic)
    refused = BrokerAuthorizationError("It needs DESCRIBE on topic 'payments'.")

    with pytest.raises(BrokerAuthorizationError, match="payments"):
        LastRun().at_end(snapshot({"orders": [state(0, 20)]}, failures={("topic", "payments"): refused}), scope)


def test_the_end_of_a_topic_that_does_not_exist_is_its_start() -> None:
    """Only where it may be missing: an answer without it may also be one of a broker that has just started."""
    there = snapshot({"orders": [state(0, 20)]})

    fails, waits = (TopicScope.parse(["orders", "later"], missing_topic=what) for what in ("fail", "wait"))

    assert LastRun().at_end(there, waits).offsets == {ORDERS_0: 20}
    with pytest.raises(UnknownTopicError, match="later"):
        LastRun().at_end(there, fails)


def test_what_another_run_has_found_meanwhile_is_not_found_twice() -> None:
    state = LastRun().after("first", found(0, 10, topic_id="id"))

    with pytest.raises(ConcurrentRunsError, match=r"max_active_runs=1"):
        state.after("second", found(5, 12, topic_id="id"))


def test_a_recreated_topic_begins_anew_and_a_topic_that_is_left_out_stays() -> None:
    """Partitions that the new topic lacks are forgotten."""
    state = LastRun().after("first", found(0, 10, partitions=3, topic_id="id"))
    state = state.after("second", found(0, 7, "payments", topic_id="other"))
    state = state.after("third", found(0, 3, topic_id="new"))

    assert state.since("earliest", ORDERS) == {"offsets": {"orders": {"0": 3}}, "source_topic_ids": {"orders": "new"}}
    both = state.since("earliest", Selection(None, "orders|pay.*", None))
    assert parse_since(both).to_json()["offsets"] == {"orders": {"0": 3}, "payments": {"0": 7}}
    assert state.since("earliest", Selection(["another"], None, None)) == "earliest"


def test_a_log_that_was_cut_and_filled_again_is_asked_about() -> None:
    p, topics = TopicPartition("orders", 0), Selection(["orders"], None, None)
    held = snapshot({"orders": [state(0, 20, epoch=4)]}, ids={"orders": "one"})
    after = stored(LastRun().after("first", NewRecords.parse(topics=["orders"], since="earliest").check(held, NOW)))
    since = after.since("earliest", topics)
    condition = NewRecords.parse(topics=["orders"], since=since)
    reached = Reached(p, 20, 4)

    assert condition.query(NOW).reached == {reached}
    assert parse_condition(condition.to_json()) == condition
    filled = snapshot({"orders": [state(0, 25, epoch=5)]}, ids={"orders": "one"}, cut_at={reached: 15})
    with pytest.raises(DataLossError, match=r"orders\[0\] 15 to 20: the log was cut to 15.*it says 20;"):
        condition.check(filled, NOW)
    found = NewRecords.parse(topics=["orders"], since=since, fail_on_data_loss=False).check(filled, NOW)
    assert (found.value[0]["from_offset"], found.epochs) == (15, {p: 5})
    # Those records are of no other run, though their offsets were; but if one has found them since, they are.
    second = after.after("second", found)
    assert second.offsets == {p: 25}
    with pytest.raises(ConcurrentRunsError):
        second.after("third", found)


@pytest.mark.parametrize(("partitions", "runs"), [(1, MAX_RUNS + 5), (200, 5), (2 * MAX_RANGES, 3)])
def test_the_value_is_bounded_and_keeps_the_newest_run(partitions: int, runs: int) -> None:
    state = LastRun()
    for number in range(runs):
        state = state.after(str(number), found(number, number + 1, partitions=partitions))

    assert len(state.runs) == max(1, min(MAX_RUNS, MAX_RANGES // (2 * partitions)))
    assert state.runs[-1].run_id == str(runs - 1)


@pytest.mark.parametrize(
    ("since", "first"),
    [
        ("last_run", "earliest"),
        ({"last_run": "group:billing"}, "group:billing"),
        ({"last_run": {"timestamp": 1_790_000_000_000}}, {"timestamp": 1_790_000_000_000}),
        ('{"last_run": "earliest"}', "earliest"),
        ({"last_run": {"0": 23}}, None),
        ("earliest", None),
        ({"offsets": {"last_run": {"0": 1}}}, None),
    ],
)
def test_forms(since: object, first: object) -> None:
    assert first_of(since) == first


@pytest.mark.parametrize("since", [{"last_run": "last_run"}, {"last_run": "no moment"}, {"last_run": None}])
def test_bad_forms(since: object) -> None:
    with pytest.raises(BoundError):
        first_of(since)


@pytest.mark.parametrize("value", [[], {"version": 3}, {"version": 2, "offsets": {}}])
def test_a_variable_that_somebody_has_changed(value: object) -> None:
    with pytest.raises(ProtocolError, match=r"Correct or delete the variable name"):
        LastRun.from_json(value, "name")
