"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.new_records`, on snapshots without a broker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    BrokerAuthorizationError,
    BrokerUnavailableError,
    CheckpointError,
    DataLossError,
    PlanError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from tests.core.conditions.snapshots import NOW, snapshot, state
from tests.core.refusals import refuses

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ranges(result: ConditionResult) -> list[str]:
    return ["{topic}:{partition}:{from_offset}:{until_offset}".format(**r) for r in result.value]


def new(held: BrokerSnapshot, **parameters: Any) -> ConditionResult:
    return NewRecords.parse(**{"topics": ["orders"], **parameters}).check(held, NOW)


def test_a_range_says_of_which_topic_it_is() -> None:
    """A later position by it is compared too. Without ids of topics it says of which cluster it is."""
    held = {"orders": [state(0, 20)]}
    value = new(snapshot(held, ids={"orders": "old"}), since="earliest").value

    assert [r["topic_id"] for r in value] == ["old"]
    assert [r["cluster_id"] for r in new(snapshot(held), since="earliest").value] == ["cluster"]
    with pytest.raises(DataLossError, match=r"deleted and recreated \(id old, now new\)"):
        new(snapshot({"orders": [state(0, 30)]}, ids={"orders": "new"}), since=value)


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param({"orders": {"0": 10, "1": 30}}, ["orders:0:10:20"], id="offsets"),
        pytest.param({"orders": {"0": -2, "1": 30}}, ["orders:0:0:20"], id="minus-two-is-earliest"),
        pytest.param(
            "group:copy", ["orders:0:19:20", "orders:1:5:30"],
            id="a-partition-without-commit-counts-from-its-beginning",
        ),
        pytest.param("/checkpoint", ["orders:1:7:30"], id="checkpoint"),
    ],
)  # fmt: skip
def test_new_records_are_those_behind_since(since: object, expected: list[str]) -> None:
    # A group may know more than is waited for.
    more = {TopicPartition("other", 0): 99, TopicPartition("orders", 7): 5}
    held = snapshot(
        {"orders": [state(0, 20), state(5, 30)]},
        committed={"copy": {ORDERS_0: 19, **more}},
        finished={"/checkpoint": Position({ORDERS_0: 20, ORDERS_1: 7})},
    )

    result = new(held, since=since)

    assert result.met
    assert ranges(result) == expected
    # The end of every partition, idle ones too, so that it can be the next since.
    assert result.xcoms == {"offsets": {"orders": {"0": 20, "1": 30}}}


def test_read_committed_ends_before_an_open_transaction() -> None:
    held = snapshot({"orders": [state(0, 20, stable=12)]})

    assert ranges(new(held, since={"orders": {"0": 10}})) == ["orders:0:10:12"]
    assert ranges(new(held, since={"orders": {"0": 10}}, isolation_level="read_uncommitted")) == ["orders:0:10:20"]
    assert not new(held, since={"orders": {"0": 12}}).met
    # A reader of uncommitted records may be ahead of that.
    behind = new(held, since={"orders": {"0": 15}})
    assert not behind.met


@pytest.mark.parametrize(("least", "met"), [(25, True), (26, False)])
def test_min_records_counts_all_partitions(least: int, met: bool) -> None:
    held = snapshot({"orders": [state(0, 20), state(5, 10)]})

    assert new(held, since="earliest", min_records=least).met is met


@pytest.mark.parametrize(
    ("first_younger", "met"),
    [
        pytest.param(10, False, id="the-first-new-record-is-younger"),
        pytest.param(11, True, id="the-first-new-record-is-older"),
        pytest.param(None, True, id="all-are-older"),
    ],
)
def test_fewer_are_enough_when_the_first_has_waited(first_younger: int | None, met: bool) -> None:
    """The broker returns the first record that is younger than the longest wait."""
    cutoff = NOW - 60_000
    held = snapshot({"orders": [state(0, 12)]}, first_at={("orders", 0, cutoff): first_younger})
    condition = NewRecords.parse(
        topics=["orders"], since={"orders": {"0": 10}}, min_records=100, max_wait_for_min=timedelta(minutes=1)
    )

    assert cutoff in condition.query(NOW).timestamps
    assert condition.check(held, NOW).met is met
    # Nothing new is never enough.
    assert not new(held, since={"orders": {"0": 12}}, max_wait_for_min=60).met


@pytest.mark.parametrize(
    ("since", "name"),
    [
        ({"orders": {"0": 4}}, "it says 4"),
        ("/checkpoint", "checkpoint '/checkpoint'"),
    ],
)
def test_offsets_that_the_log_does_not_hold(since: object, name: str) -> None:
    finished = {"/checkpoint": Position({ORDERS_0: 4})}
    aged, short = (snapshot({"orders": [s]}, finished=finished) for s in (state(10, 20), state(0, 3)))

    with refuses(DataLossError, "4 to 10", "fail_on_data_loss=False"):
        new(aged, since=since)
    permitted = new(aged, since=since, fail_on_data_loss=False)
    assert ranges(permitted) == ["orders:0:10:20"]
    assert permitted.warnings == ("orders[0] 4 to 10 is missing: aged out: the log now starts at 10",)
    with refuses(PlanError, "orders[0], which ends at 3", name, "kafka_default"):
        new(short, since=since)


