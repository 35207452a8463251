"""Promises of :class:`~airflow_provider_kafka_spark.hooks.kafka.KafkaHook`: what a broker holds, within a bound."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
)

from airflow_provider_kafka_spark.clients import kafka_client
from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.clients.connection.broker_failures import BrokerFailures
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker

Connection = Callable[..., None]


def test_a_broker_that_does_not_know_all_partitions_yet(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that has just started: what another one says counts too, for a plan and for a sensor."""
    name = topic(3)
    kafka.produce(name, [Record(value=b"v", partition=2)])
    with KafkaHook() as hook:
        known = hook.metadata()
        del known.topics[name].partitions[2]
        monkeypatch.setattr(hook, "metadata", lambda: known)
        states = [hook.state([name]).topic(name), fetch_snapshot(hook, [BrokerQuery((name,))]).topic(name)]
        known.topics[name].partitions.clear()
        monkeypatch.setattr(hook, "describe_topics", lambda _: {})
        none = fetch_snapshot(hook, [BrokerQuery((name,))])

    for state in states:
        assert {number: p.high_watermark for number, p in state.partitions.items()} == {0: 0, 1: 0, 2: 1}
    with pytest.raises(BrokerUnavailableError, match="list it without any"):
        none.topic(name)


def test_a_topic_that_one_broker_lists_and_another_does_not_know(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """It was deleted meanwhile, or the other one has just started: the next try sees which."""
    name = topic()
    with KafkaHook(timeout=2) as hook:
        known = hook.metadata()
        kafka.delete_topic(name)
        with mock.patch.object(hook, "metadata", return_value=known):
            with pytest.raises(BrokerUnavailableError, match="It is listed"):
                hook.state([name])
            snapshot = fetch_snapshot(hook, [BrokerQuery((name,))])

    with pytest.raises(BrokerUnavailableError, match="No leaders found"):
        snapshot.topic(name)


def test_returns_the_state_of_each_topic(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Log start after retention, last stable offset and end of every partition, empty ones too; the settings of a topic
    and its defaults. A topic that does not exist is left out, and asking does not create it.
    """
    name = topic(3, config={"cleanup.policy": "delete", "max.message.bytes": "12345"})
    kafka.produce(name, [Record(value=b"v", partition=i % 2) for i in range(40)])
    kafka.delete_records(name, {0: 7})

    with KafkaHook() as hook:
        state = hook.state([name, f"{name}-missing"], [1_700_000_000_000])

    assert set(state.topics) == {name}
    assert f"{name}-missing" not in kafka.topics()
    assert state.topic(name).partitions == {
        0: PartitionState(log_start=7, last_stable=20, high_watermark=20, leader_epoch=0),
        1: PartitionState(log_start=0, last_stable=20, high_watermark=20, leader_epoch=0),
        2: PartitionState(log_start=0, last_stable=0, high_watermark=0, leader_epoch=0),
    }
    config = state.topic(name).config
    assert (config["cleanup.policy"], config["max.message.bytes"]) == ("delete", "12345")
    assert "retention.ms" in config


@pytest.mark.broker
def test_counts_records_that_are_there(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Markers are no records, aborted records count only for read_uncommitted, a range that ends in a gap ends, and
    each range of each partition has a count, also where the log starts later than offset 0.
    """
    name, other = topic(suffix="transactions"), topic(2)
    kafka.produce_transaction(name, [Record(value=b"kept") for _ in range(10)])  # and a marker at 10
    kafka.produce_transaction(name, [Record(value=b"aborted") for _ in range(5)], commit=False)  # 11..15, marker at 16
    kafka.produce(other, [Record(value=b"v", partition=i % 2) for i in range(60)])
    kafka.delete_records(other, {0: 10})
    expected = {
        (0, 10): (10, 10),
        (3, 7): (4, 4),
        # Ends with a commit marker, with aborted records, and at the end of the log.
        (0, 11): (10, 10),
        (5, 16): (5, 10),
        (11, 17): (0, 5),
        # Nothing but a marker, and nothing.
        (10, 11): (0, 0),
        (4, 4): (0, 0),
    }

    with KafkaHook(timeout=10) as hook:
        for (from_offset, until_offset), counts in expected.items():
            ranges = OffsetRanges.parse([f"{name}:0:{from_offset}:{until_offset}"])
            found = tuple(hook.count_records(ranges, read_committed=flag)[ranges[0]] for flag in (True, False))
            assert found == counts, ranges
        ranges = OffsetRanges.parse([f"{other}:0:10:15", f"{other}:0:25:30", f"{other}:1:0:30"])
        assert [hook.count_records(ranges)[r] for r in ranges] == [5, 5, 30]


def test_the_end_of_a_partition_is_no_failure(kafka: KafkaBroker, topic: TopicFactory, connection: Connection) -> None:
    """A connection may enable these events for its own consumers."""
    name = topic()
    kafka.produce_transaction(name, [Record(value=b"kept")])
    connection("kafka_eof", extra={"bootstrap.servers": kafka.bootstrap_servers, "enable.partition.eof": True})

    with KafkaHook("kafka_eof", timeout=10) as hook:
        (count,) = hook.count_records(OffsetRanges.parse([f"{name}:0:0:2"])).values()

    assert count == 1


def test_what_went_wrong_hours_ago_is_not_the_cause(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a job runs, the client may be refused and recover; a slow answer after that is only slow."""
    name = topic()
    with KafkaHook(timeout=10) as hook:
        hook.state([name])
        hook.failures.add(KafkaError(KafkaError._AUTHENTICATION, "the identity provider was away"))
        slow = SlowOnce(hook.client)
        monkeypatch.setattr(hook.client, "list_topics", slow)
        assert name in hook.state([name]).topics
    assert slow.asked > 1


def test_a_broker_that_was_there_is_waited_for(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first contact a broker may restart, although nothing listens meanwhile."""
    name = topic()
    monkeypatch.setattr(kafka_client, "_REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(BrokerFailures, "nothing_listens", lambda _: True)
    with KafkaHook(timeout=10, waits_for_start=False) as hook:
        slow = SlowOnce(hook.client)
        monkeypatch.setattr(hook.client, "list_topics", slow)
        with pytest.raises(BrokerUnavailableError, match="Nothing listens"):
            hook.state([name])
        hook.state([name])
        slow.asked = 0
        assert name in hook.state([name]).topics
        assert slow.asked > 1


class SlowOnce:
    """Asks a client for its topics; the first answer does not come in time."""

    def __init__(self, client: AdminClient, error: Exception | None = None) -> None:
        self.list_topics = client.list_topics
        self.error = error or KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.asked = 0

    def __call__(self, timeout: float) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise self.error
        return self.list_topics(timeout=timeout)


def test_metadata_that_cannot_be_read(kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may name a topic with bytes that are no UTF-8: an error with a name, and a retry asks again."""
    with KafkaHook(timeout=10) as hook:
        slow = SlowOnce(hook.client, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
        monkeypatch.setattr(hook.client, "list_topics", slow)
        with pytest.raises(BrokerUnavailableError, match="metadata must be readable"):
            hook.topic_names()
        assert topic() in hook.topic_names()


@pytest.mark.parametrize("waits_for_start", [True, False])
def test_a_dead_broker_is_an_error_within_the_time_out(
    connection: Connection, closed_port: int, waits_for_start: bool
) -> None:
    """A broker that does not answer is named with its servers and its connection, soon after the time-out; a first
    contact gives up soon where nothing listens.
    """
    connection("kafka_dead", extra={"bootstrap.servers": f"127.0.0.1:{closed_port},localhost:{closed_port}"})
    started = time.monotonic()

    timeout = 2 if waits_for_start else 30
    with (
        KafkaHook("kafka_dead", timeout=timeout, waits_for_start=waits_for_start) as hook,
        pytest.raises(BrokerUnavailableError, match=rf":{closed_port} \(connection 'kafka_dead'\)") as raised,
    ):
        hook.state(["orders"])

    took = time.monotonic() - started
    assert took < 20 if waits_for_start else 2.5 <= took < 8
    assert str(raised.value).startswith("Nothing listens at ") != waits_for_start
    assert raised.value.retriable


def test_a_silent_broker_is_an_error_within_the_time_out(connection: Connection, closed_port: int) -> None:
    """A server that takes the connection and never answers. It may be slow, so it is waited for, although the other one
    is down.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        connection("kafka_silent", extra={"bootstrap.servers": f"127.0.0.1:{closed_port},{servers}"})
        started = time.monotonic()

        with (
            KafkaHook("kafka_silent", timeout=4, waits_for_start=False) as hook,
            pytest.raises(BrokerUnavailableError, match=rf"{servers}.*within 4 s"),
        ):
            hook.topic_names()

    assert time.monotonic() - started < 20


def test_what_a_login_may_not_see_is_named(connection: Connection, secured_broker: KafkaBroker) -> None:
    """A topic whose configuration may not be read is returned without it. Brokers list only what a login may see: a
    topic that is wanted by name and hidden is an error that names the permission, and so is a count without it.
    """
    connection("kafka_sasl", extra=secured_broker.sasl_client_config("guest"))

    with KafkaHook("kafka_sasl", timeout=20) as hook:
        assert hook.topic_names(["seen"]) == {"seen"}
        state = hook.state(["seen"]).topic("seen")
        assert (state.partitions[0].high_watermark, state.config) == (1, {})
        for ask in (hook.state, hook.topic_names):
            with pytest.raises(BrokerAuthorizationError, match=r"'hidden'.*needs DESCRIBE on topic 'hidden'"):
                ask(["seen", "hidden"])
        with pytest.raises(BrokerAuthorizationError, match="READ"):
            hook.count_records(OffsetRanges.parse(["seen:0:0:1"]))


def test_a_topic_that_only_a_list_lacks_is_asked_for_again(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one broker has just started: it is neither absent nor deleted."""
    name = topic()
    with KafkaHook(timeout=10) as hook:
        known = hook.metadata()
        del known.topics[name]
        monkeypatch.setattr(hook, "metadata", lambda: known)
        for ask in (hook.state, hook.topic_names):
            with pytest.raises(BrokerUnavailableError, match=f"All brokers must know the topic '{name}'"):
                ask([name])
        assert hook.state(["absent"]).topics == {}


def test_a_value_that_librdkafka_does_not_take_is_named(connection: Connection) -> None:
    connection("kafka_odd", extra={"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "soon"})

    with (
        KafkaHook("kafka_odd") as hook,
        pytest.raises(ConnectionConfigError, match=r"'kafka_odd'.*socket\.timeout\.ms"),
    ):
        hook.topic_names()


def test_closes_its_clients(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Hooks that were used and left keep no thread of librdkafka alive."""
    name = topic()
    kafka.produce(name, [Record(value=b"v")])
    # Kept, so that it is the end of the block that closes, and not the garbage collector.
    hooks = []

    def use() -> None:
        with KafkaHook() as hook:
            hooks.append(hook)
            hook.state([name])
            hook.count_records(OffsetRanges.parse([f"{name}:0:0:1"]))

    use()
    before = _threads()
    for _ in range(8):
        use()

    assert _threads() <= before + 2


def _threads() -> int:
    """Native threads of this process: Python does not know those of librdkafka."""
    deadline = time.monotonic() + 5
    fewest = psutil.Process().num_threads()
    while time.monotonic() < deadline:
        time.sleep(0.1)
        now = psutil.Process().num_threads()
        if now >= fewest:
            break
        fewest = now
    return fewest


@pytest.mark.parametrize("kind", [BrokerUnavailableError, BrokerAuthenticationError])
def test_an_outage_is_not_a_topic_that_does_not_exist(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, kind: type[KafkaSparkError]
) -> None:
    """A name that is not listed is asked for a second time, and the answer may fail to come."""

    def fails(*_: object) -> None:
        raise kind("No answer")

    with KafkaHook() as hook:
        monkeypatch.setattr(hook, "result", fails)
        with pytest.raises(kind, match="No answer"):
            hook.state(["there-is-none"])
