"""Promises of :class:`~airflow_provider_kafka_spark.hooks.kafka.KafkaHook`: what a broker holds, within a bound."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
)

from airflow_provider_kafka_spark.clients import kafka_client
from airflow_provider_kafka_spark.clients.connection.broker_failures import BrokerFailures
from airflow_provider_kafka_spark.core.broker_state import PartitionState
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker

Connection = Callable[..., None]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine where nobody listens, kept from being handed to anybody else."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def open_transaction(kafka: KafkaBroker, topic: TopicFactory) -> Iterator[str]:
    """A topic of 10 committed records, followed by 5 of an open transaction."""
    name = topic()
    kafka.produce(name, [Record(value=b"committed") for _ in range(10)])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid4())})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(name, b"open", partition=0)
    producer.flush(30)
    yield name
    producer.abort_transaction(30)


def test_returns_the_offsets_of_each_partition(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Log start after retention, last stable offset and end are returned for every partition, empty ones too."""
    name = topic(3)
    kafka.produce(name, [Record(value=b"v", partition=i % 2) for i in range(40)])
    kafka.delete_records(name, {0: 7})

    with KafkaHook() as hook:
        state = hook.state([name]).topic(name)

    assert state.partitions == {
        0: PartitionState(log_start=7, last_stable=20, high_watermark=20),
        1: PartitionState(log_start=0, last_stable=20, high_watermark=20),
        2: PartitionState(log_start=0, last_stable=0, high_watermark=0),
    }


def test_returns_what_an_open_transaction_hides(kafka: KafkaBroker, open_transaction: str) -> None:
    """While a transaction is open, the last stable offset stays before it, although the log goes on."""
    with KafkaHook() as hook:
        partition = hook.state([open_transaction]).topic(open_transaction).partitions[0]

    assert partition == PartitionState(log_start=0, last_stable=10, high_watermark=15)