@pytest.mark.parametrize(
    "since",
    [
        pytest.param("/checkpoint", id="checkpoint"),
        pytest.param(
            {"ranges": [{"topic": "orders", "partition": p, "from_offset": 0, "until_offset": 4} for p in (0, 2)],
             "source_topic_ids": {"orders": "old"}}, id="result",
        ),
    ],
)  # fmt: skip
def test_offsets_of_a_topic_that_was_recreated_do_not_apply(since: object) -> None:
    """Its records before the old offset are new too; and the old topic may have had more partitions."""
    finished = {"/checkpoint": Position({ORDERS_0: 4, TopicPartition("orders", 2): 4}, {"orders": "old"})}
    topics = {"orders": [state(0, 20), state(0, 3)]}
    recreated = snapshot(topics, ids={"orders": "new"}, finished=finished)

    with pytest.raises(DataLossError, match=r"deleted and recreated \(id old, now new\), and since is offset 4"):
        new(recreated, since=since)
    permitted = new(recreated, since=since, fail_on_data_loss=False)
    assert ranges(permitted) == ["orders:0:0:20", "orders:1:0:3"]
    assert len(permitted.warnings) == 2
    same = snapshot({"orders": [state(0, 20), state(0, 3), state(0, 4)]}, ids={"orders": "old"}, finished=finished)
    assert ranges(new(same, since=since)) == ["orders:0:4:20", "orders:1:0:3"]
    # A broker that returns no ids.
    unknown = snapshot({"orders": [state(0, 20), state(0, 3), state(0, 4)]}, finished=finished)
    assert ranges(new(unknown, since=since)) == ["orders:0:4:20", "orders:1:0:3"]


def test_since_that_names_an_unknown_partition_is_an_error() -> None:
    with pytest.raises(UnknownTopicError, match="orders\\[7\\]"):
        new(snapshot({"orders": [state(0, 20)]}), since={"orders": {"7": 1}})
    with pytest.raises(BoundError, match="payments is not among orders"):
        new(snapshot({"orders": [state(0, 20)]}), since={"payments": {"0": 1}})


def test_a_topic_of_a_pattern_that_is_not_there_any_more() -> None:
    """It does not end the wait for the others; a named one does, as one that the pattern does not match."""
    held = snapshot({"orders-eu": [state(0, 20)]})
    since = {"offsets": {"orders-eu": {"0": 5}, "orders-us": {"0": 7, "1": 7}}}

    found = new(held, topics=None, topic_pattern="orders-.*", since=since)
    assert ranges(found) == ["orders-eu:0:5:20"]
    assert found.warnings[0].startswith("The topic 'orders-us' of since is not there")
    with pytest.raises(UnknownTopicError, match="orders-us"):
        new(held, topics=["orders-eu", "orders-us"], since=since)
    with pytest.raises(UnknownTopicError, match=r"payments\[0\]"):
        new(held, topics=None, topic_pattern="orders-.*", since={"payments": {"0": 1}})


def test_what_the_same_topic_lacks() -> None:
    """A log that is shorter was cut, and brokers that know fewer partitions are asked again."""
    since = {"offsets": {"orders": {"0": 10, "1": 10}}, "source_topic_ids": {"orders": "one"}}
    cut, fewer = (
        snapshot({"orders": [state(0, end) for end in ends]}, ids={"orders": "one"}) for ends in ([4, 15], [15])
    )

    with refuses(DataLossError, "orders[0] 4 to 10", "the log was cut to 4", "it says 10;"):
        new(cut, since=since)
    assert ranges(new(cut, since=since, fail_on_data_loss=False)) == ["orders:1:10:15"]
    with refuses(BrokerUnavailableError, "orders[1] is not among the 1", "has the id of before"):
        new(fewer, since=since)


def test_what_failed_for_one_group_fails_only_who_asks_about_it() -> None:
    held = snapshot(
        {"orders": [state(0, 20)], "hidden": []},
        committed={"good": {}},
        failures={
            ("group", "bad"): BrokerAuthorizationError("no"),
            ("topic", "hidden"): BrokerAuthorizationError("no topic"),
            ("checkpoint", "/c"): CheckpointError("half a file"),
        },
    )

    assert new(held, since="group:good").met
    with pytest.raises(BrokerAuthorizationError):
        new(held, since="group:bad")
    with pytest.raises(CheckpointError, match="half a file"):
        new(held, since="/c")
    with pytest.raises(BrokerAuthorizationError, match="no topic"):
        new(held, topics=["hidden"], since="earliest")


def test_a_pattern_that_matches_nothing_is_an_error_or_waited_for() -> None:
    held = snapshot({"orders-eu": [state(0, 3)]})

    assert ranges(new(held, topics=None, topic_pattern="orders-.*", since="earliest")) == ["orders-eu:0:0:3"]
    with pytest.raises(UnknownTopicError, match="matches none"):
        new(held, topics=None, topic_pattern="orders", since="earliest")
    assert not new(held, topics=None, topic_pattern="orders", since="earliest", missing_topic="wait").met
