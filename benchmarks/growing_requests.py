"""What many partitions, groups, moments and targets cost at a broker: seconds of waiting, and of work."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from confluent_kafka import Producer

from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.clients.topic_creation import create_topics
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.new_topics import NewTopic
from airflow_provider_kafka_spark.core.wire.protocol import How
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.task_try import TaskTry, WorkerOptions
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from benchmarks import airflow_task

#: A time that brokers keep by default, in ms since 1970.
_FIRST_MS = int(time.time() * 1000) - 3_600_000


def ranges_with_markers(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """As many partitions, each with a range that ends with the marker of a transaction."""
    topic = _topic(broker, count)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for i in range(5 * count):
        producer.produce(topic, b"v", partition=i % count)
    producer.commit_transaction()
    ranges = OffsetRanges([OffsetRange(topic, i, 0, 6) for i in range(count)])
    with KafkaHook() as hook:
        # Brokers answer before they have written the markers.
        while any(p.last_stable < 6 for p in hook.state([topic]).topic(topic).partitions.values()):
            time.sleep(0.1)
    return lambda hook: hook.count_records(ranges)


def timestamps_of_targets(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """A ``topic_map`` to as many targets that exist."""
    topic_map = {_topic(broker): f"target-{i}" for i in range(count)}
    for name in topic_map:
        broker.produce(name, [Record(b"k", b"v")])
    ranges = OffsetRanges([OffsetRange(name, 0, 0, 1) for name in topic_map])
    plan: Any = SimpleNamespace(target=Target(None, topic_map=topic_map), ranges=ranges)
    config = {"retention.ms": "604800000", "cleanup.policy": "delete"}
    target: Any = SimpleNamespace(topic=lambda _: SimpleNamespace(config=config), now_ms=int(time.time() * 1000))
    parameters: Any = SimpleNamespace(transform=SimpleNamespace(preserve_timestamps=True))
    none = cast(Any, None)
    return lambda hook: TaskTry(none, parameters, none, hook, hook, How(), WorkerOptions(), none).check_timestamps(
        cast(ClusterState, target), plan
    )


def groups(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """A round of as many sensors of consumer groups."""
    topic, stem = _topic(broker), uuid4().hex[:8]
    return lambda hook: fetch_snapshot(hook, [BrokerQuery((topic,), group_id=f"{stem}-{i}") for i in range(count)])


def moments(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """A round of as many sensors of moments, in a topic with a record each second."""
    topic = _topic(broker)
    broker.produce(topic, (Record(b"k", b"v", timestamp=_FIRST_MS + 1_000 * i) for i in range(3 * count)))
    asked = [BrokerQuery((topic,), timestamps=frozenset({_FIRST_MS + 2_500 * i})) for i in range(count)]
    return lambda hook: fetch_snapshot(hook, asked)


def awaited_moments(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """A round of as many sensors of moments that no record of a topic has reached."""
    topic = _topic(broker)
    broker.produce(topic, [Record(b"k", b"v", timestamp=_FIRST_MS)])
    asked = [BrokerQuery((topic,), timestamps=frozenset({_FIRST_MS + 1 + i})) for i in range(count)]
    return lambda hook: fetch_snapshot(hook, asked)


def assigned(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:
    """One partition of each of ten topics, which have as many together."""
    topics = [_topic(broker, count // 10) for _ in range(10)]
    return lambda hook: hook.state(topics, only=[TopicPartition(name, 0) for name in topics])


def created(broker: KafkaBroker, count: int) -> Callable[[KafkaHook], object]:  # noqa: ARG001 - as the others
    """Targets of ten partitions each, which have as many together, until the broker has them all."""
    topics = [NewTopic(f"growth-{uuid4().hex[:8]}", 10, {"retention.ms": "604800000"}) for _ in range(count // 10)]

    def work(hook: KafkaHook) -> None:
        create_topics(hook, topics)
        # Brokers announce the leaders of partitions before they have made these.
        hook.state(topic.name for topic in topics)

    return work


def plans_at(broker: KafkaBroker) -> Callable[[int], tuple[float, float]]:
    """What a task takes for a plan of as many partitions of ten topics, to a target of fifty, the better of two:
    seconds of its CPU, and on the clock.
    """
    target = _topic(broker, 50)

    @cache
    def value_at(count: int) -> tuple[float, float]:
        topics = [_topic(broker, count // 10) for _ in range(10)]
        for name in topics:
            broker.produce(name, (Record(b"k", b"v", partition=i) for i in range(count // 10)))
        found = []
        for _ in range(2):
            task = airflow_task.build_operator(
                airflow_task.BATCH, {"topics": topics, "target_topic": target, "plan_only": True}
            )
            gc.collect()
            cpu, clock = time.thread_time(), time.monotonic()
            task.execute(airflow_task.task_context())
            found.append((time.thread_time() - cpu, time.monotonic() - clock))
        return min(cpu for cpu, _ in found), min(clock for _, clock in found)

    # What is imported, and found out once in a process.
    value_at(10)
    return value_at


def seconds_at(
    broker: KafkaBroker, prepare: Callable[[KafkaBroker, int], Callable[[KafkaHook], object]]
) -> Callable[[int], float]:
    """Seconds on the clock, the better of two: what is saved is mostly waiting."""

    def value_at(size: int) -> float:
        found = []
        for _ in range(2):
            work = prepare(broker, size)
            with KafkaHook() as hook:
                hook.metadata()
                gc.collect()
                started = time.monotonic()
                work(hook)
                found.append(time.monotonic() - started)
        return min(found)

    return value_at


def _topic(broker: KafkaBroker, partitions: int = 1) -> str:
    name = f"growth-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions)
    return name