def test_finds_timestamps_in_many_partitions(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """For each time and partition the first offset at or after it; None if there is no such record."""
    name = topic(50)
    noon = 1_700_000_000_000
    kafka.produce(
        name, [Record(value=b"v", partition=p, timestamp=noon + i * 1000) for p in range(0, 50, 2) for i in range(10)]
    )

    with KafkaHook() as hook:
        first_at = hook.state([name], [noon - 5, noon + 3000, noon + 3001, noon + 9001]).first_at

    expected = {noon - 5: 0, noon + 3000: 3, noon + 3001: 4, noon + 9001: None}
    assert first_at == {
        (TopicPartition(name, p), ms): None if p % 2 else offset for p in range(50) for ms, offset in expected.items()
    }


def test_asks_for_all_partitions_at_once(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """A hundred times as many partitions, just created, do not take ten times as long."""
    one, many = topic(1, suffix="one"), topic(100, suffix="many")

    def seconds(name: str) -> float:
        with KafkaHook() as hook:
            hook.topic_names()
            started = time.monotonic()
            hook.state([name], [1_700_000_000_000])
            return time.monotonic() - started

    # The best of some, since the machine is shared; a round trip takes milliseconds, so a floor keeps the ratio honest.
    assert min(seconds(many) for _ in range(3)) < 10 * max(0.05, min(seconds(one) for _ in range(3)))


def test_detects_a_recreated_topic_by_its_id(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """A topic that was deleted and recreated has another id; until then the id stays."""
    name = topic()
    with KafkaHook() as hook:
        before = [hook.state([name]).topic(name).topic_id for _ in range(2)]
        kafka.delete_topic(name)
        kafka.create_topic(name)
        after = hook.state([name]).topic(name).topic_id

    assert before[0] == before[1]
    assert before[0]
    assert after not in (None, before[0])


def test_reads_topic_configurations(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Both the settings of a topic and its defaults are returned."""
    name = topic(config={"cleanup.policy": "compact", "max.message.bytes": "12345"})

    with KafkaHook() as hook:
        config = hook.state([name]).topic(name).config

    assert (config["cleanup.policy"], config["max.message.bytes"]) == ("compact", "12345")
    assert "retention.ms" in config


def test_leaves_unknown_topics_out(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """A topic that does not exist is missing from the answer, and asking does not create it."""
    name = topic()

    with KafkaHook() as hook:
        state = hook.state([name, f"{name}-missing"], [1_700_000_000_000])

    assert set(state.topics) == {name}
    assert f"{name}-missing" not in kafka.topics()


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "committed", "all_records"),
    [
        pytest.param(0, 10, 10, 10, id="plain"),
        pytest.param(3, 7, 4, 4, id="inside"),
        pytest.param(0, 11, 10, 10, id="ends-with-a-commit-marker"),
        pytest.param(5, 16, 5, 10, id="ends-with-aborted-records"),
        pytest.param(11, 17, 0, 5, id="nothing-but-aborted-records-to-the-end-of-the-log"),
        pytest.param(10, 11, 0, 0, id="nothing-but-a-marker"),
        pytest.param(4, 4, 0, 0, id="empty"),
    ],
)
def test_counts_records_that_are_there(
    kafka: KafkaBroker, topic: TopicFactory, from_offset: int, until_offset: int, committed: int, all_records: int
) -> None:
    """Markers are no records, aborted records count only for read_uncommitted, and a range that ends in a gap ends."""
    name = topic()
    kafka.produce_transaction(name, [Record(value=b"kept") for _ in range(10)])  # and a marker at 10
    kafka.produce_transaction(name, [Record(value=b"aborted") for _ in range(5)], commit=False)  # 11..15, marker at 16
    ranges = OffsetRanges.parse([f"{name}:0:{from_offset}:{until_offset}"])

    with KafkaHook(timeout=10) as hook:
        counts = [hook.count_records(ranges, read_committed=flag)[ranges[0]] for flag in (True, False)]

    assert counts == [committed, all_records]


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
        client = SlowOnce(hook.client)
        monkeypatch.setattr(KafkaHook, "client", client)
        assert name in hook.state([name]).topics
    assert client.asked > 1


def test_a_broker_that_was_there_is_waited_for(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first contact a broker may restart, although nothing listens meanwhile."""
    name = topic()
    monkeypatch.setattr(kafka_client, "_REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(BrokerFailures, "nothing_listens", lambda _: True)
    with KafkaHook(timeout=10, waits_for_start=False) as hook:
        client = SlowOnce(hook.client)
        monkeypatch.setattr(KafkaHook, "client", client)
        with pytest.raises(BrokerUnavailableError, match="Nothing listens"):
            hook.state([name])
        hook.state([name])
        client.asked = 0
        assert name in hook.state([name]).topics
        assert client.asked > 1


class SlowOnce:
    """A client whose first answer does not come in time."""

    def __init__(self, client: AdminClient, error: Exception | None = None) -> None:
        self.client = client
        self.error = error or KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise self.error
        return self.client.list_topics(timeout=timeout)


def test_metadata_that_cannot_be_read(kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may name a topic with bytes that are no UTF-8: an error with a name, and a retry asks again."""
    with KafkaHook(timeout=10) as hook:
        client = SlowOnce(hook.client, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
        monkeypatch.setattr(KafkaHook, "client", client)
        with pytest.raises(BrokerUnavailableError, match="metadata must be readable"):
            hook.topic_names()
        assert topic() in hook.topic_names()


def test_counts_each_range_for_itself(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Several ranges of several partitions have a count each, also where the log starts later than offset 0."""
    name = topic(2)
    kafka.produce(name, [Record(value=b"v", partition=i % 2) for i in range(60)])
    kafka.delete_records(name, {0: 10})
    ranges = OffsetRanges.parse([f"{name}:0:10:15", f"{name}:0:25:30", f"{name}:1:0:30"])

    with KafkaHook() as hook:
        counts = hook.count_records(ranges)

    assert [counts[r] for r in ranges] == [5, 5, 30]


def test_a_dead_broker_is_an_error_within_the_time_out(connection: Connection, closed_port: int) -> None:
    """A broker that does not answer is named with its servers and its connection, soon after the time-out."""
    connection("kafka_dead", extra={"bootstrap.servers": f"127.0.0.1:{closed_port}"})
    started = time.monotonic()

    with KafkaHook("kafka_dead", timeout=2) as hook, pytest.raises(BrokerUnavailableError) as raised:
        hook.state(["orders"])

    assert time.monotonic() - started < 20
    assert f"127.0.0.1:{closed_port}" in str(raised.value)
    assert "connection 'kafka_dead'" in str(raised.value)
    assert raised.value.retriable


def test_a_first_contact_gives_up_soon_where_nothing_listens(connection: Connection, closed_port: int) -> None:
    connection("kafka_dead", extra={"bootstrap.servers": f"127.0.0.1:{closed_port},localhost:{closed_port}"})
    started = time.monotonic()

    with (
        KafkaHook("kafka_dead", timeout=30, waits_for_start=False) as hook,
        pytest.raises(
            BrokerUnavailableError, match=rf"^Nothing listens at .*:{closed_port} \(connection 'kafka_dead'\)"
        ),
    ):
        hook.state(["orders"])

    assert 2.5 <= time.monotonic() - started < 8


def test_a_server_that_does_not_refuse_is_waited_for(connection: Connection, closed_port: int) -> None:
    """It may be slow, although the other one is down."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{closed_port},127.0.0.1:{silent.getsockname()[1]}"
        connection("kafka_silent", extra={"bootstrap.servers": servers})
        with (
            KafkaHook("kafka_silent", timeout=5, waits_for_start=False) as hook,
            pytest.raises(BrokerUnavailableError, match="within 5 s"),
        ):
            hook.state(["orders"])


def test_a_silent_broker_is_an_error_within_the_time_out(connection: Connection) -> None:
    """A server that takes the connection and never answers is an error within the time-out too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        connection("kafka_silent", extra={"bootstrap.servers": servers})
        started = time.monotonic()

        with KafkaHook("kafka_silent", timeout=2) as hook, pytest.raises(BrokerUnavailableError, match=servers):
            hook.topic_names()

    assert time.monotonic() - started < 20


def test_a_right_login_is_let_in(connection: Connection, authorizing_broker: KafkaBroker) -> None:
    """SASL properties in the connection's Extra reach the client; a topic whose configuration may not be read is
    returned without it.
    """
    connection("kafka_sasl", extra=authorizing_broker.sasl_client_config("copier"))

    with KafkaHook("kafka_sasl", timeout=20) as hook:
        names, state = hook.topic_names(["seen"]), hook.state(["seen"]).topic("seen")

    assert names == {"seen"}
    assert (state.partitions[0].high_watermark, state.config) == (1, {})


def test_a_hidden_topic_is_not_taken_for_a_missing_one(connection: Connection, authorizing_broker: KafkaBroker) -> None:
    """Brokers list only what a login may see; a topic that is wanted by name and hidden is an error that names the
    permission.
    """
    connection("kafka_sasl", extra=authorizing_broker.sasl_client_config("copier"))

    with KafkaHook("kafka_sasl", timeout=20) as hook:
        for ask in (hook.state, hook.topic_names):
            with pytest.raises(BrokerAuthorizationError) as raised:
                ask(["seen", "hidden"])
            assert "'hidden'" in str(raised.value)
            assert "needs DESCRIBE on topic 'hidden'" in str(raised.value)


def test_counting_without_permission_to_read_is_named(connection: Connection, authorizing_broker: KafkaBroker) -> None:
    """A login that may describe and not read cannot count; the error names the permission."""
    connection("kafka_sasl", extra=authorizing_broker.sasl_client_config("copier"))

    with KafkaHook("kafka_sasl", timeout=20) as hook, pytest.raises(BrokerAuthorizationError, match="READ"):
        hook.count_records(OffsetRanges.parse(["seen:0:0:1"]))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_fails_quickly_and_is_not_shown(
    connection: Connection, authorizing_broker: KafkaBroker, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    """A refused login is its own error, long before the time-out, and no message, log or repr has the password."""
    caplog.set_level(logging.DEBUG)
    extra = {**authorizing_broker.sasl_client_config("copier", mechanism), "sasl.password": "s3cr3t-and-wrong"}
    connection("kafka_wrong", extra=extra)
    started = time.monotonic()

    with KafkaHook("kafka_wrong", timeout=30) as hook:
        with pytest.raises(BrokerAuthenticationError) as raised:
            hook.state(["orders"])
        shown = [str(raised.value), repr(raised.value), repr(raised.value.__cause__), repr(hook), repr(hook.config)]

    assert time.monotonic() - started < 20
    assert "connection 'kafka_wrong'" in str(raised.value)
    assert "sasl.password" in str(raised.value)
    assert not raised.value.retriable
    assert "s3cr3t" not in caplog.text + "".join(shown)


def test_a_missing_connection_is_named() -> None:
    """The message names the connection, and the two ways of adding it."""
    with KafkaHook("nowhere") as hook, pytest.raises(ConnectionConfigError) as raised:
        hook.topic_names()

    assert "'nowhere' does not exist" in str(raised.value)
    assert "AIRFLOW_CONN_NOWHERE" in str(raised.value)


def test_a_connection_without_servers_is_named(connection: Connection) -> None:
    """The message names the property that is missing."""
    connection("kafka_bare", extra={"client.id": "copy"})

    with KafkaHook("kafka_bare") as hook, pytest.raises(ConnectionConfigError) as raised:
        hook.topic_names()

    assert "bootstrap.servers" in str(raised.value)
    assert "'kafka_bare'" in str(raised.value)


def test_a_refused_property_is_named(connection: Connection, kafka: KafkaBroker) -> None:
    """A value that librdkafka does not take is an error that names connection and property."""
    connection("kafka_odd", extra={"bootstrap.servers": kafka.bootstrap_servers, "socket.timeout.ms": "soon"})

    with KafkaHook("kafka_odd") as hook, pytest.raises(ConnectionConfigError) as raised:
        hook.topic_names()

    assert "'kafka_odd'" in str(raised.value)
    assert "socket.timeout.ms" in str(raised.value)


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
