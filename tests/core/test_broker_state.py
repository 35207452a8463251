from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.errors import InvalidInputError, UnknownTopicError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition


def _cluster(topics: dict[str, int]) -> ClusterState:
    """Topics with so many partitions each."""
    state = PartitionState(0, 10, 10)
    return ClusterState(
        "cluster",
        "kafka_default",
        0,
        {name: TopicState(name, None, dict.fromkeys(range(count), state)) for name, count in topics.items()},
    )


_MALFORMED = [
    pytest.param({}, ["exactly one of topics", "none of them"], id="nothing"),
    pytest.param({"topics": ["a"], "pattern": "a"}, ["got topics and topic_pattern"], id="topics-and-pattern"),
    pytest.param({"pattern": "a", "assign": {"a": [0]}}, ["got topic_pattern and assign"], id="pattern-and-assign"),
    pytest.param({"topics": "orders"}, ["list of names", "['orders']", "'orders'"], id="topics-as-text"),
    pytest.param({"topics": []}, ["list of names", "[]"], id="no-topics"),
    pytest.param({"topics": 5}, ["list of names", "5"], id="topics-as-number"),
    pytest.param({"topics": {"a": [0]}}, ["list of names"], id="topics-as-dict"),
    pytest.param({"topics": ["a", "b", "a"]}, ["got ['a'] twice"], id="topic-twice"),
    pytest.param({"topics": ["a", None]}, ["topic name", "None"], id="topic-null"),
    pytest.param({"topics": ["a,b"]}, ["topic name", "'a,b'"], id="topics-joined-by-a-comma"),
    pytest.param({"topics": ["orders.*"]}, ["topic name", "'orders.*'"], id="pattern-given-as-topic"),
    pytest.param({"pattern": "orders("}, ["topic_pattern", "regular expression", "'orders('"], id="pattern-broken"),
    pytest.param({"pattern": 5}, ["topic_pattern", "5"], id="pattern-as-number"),
    pytest.param({"pattern": "(?!old)orders"}, ["RE2", "no look-ahead"], id="pattern-with-look-ahead"),
    pytest.param({"pattern": "(a)\\1"}, ["RE2", "no back references"], id="pattern-with-back-reference"),
    pytest.param({"pattern": "\ud800"}, ["regular expression"], id="pattern-of-half-a-character"),
    pytest.param({"pattern": "((a{30}){30}){30}"}, ["regular expression"], id="pattern-of-27000-letters"),
    pytest.param({"pattern": "a" * 1_001}, ["at most 1,000 characters", "got 1,001"], id="pattern-too-long"),
    pytest.param({"pattern": b"orders"}, ["topic_pattern", "regular expression"], id="pattern-as-bytes"),
    pytest.param({"assign": {}}, ["assign must map", "{}"], id="assign-empty"),
    pytest.param({"assign": ["a"]}, ["assign must map", "['a']"], id="assign-as-list"),
    pytest.param({"assign": {"a": []}}, ["list partitions", "[]", "'a'"], id="assign-no-partitions"),
    pytest.param({"assign": {"a": 0}}, ["list partitions", "got 0"], id="assign-one-number"),
    pytest.param({"assign": {"a": "0"}}, ["list partitions", "'0'"], id="assign-text"),
    pytest.param({"assign": {"a": ["0"]}}, ["partition must be an integer", "'0'"], id="assign-partition-as-text"),
    pytest.param({"assign": {"a": [-1]}}, ["partition must be an integer", "-1"], id="assign-negative"),
    pytest.param({"assign": {"a": [True]}}, ["partition must be an integer", "bool"], id="assign-boolean"),
    pytest.param({"assign": {"a": [1.0]}}, ["partition must be an integer", "float"], id="assign-float"),
    pytest.param({"assign": {"a": [None]}}, ["partition must be an integer", "None"], id="assign-null"),
    pytest.param({"assign": {"a": [0, 1, 0]}}, ["'a' twice", "[0, 1, 0]"], id="assign-twice"),
    pytest.param({"assign": {"or ders": [0]}}, ["topic name", "'or ders'"], id="assign-no-topic"),
]


