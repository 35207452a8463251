"""Promises of :class:`~airflow_provider_kafka_spark.clients.consumer_group.ConsumerGroup`: commits for others to see,
forwards only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.errors import (
    ConsumerGroupError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


@pytest.fixture
def hook(kafka: KafkaBroker) -> Iterator[KafkaHook]:
    with KafkaHook(timeout=20) as hook:
        yield hook


@pytest.fixture
def group(hook: KafkaHook) -> ConsumerGroup:
    return ConsumerGroup(hook, f"group-{uuid4().hex[:8]}")


def test_commits_go_forwards_only(kafka: KafkaBroker, topic: TopicFactory, group: ConsumerGroup) -> None:
    """A group comes into being with its first commit. A partition that is at its offset or beyond is unchanged, and the
    changed ones are returned; those without a commit stay without.
    """
    name = topic(4)
    at = [TopicPartition(name, number) for number in range(4)]
    assert group.committed(at) == {}
    group.raise_if_members()
    assert group.commit({at[0]: 5, at[1]: 5}) == {at[0]: 5, at[1]: 5}

    assert group.commit({at[0]: 4, at[1]: 5, at[2]: 0}) == {at[2]: 0}
    assert group.commit({at[0]: 6, at[1]: 1}) == {at[0]: 6}
    assert group.commit({at[0]: 6}) == {}

    assert group.committed(at) == {at[0]: 6, at[1]: 5, at[2]: 0}
    assert kafka.committed(group.group_id, name) == {0: 6, 1: 5, 2: 0}


def test_a_group_with_members_is_refused_by_name(kafka: KafkaBroker, topic: TopicFactory, group: ConsumerGroup) -> None:
    """Before anything starts and at the commit: its own commits and ours would overwrite each other."""
    name = topic()
    group.commit({TopicPartition(name, 0): 3})
    with kafka.group_member(group.group_id, name):
        for refused in (group.raise_if_members, lambda: group.commit({TopicPartition(name, 0): 4})):
            with pytest.raises(ConsumerGroupError, match=r"must have no members.*STABLE.*group of its own") as raised:
                refused()
            assert group.group_id in str(raised.value)
        # Others may still look.
        assert group.committed([TopicPartition(name, 0)]) == {TopicPartition(name, 0): 3}
    # Members that left are no hindrance.
    assert group.commit({TopicPartition(name, 0): 2}) == {}
    assert group.commit({TopicPartition(name, 0): 4}) == {TopicPartition(name, 0): 4}


def test_a_member_of_the_newer_group_protocol_is_one_too(
    kafka: KafkaBroker, topic: TopicFactory, group: ConsumerGroup
) -> None:
    """Brokers of Kafka 4 return them by another request (KIP-848)."""
    name = topic()
    member = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group.group_id, "group.protocol": "consumer"}
    )
    try:
        member.subscribe([name])
        deadline = time.monotonic() + 30
        while not member.assignment():
            member.poll(0.1)
            assert time.monotonic() < deadline

        with pytest.raises(ConsumerGroupError, match="must have no members"):
            group.raise_if_members()
    finally:
        member.close()


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaBroker, topic: TopicFactory, group: ConsumerGroup) -> None:
    """It has no commit, and takes none; the other partitions are committed all the same."""
    there, missing = TopicPartition(topic(), 0), TopicPartition("missing", 0)

    assert group.committed([missing]) == {}
    with pytest.raises(ConsumerGroupError, match=r"did not take the offset of 1 partitions: missing\[0\]"):
        group.commit({there: 5, missing: 3})
    assert group.committed([there, missing]) == {there: 5}


def test_a_member_that_came_meanwhile_is_noticed_in_the_result_of_each_partition(
    kafka: KafkaBroker, topic: TopicFactory, group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request succeeds then; only the single partitions are refused, and each is named."""
    name = topic(2)
    monkeypatch.setattr(group, "raise_if_members", lambda: None)
    with kafka.group_member(group.group_id, name), pytest.raises(ConsumerGroupError) as raised:
        group.commit({TopicPartition(name, 0): 1, TopicPartition(name, 1): 2})

    assert f"{name}[0]" in str(raised.value)
    assert f"{name}[1]" in str(raised.value)
    assert kafka.committed(group.group_id, name) == {}
