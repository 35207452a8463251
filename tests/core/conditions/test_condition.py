"""What holds for every rule that a sensor waits for, for the topics that it looks at, and for what it is shown."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.condition import parse_condition
from airflow_provider_kafka_spark.core.conditions.group_lag import GroupLag
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.conditions.timestamp_reached import TimestampReached
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    BrokerAuthorizationError,
    CheckpointError,
    InvalidInputError,
    OptionError,
    ProtocolError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from tests.core.conditions.snapshots import NOW, snapshot, state
from tests.core.refusals import refuses

_EVERY = [
    pytest.param(lambda **more: NewRecords.parse(since="earliest", **more), id="new-records"),
    pytest.param(lambda **more: TimestampReached.parse(timestamp=NOW, **more), id="timestamp-reached"),
    pytest.param(lambda **more: GroupLag.parse(group_id="copy", max_lag=5, **more), id="group-lag"),
]


@pytest.mark.parametrize("parse", _EVERY)
def test_a_missing_topic_is_an_error_or_waited_for(parse: Any) -> None:
    held = snapshot({"orders": [state(0, 20)]}, committed={"copy": {}})

    with pytest.raises(UnknownTopicError, match=r"'order' does not exist.*'orders'.*missing_topic='wait'"):
        parse(topics=["order"]).check(held, NOW)
    result = parse(topics=["order"], missing_topic="wait").check(held, NOW)
    assert not result.met
    assert "'order'" in result.text


_GOOD_NEW = {"topics": ["orders"], "since": "earliest"}
_GOOD_REACHED = {"topics": ["orders"], "timestamp": NOW}
_GOOD_LAG = {"topics": ["orders"], "group_id": "copy", "max_lag": 0}


@pytest.mark.parametrize(
    ("kind", "parameters", "error", "fragment"),
    [
        pytest.param(NewRecords, {**_GOOD_NEW, "topic_pattern": "a"}, InvalidInputError, "exactly one", id="both"),
        pytest.param(NewRecords, {"since": "earliest"}, InvalidInputError, "got none", id="neither"),
        pytest.param(NewRecords, {**_GOOD_NEW, "topics": "orders"}, InvalidInputError, "list of names", id="text"),
        pytest.param(NewRecords, {**_GOOD_NEW, "since": None}, BoundError, "since must be", id="no-since"),
        pytest.param(NewRecords, {**_GOOD_NEW, "min_records": 0}, OptionError, "at least 1; got 0", id="min-0"),
        pytest.param(NewRecords, {**_GOOD_NEW, "max_wait_for_min": 0}, OptionError, "max_wait_for_min", id="wait-0"),
        pytest.param(NewRecords, {**_GOOD_NEW, "isolation_level": "x"}, OptionError, "isolation_level", id="isolation"),
        pytest.param(NewRecords, {**_GOOD_NEW, "missing_topic": "x"}, InvalidInputError, "missing_topic", id="missing"),
        pytest.param(TimestampReached, {**_GOOD_REACHED, "idle_after": 0}, OptionError, "idle_after", id="idle-0"),
        pytest.param(
            TimestampReached, {**_GOOD_REACHED, "timestamp": "2026-11-20T12:00"}, BoundError, "time zone", id="naive",
        ),
        pytest.param(GroupLag, {**_GOOD_LAG, "max_lag": -1}, OptionError, "at least 0; got -1", id="lag-negative"),
        pytest.param(GroupLag, {**_GOOD_LAG, "group_id": " "}, InvalidInputError, "group_id", id="group-blank"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be_right(kind: Any, parameters: Any, error: type[Exception], fragment: str) -> None:
    with refuses(error, fragment):
        kind.parse(**parameters)


_JSON_FORMS = [
    (
        NewRecords.parse(**_GOOD_NEW, min_records="7", max_wait_for_min=2.5),
        {"kind": "new_records", "topic_pattern": None, "since": {"offsets": "earliest"}, "min_records": 7,
         "max_wait_for_min": 2.5, "fail_on_data_loss": True},
    ),
    (
        NewRecords.parse(topic_pattern="a.*", since="group:g", fail_on_data_loss=False, missing_topic="wait"),
        {"kind": "new_records", "topics": None, "topic_pattern": "a.*", "since": {"group_id": "g"}, "min_records": 1,
         "max_wait_for_min": None, "fail_on_data_loss": False, "missing_topic": "wait"},
    ),
    (
        TimestampReached.parse(**_GOOD_REACHED, idle_after=timedelta(minutes=1)),
        {"kind": "timestamp_reached", "timestamp": NOW, "idle_after": 60.0},
    ),
    (
        GroupLag.parse(**_GOOD_LAG, isolation_level="read_uncommitted", per_partition=True),
        {"kind": "group_lag", "group_id": "copy", "max_lag": 0, "isolation_level": "read_uncommitted",
         "per_partition": True},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "own"), _JSON_FORMS, ids=lambda value: type(value).__name__)
def test_its_json_form_is_that_of_earlier_versions(condition: Any, own: Any) -> None:
    """Tasks that were deferred before an upgrade wait in the triggerer after it."""
    common = {"topics": ["orders"], "isolation_level": "read_committed", "missing_topic": "fail"}

    assert condition.to_json() == {**common, **own}
    assert parse_condition(json.loads(json.dumps(condition.to_json()))) == condition


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "other"},
        {"kind": ["a"]},
        {"kind": "group_lag", "colour": "red"},
        {"kind": "group_lag", **_GOOD_LAG, "topic_pattern": "a.*"},
        {"kind": "timestamp_reached", **_GOOD_REACHED, "topic_pattern": "a.*"},
        {"kind": "timestamp_reached", **_GOOD_REACHED, "fail_on_data_loss": True},
    ],
)
def test_refuses_a_condition_of_another_version(value: Any) -> None:
    with pytest.raises(ProtocolError, match="upgraded together"):
        parse_condition(value)


def test_equal_sensors_ask_the_same() -> None:
    """So that a thousand of them are one question, within a second too."""
    one, other = (
        NewRecords.parse(topics=topics, since="earliest", max_wait_for_min=60) for topics in (["a", "b"], ["b", "a"])
    )

    assert one.query(NOW) == other.query(NOW + 999)


def test_a_hidden_topic_is_not_taken_for_a_missing_one() -> None:
    held = snapshot({}, failures={("topic", "hidden"): BrokerAuthorizationError("no")})

    assert TopicScope.parse(["hidden"], missing_topic="wait").present_topics(held) == ("hidden",)
    assert isinstance(TopicScope.parse(["missing"], missing_topic="wait").present_topics(held), str)


def test_partitions_are_those_of_the_named_topics_in_order() -> None:
    held = snapshot({"b": [state(0, 1)], "a": [state(0, 2), state(0, 3)], "c": [state(0, 4)]})

    assert [str(p) for p in held.partitions(["b", "a"])] == ["a[0]", "a[1]", "b[0]"]
    with pytest.raises(UnknownTopicError, match="'d'"):
        held.partitions(["d"])


def test_a_failure_gathers_no_tracebacks_of_those_who_hear_of_it() -> None:
    failure = BrokerAuthorizationError("no")
    held = snapshot({}, failures={("group", "copy"): failure})

    depths = []
    for _ in range(3):
        with pytest.raises(BrokerAuthorizationError) as raised:
            held.group("copy")
        depths.append(len(raised.traceback))

    assert depths[0] == depths[-1]


def test_a_checkpoint_is_added_or_its_failure() -> None:
    held, position = snapshot({"orders": [state(0, 1)]}), Position({TopicPartition("orders", 0): 1})

    assert held.with_checkpoint("/c", position).checkpoint("/c") == position
    with pytest.raises(CheckpointError, match="damaged"):
        held.with_checkpoint("/c", CheckpointError("damaged")).checkpoint("/c")
