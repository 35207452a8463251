from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import InvalidInputError, UnknownTopicError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from tests.core.refusals import refuses


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
    pytest.param({"topics": ["a", "b", "a"]}, ["got ['a'] twice"], id="topic-twice"),
    pytest.param({"topics": ["orders.*"]}, ["topic name", "'orders.*'"], id="pattern-given-as-topic"),
    pytest.param({"pattern": "orders("}, ["topic_pattern", "regular expression", "'orders('"], id="pattern-broken"),
    pytest.param({"pattern": 5}, ["topic_pattern", "5"], id="pattern-as-number"),
    pytest.param({"pattern": "(?!old)orders"}, ["RE2", "no look-ahead"], id="pattern-with-look-ahead"),
    pytest.param({"pattern": "((a{30}){30}){30}"}, ["regular expression"], id="pattern-of-27000-letters"),
    pytest.param({"pattern": "a" * 1_001}, ["at most 1,000 characters", "got 1,001"], id="pattern-too-long"),
    pytest.param({"assign": {}}, ["assign must map", "{}"], id="assign-empty"),
    pytest.param({"assign": {"a": []}}, ["list partitions", "[]", "'a'"], id="assign-no-partitions"),
    pytest.param({"assign": {"a": "0"}}, ["list partitions", "'0'"], id="assign-text"),
    pytest.param({"assign": {"a": ["0"]}}, ["partition must be an integer", "'0'"], id="assign-partition-as-text"),
    pytest.param({"assign": {"a": [0, 1, 0]}}, ["'a' twice", "[0, 1, 0]"], id="assign-twice"),
    pytest.param({"assign": {"or ders": [0]}}, ["topic name", "'or ders'"], id="assign-no-topic"),
]


@pytest.mark.parametrize(("given", "fragments"), _MALFORMED)
def test_refuses_a_malformed_selection(given: dict[str, Any], fragments: list[str]) -> None:
    with refuses(InvalidInputError, *fragments):
        Selection(**given)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("orders", ("orders",), id="whole-name-only"),
        pytest.param("orders|stock", ("orders", "stock"), id="alternatives-are-whole-too"),
        pytest.param(".*", ("orders", "orders-dlq", "orders.eu", "stock"), id="not-internal-topics"),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, expected: tuple[str, ...]) -> None:
    """``orders`` does not take ``orders-dlq``, as Spark's search would, and no pattern takes an internal topic."""
    existing = ["stock", "orders.eu", "orders", "orders-dlq", "__consumer_offsets"]

    assert Selection(pattern=pattern).topic_names(existing) == expected


@pytest.mark.parametrize(
    ("selection", "fragments"),
    [
        pytest.param(Selection(assign={"ordres": [0]}), ["'ordres' does not", "Did you mean 'orders'?"], id="assign"),
        pytest.param(
            Selection(pattern="order"),
            ["'order' matches none of the cluster's 2 topics", "whole", "Did you mean 'orders'?"],
            id="pattern",
        ),
    ],
)
def test_an_unknown_topic_is_an_error(selection: Selection, fragments: list[str]) -> None:
    with refuses(UnknownTopicError, *fragments):
        selection.topic_names(["orders", "stock"])
    with pytest.raises(UnknownTopicError, match=r"^((?!Did you mean).)*$"):
        selection.topic_names(["xyz"])


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(Selection(topics=["b", "a.x"]), ["a.x[0]", "a.x[1]", "b[0]"], id="topics"),
        pytest.param(Selection(topics=["many"]), [f"many[{i}]" for i in range(11)], id="by-number"),
        pytest.param(Selection(pattern="a.*"), ["a.x[0]", "a.x[1]"], id="pattern"),
        pytest.param(Selection(assign={"b": [0], "a.x": [1]}), ["a.x[1]", "b[0]"], id="assign"),
    ],
)
def test_lists_every_partition_to_read(selection: Selection, expected: list[str]) -> None:
    assert [str(p) for p in selection.partitions(_cluster({"a.x": 2, "b": 1, "many": 11}))] == expected


def test_a_partition_that_is_read_must_exist() -> None:
    """Spark would leave it out in silence; the message names it, the connection and how many there are."""
    with refuses(UnknownTopicError, "a[2] does not exist", "'kafka_default'", "2 partitions, numbered from 0"):
        Selection(assign={"a": [0, 2]}).partitions(_cluster({"a": 2}))
    # There when names were listed, and not in the state.
    with refuses(UnknownTopicError, "'gone' does not exist", "'kafka_default'"):
        _cluster({"a": 1}).partition(TopicPartition("gone", 0))


def test_a_pattern_takes_time_linear_in_a_name() -> None:
    """With Python's own engine each further letter doubles the time: 26 take 13 seconds, 200 do not end."""
    started = time.process_time()

    assert Selection(pattern="(a+)+-orders").matching(["a" * 200, "aa-orders"]) == {"aa-orders"}

    assert time.process_time() - started < 1


def test_many_topics_are_checked_in_linear_time() -> None:
    names = [f"team-orders-number-{i:05d}" for i in range(20_000)]
    started = time.process_time()

    Selection(topics=names)
    with pytest.raises(InvalidInputError) as error:
        Selection(topics=[*names, *names])
    with pytest.raises(UnknownTopicError):
        Selection(pattern="team-orders-numbr-.*").topic_names(names)

    assert len(str(error.value)) < 400
    assert time.process_time() - started < 1
