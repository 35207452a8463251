"""Promises of :mod:`~airflow_provider_kafka_spark.clients.broker_poll`: one round of requests for everybody, where
one's trouble is not another's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from airflow_provider_kafka_spark.clients import topic_offsets
from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_client import GROUPS_AT_ONCE, OffsetAnswers
from airflow_provider_kafka_spark.clients.record_reads import raise_error
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker

NOON = 1_700_000_000_000


@pytest.fixture
def hook(kafka: KafkaBroker) -> Iterator[KafkaHook]:
    with KafkaHook(timeout=20) as hook:
        yield hook


def test_everybody_gets_what_he_needs_in_one_round(kafka: KafkaBroker, topic: TopicFactory, hook: KafkaHook) -> None:
    """Different topics, times and groups are asked for together."""
    one, two = topic(2, suffix="one"), topic(suffix="two")
    kafka.produce(one, [Record(value=b"v", partition=0, timestamp=NOON + i * 1000) for i in range(10)])
    kafka.produce_transaction(two, [Record(value=b"v", timestamp=NOON)], commit=False)
    kafka.delete_records(one, {0: 4})
    group = f"group-{uuid4().hex[:8]}"
    ConsumerGroup(hook, group).commit({TopicPartition(one, 0): 6})

    snapshot = fetch_snapshot(
        hook,
        [
            BrokerQuery((one,), timestamps=frozenset({NOON + 5500, NOON + 9001}), newest=True),
            BrokerQuery((two,), timestamps=frozenset({NOON})),
            BrokerQuery(None, f"{one[:-3]}.*", retention=True),
            BrokerQuery((one, two), group_id=group),
            BrokerQuery(("nowhere",)),
        ],
    )

    assert snapshot.topic(one).partitions == {0: PartitionState(4, 10, 10, 0), 1: PartitionState(0, 0, 0, 0)}
    assert snapshot.topic(two).partitions == {0: PartitionState(0, 2, 2, 0)}
    assert snapshot.cluster.first_at == {
        (TopicPartition(one, 0), NOON + 5500): 6,
        (TopicPartition(one, 0), NOON + 9001): None,
        (TopicPartition(one, 1), NOON + 5500): None,
        (TopicPartition(one, 1), NOON + 9001): None,
        (TopicPartition(two, 0), NOON): 0,
    }
    assert snapshot.newest == {TopicPartition(one, 0): NOON + 9000, TopicPartition(one, 1): None}
    assert snapshot.group(group) == {TopicPartition(one, 0): 6}
    assert snapshot.topic(one).topic_id
    assert "retention.ms" in snapshot.topic(one).config
    assert snapshot.names >= {one, two}
    assert "nowhere" not in snapshot.names
    assert snapshot.failures == {}
    assert abs(snapshot.now_ms - time.time() * 1000) < 60_000


def test_many_groups_and_moments_cost_no_more_clients_and_requests(
    kafka: KafkaBroker, topic: TopicFactory, hook: KafkaHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All groups are described in one request, and only a few clients are open at the same time. Moments are asked for
    at once, those that another answer decides are not, and a record that answers several is read once.
    """
    name, few = topic(2), f"group-{uuid4().hex[:8]}"
    kafka.produce(name, [Record(value=b"v", partition=0, timestamp=NOON + i * 1000) for i in range(100)])
    groups = {f"{few}-{i}": i for i in range(2 * GROUPS_AT_ONCE + 1)}
    for group, offset in groups.items():
        if offset % 16 == 0:
            ConsumerGroup(hook, group).commit({TopicPartition(name, 0): offset + 1})
    moments = [NOON + i * 500 for i in range(200)]
    asked, open_at_once, opened = Counter[str](), set[int](), set[Any]()

    class CountingConsumer(confluent_kafka.Consumer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            opened.add(self)
            open_at_once.add(len(opened))

        def close(self) -> None:
            super().close()
            opened.discard(self)

        def assign(self, partitions: Any) -> None:
            asked["reads"] += 1
            super().assign(partitions)

    def counted(client: Any, request: str) -> None:
        real = getattr(client, request)

        def ask(*args: Any, **kwargs: Any) -> Any:
            asked[request] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(client, request, ask)

    hook.close()
    monkeypatch.setattr(confluent_kafka, "Consumer", CountingConsumer)
    counted(hook.client, "describe_consumer_groups")
    counted(hook, "list_offsets")

    queries = [BrokerQuery((name,), group_id=group) for group in groups]
    queries += [BrokerQuery((name,), timestamps=frozenset({moment})) for moment in moments]
    snapshot = fetch_snapshot(hook, queries)

    assert snapshot.failures == {}
    assert {g: snapshot.group(g) for g in groups} == {
        g: {TopicPartition(name, 0): i + 1} if i % 16 == 0 else {} for g, i in groups.items()
    }
    found = [snapshot.cluster.first_at[TopicPartition(name, 0), moment] for moment in moments]
    assert found == [(i + 1) // 2 if i < 199 else None for i in range(200)]
    assert max(open_at_once) <= GROUPS_AT_ONCE + 1
    assert asked["describe_consumer_groups"] == 1
    assert asked["reads"] <= 9
    assert asked.pop("list_offsets") < 180

    waiting = frozenset(NOON + 1_000_000 + i for i in range(1_000))
    snapshot = fetch_snapshot(hook, [BrokerQuery((name,), timestamps=frozenset({moment})) for moment in waiting])

    assert len(snapshot.cluster.first_at) == 2_000
    assert set(snapshot.cluster.first_at.values()) == {None}
    assert asked["list_offsets"] <= 7


def test_one_future_has_the_offsets_of_all_partitions(
    kafka: KafkaBroker, topic: TopicFactory, hook: KafkaHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """confluent-kafka's own method makes one for each partition, which costs more than the rest of the answer."""
    p, made, make = TopicPartition(topic(200), 0), 0, Future.__init__

    def counted(future: Future[Any]) -> None:
        nonlocal made
        made += 1
        make(future)

    monkeypatch.setattr(Future, "__init__", counted)

    state = hook.state([p.topic])

    assert len(state.topic(p.topic).partitions) == 200
    assert made < 20


def test_what_a_login_may_not_see_fails_only_who_asks_for_it(
    secured_broker: KafkaBroker, connection: Callable[..., None]
) -> None:
    """An unauthorized topic and an unauthorized group are separate failures; the rest of the round is returned."""
    connection("kafka_sasl", extra=secured_broker.sasl_client_config("guest"))
    with KafkaHook("kafka_sasl", timeout=20) as hook:
        snapshot = fetch_snapshot(
            hook, [BrokerQuery(("seen",)), BrokerQuery(("hidden", "nowhere")), BrokerQuery(("seen",), group_id="copy")]
        )

    assert snapshot.topic("seen").partitions == {0: PartitionState(0, 1, 1, 0)}
    with pytest.raises(BrokerAuthorizationError, match="'hidden'"):
        snapshot.topic("hidden")
    with pytest.raises(BrokerAuthorizationError, match="'copy'"):
        snapshot.group("copy")
    # Brokers answer an unauthorized login in the same way for missing and for existing topics.
    assert set(snapshot.failures) == {("topic", "hidden"), ("topic", "nowhere"), ("group", "copy")}


def test_a_group_without_a_coordinator_hides_no_other(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are asked again for one time-out together."""
    name, asked = topic(), Counter[str]()
    away, there = ("a-away", "b-away"), (f"c-{uuid4().hex[:8]}", f"d-{uuid4().hex[:8]}")
    with KafkaHook(timeout=2) as hook:
        for group in there:
            ConsumerGroup(hook, group).commit({TopicPartition(name, 0): 6})
        describe = hook.client.describe_consumer_groups

        def without_coordinator(group_ids: list[str], **kwargs: Any) -> Any:
            asked.update(group_ids)
            # The client fills its own.
            futures = dict(describe(group_ids, **kwargs))
            for group in futures.keys() & set(away):
                futures[group] = Future()
                futures[group].set_exception(KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)))
            return futures

        monkeypatch.setattr(hook.client, "describe_consumer_groups", without_coordinator)
        snapshot = fetch_snapshot(hook, [BrokerQuery((name,), group_id=group) for group in (*away, *there)])

    assert [snapshot.group(group) for group in there] == [{TopicPartition(name, 0): 6}] * 2
    assert set(snapshot.failures) == {("group", group) for group in away}
    assert asked["a-away"] > 1
    assert [asked[group] for group in ("b-away", *there)] == [1] * 3


_NO_OFFSET, _UNKNOWN = ListOffsetsResultInfo(OFFSET_INVALID, -1, -1), KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


@pytest.mark.parametrize(
    ("request_number", "answer"),
    [(1, _NO_OFFSET), (2, _NO_OFFSET), (3, _NO_OFFSET), (4, _NO_OFFSET), (5, _NO_OFFSET), (1, _UNKNOWN)],
    ids=["end", "by-time", "newest", "stable", "start", "unknown"],
)
def test_an_answer_without_an_offset_is_none(
    kafka: KafkaBroker,
    topic: TopicFactory,
    hook: KafkaHook,
    monkeypatch: pytest.MonkeyPatch,
    request_number: int,
    answer: object,
) -> None:
    """librdkafka gives it for a partition whose broker died meanwhile, and a broker says that it does not know a
    partition that it has led for a moment only. A plan asks again, a sensor next time.
    """
    name = topic()
    kafka.produce(name, [Record(value=b"v", timestamp=NOON + i) for i in range(10)])
    p, asked = TopicPartition(name, 0), 0
    list_offsets = hook.list_offsets

    def lost_once(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        answers = list_offsets(*args, **kwargs)
        if asked != request_number:
            return answers
        lost = Future[OffsetAnswers]()
        lost.set_result(dict.fromkeys(answers.result(20), answer))
        return lost

    monkeypatch.setattr(hook, "list_offsets", lost_once)

    with pytest.raises(BrokerUnavailableError, match=r"its leader went away|vanished"):
        fetch_snapshot(hook, [BrokerQuery((name,), timestamps=frozenset({NOON + 5}), newest=True)]).topic(name)
    asked = 0
    found = topic_offsets.read_offsets(hook, [p], {name: [NOON + 5]}, [name], on_error=raise_error, retry_seconds=20)
    assert found.states == {p: PartitionState(0, 10, 10, 0)}
    assert found.first_at[p, NOON + 5].offset == 5
    assert found.newest == {p: NOON + 9}