@pytest.mark.parametrize(("given", "fragments"), _MALFORMED)
def test_refuses_a_malformed_selection(given: dict[str, Any], fragments: list[str]) -> None:
    """Exactly one well-formed way to name what is read; anything else is one error that shows both."""
    with pytest.raises(InvalidInputError) as error:
        Selection(**given)

    for fragment in fragments:
        assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("orders", ("orders",), id="whole-name-only"),
        pytest.param("orders.*", ("orders", "orders-dlq", "orders.eu"), id="with-a-tail"),
        pytest.param("orders|stock", ("orders", "stock"), id="alternatives-are-whole-too"),
        pytest.param(".*", ("orders", "orders-dlq", "orders.eu", "stock"), id="not-internal-topics"),
        pytest.param("(?i)STOCK", ("stock",), id="flags"),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, expected: tuple[str, ...]) -> None:
    """``orders`` does not take ``orders-dlq``, as Spark's search would, and no pattern takes an internal topic."""
    existing = ["stock", "orders.eu", "orders", "orders-dlq", "__consumer_offsets"]

    assert Selection(pattern=pattern).topic_names(existing) == expected


def test_an_internal_topic_can_be_named() -> None:
    """Only a pattern leaves internal topics out."""
    assert Selection(topics=["__consumer_offsets"]).topic_names(["__consumer_offsets"]) == ("__consumer_offsets",)


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    """It says how patterns match, and what comes close."""
    with pytest.raises(UnknownTopicError) as error:
        Selection(pattern="order").topic_names(["orders", "stock"])

    for fragment in ("'order' matches none of the cluster's 2 topics", "whole", "Did you mean 'orders'?"):
        assert fragment in str(error.value)


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param(Selection(topics=["ordres"]), id="topics"),
        pytest.param(Selection(assign={"ordres": [0]}), id="assign"),
    ],
)
def test_an_unknown_topic_is_an_error(selection: Selection) -> None:
    """It names the topic and what comes close."""
    with pytest.raises(UnknownTopicError) as error:
        selection.topic_names(["orders", "stock"])

    assert "'ordres' does not exist" in str(error.value)
    assert "Did you mean 'orders'?" in str(error.value)


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    """A hint that is no help is left out."""
    with pytest.raises(UnknownTopicError) as error:
        Selection(topics=["payments"]).topic_names(["xyz"])

    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(Selection(topics=["b", "a.x"]), ["a.x[0]", "a.x[1]", "b[0]"], id="topics"),
        pytest.param(Selection(pattern="a.*"), ["a.x[0]", "a.x[1]"], id="pattern"),
        pytest.param(Selection(assign={"b": [0], "a.x": [1]}), ["a.x[1]", "b[0]"], id="assign"),
    ],
)
def test_lists_every_partition_to_read(selection: Selection, expected: list[str]) -> None:
    """All partitions of topics, exactly the assigned ones otherwise; sorted."""
    assert [str(p) for p in selection.partitions(_cluster({"a.x": 2, "b": 1}))] == expected


def test_partitions_are_sorted_by_number() -> None:
    """Partition 10 comes after 9."""
    partitions = Selection(topics=["a"]).partitions(_cluster({"a": 11}))

    assert [p.partition for p in partitions] == list(range(11))


def test_an_assigned_partition_must_exist() -> None:
    """Spark would leave it out in silence; the message names it, the connection and how many there are."""
    with pytest.raises(UnknownTopicError) as error:
        Selection(assign={"a": [0, 2]}).partitions(_cluster({"a": 2}))

    for fragment in ("a[2] does not exist", "'kafka_default'", "2 partitions, numbered from 0"):
        assert fragment in str(error.value)


def test_a_topic_that_vanished_is_an_error() -> None:
    """A topic that was there when names were listed, and is not in the state, is named."""
    with pytest.raises(UnknownTopicError) as error:
        _cluster({"a": 1}).partition(TopicPartition("gone", 0))

    assert "'gone' does not exist" in str(error.value)
    assert "'kafka_default'" in str(error.value)


def test_a_pattern_takes_time_linear_in_a_name() -> None:
    """With Python's own engine each further letter doubles the time: 26 take 13 seconds, 200 do not end."""
    started = time.monotonic()

    assert Selection(pattern="(a+)+-orders").matching(["a" * 200, "aa-orders"]) == {"aa-orders"}

    assert time.monotonic() - started < 1


def test_many_topics_are_checked_in_linear_time() -> None:
    """20,000 names take a fraction of a second, whether they are right, given twice, or none of them matches."""
    names = [f"team-orders-number-{i:05d}" for i in range(20_000)]
    started = time.monotonic()

    Selection(topics=names)
    with pytest.raises(InvalidInputError) as error:
        Selection(topics=[*names, *names])
    with pytest.raises(UnknownTopicError):
        Selection(pattern="team-orders-numbr-.*").topic_names(names)

    assert len(str(error.value)) < 400
    assert time.monotonic() - started < 1
