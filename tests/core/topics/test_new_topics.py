"""Promises of :mod:`~airflow_provider_kafka_spark.core.topics.new_topics`: a target has the shape of its sources."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.checks import one_of
from airflow_provider_kafka_spark.core.errors import OptionError, TargetError
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.new_topics import (
    ON_REFUSED_CONFIG,
    NewTopic,
    new_topics,
    with_new_topics,
)


def cluster(**partitions: int) -> ClusterState:
    states = {
        name: TopicState(name, "id", {n: PartitionState(0, 5, 5) for n in range(count)})
        for name, count in partitions.items()
    }
    return ClusterState("c", "kafka_default", 0, states)


def test_each_target_has_the_partitions_of_its_largest_source_and_its_settings() -> None:
    settings = {"a": {"cleanup.policy": "compact"}, "b": {"cleanup.policy": "compact"}, "c": {}}

    assert new_topics({"y": ["c"], "x": ["a", "b"]}, cluster(a=2, b=5, c=1), settings) == [
        NewTopic("x", 5, {"cleanup.policy": "compact"}),
        NewTopic("y", 1),
    ]
    assert [t.partitions for t in new_topics({"x": ["a"], "y": ["c"]}, cluster(a=2, c=1), settings, 9)] == [9, 9]


def test_settings_that_name_brokers_are_left_out_and_are_no_difference() -> None:
    settings = {"a": {"leader.replication.throttled.replicas": "0:1"}, "b": {"retention.ms": "1"}}

    assert new_topics({"x": ["a"]}, cluster(a=1), settings) == [NewTopic("x", 1)]
    with pytest.raises(TargetError, match=r"'x' they differ: retention\.ms is not set for 'a', 1 for 'b'"):
        new_topics({"x": ["a", "b"]}, cluster(a=1, b=1), settings)


def test_a_plan_takes_new_topics_for_empty_ones() -> None:
    found = with_new_topics(cluster(a=1), [NewTopic("x", 2, {"retention.ms": "1"})])

    assert found.topic("x") == TopicState(
        "x",
        None,
        {0: PartitionState(0, 0, 0), 1: PartitionState(0, 0, 0)},
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": "1",
        },
    )
    assert found.topic("a").topic_id == "id"


def test_what_was_left_out_is_named() -> None:
    topic = NewTopic("x", 1, {"a": "1", "b": "2"}).without({"b"})

    assert topic.config == {"a": "1"}
    assert topic.describe("was") == (
        "Target topic 'x' was created: 1 partition, a=1; its brokers refuse b, which is left out"
    )


def test_what_to_do_with_refused_settings_is_one_of_two() -> None:
    assert one_of("fail", "on_refused_config", *ON_REFUSED_CONFIG) == "fail"
    with pytest.raises(OptionError, match="on_refused_config must be 'fail' or 'leave_out'; got None"):
        one_of(None, "on_refused_config", *ON_REFUSED_CONFIG)
