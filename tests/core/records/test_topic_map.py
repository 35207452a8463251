"""Promises of :mod:`~airflow_provider_kafka_spark.core.records.topic_map`."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.records.topic_map import MAX_TOPICS, check_topic_map, mapped


def test_a_map_is_sorted_and_may_have_a_target_twice() -> None:
    assert list(check_topic_map({"b": "x", "a": "x"}).items()) == [("a", "x"), ("b", "x")]
    assert len(check_topic_map({f"t{i}": "x" for i in range(MAX_TOPICS)})) == MAX_TOPICS


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param({}, "got {}", id="empty"),
        pytest.param(None, "got None", id="none"),
        pytest.param({1: "b"}, "got 1", id="number"),
        pytest.param({"a'); drop": "b"}, 'got "a\'); drop"', id="sql"),
        pytest.param({f"t{i}": "x" for i in range(MAX_TOPICS + 1)}, "at most 10,000 topics; it has 10,001", id="many"),
    ],
)
def test_anything_else_is_named(value: object, says: str) -> None:
    with pytest.raises(TargetError) as raised:
        check_topic_map(value)
    assert says in str(raised.value)


def test_unmapped_topics_are_named() -> None:
    assert mapped(["b", "a", "b"], {"a": "x", "b": "y", "c": "z"}) == {"a": "x", "b": "y"}
    with pytest.raises(TargetError, match="none for 't0', 't1', 't2', 't3', 't4' and 2 more"):
        mapped([f"t{i}" for i in range(7)], {"a": "x"})
