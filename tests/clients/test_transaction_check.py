from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.transaction_check import check_transactions
from airflow_provider_kafka_spark.core.errors import BrokerError, OptionError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("exists", [False, True])
def test_brokers_that_take_no_such_long_transaction(kafka: KafkaBroker, topic: TopicFactory, *, exists: bool) -> None:
    """The job would fail at its first record, in words that name no setting."""
    name = topic() if exists else None
    with KafkaHook() as hook:
        check_transactions(hook, 60_000, name)
        with pytest.raises(OptionError, match=r"transaction\.max\.timeout\.ms .* must be at least 1,200,000") as raised:
            check_transactions(hook, 1_200_000, name)
    assert "kafka.transaction.timeout.ms" in str(raised.value)
    assert "delivery='at_least_once'" in str(raised.value)


@pytest.mark.parametrize("settings", [{}, {"socket.timeout.ms": 60_000}], ids=["of-the-task", "of-the-socket"])
def test_a_timeout_that_is_longer_than_a_transaction(
    kafka: KafkaBroker, connection: Callable[..., None], settings: dict[str, int]
) -> None:
    """librdkafka refuses a socket's time-out that is longer than a transaction's; the job's client is another one."""
    connection("kafka_default", extra={"bootstrap.servers": kafka.bootstrap_servers, **settings})

    with KafkaHook(timeout=90) as hook:
        check_transactions(hook, 15_000)


@pytest.mark.parametrize("code", [KafkaError.UNSUPPORTED_VERSION, KafkaError.INVALID_REQUEST])
def test_a_managed_service_that_knows_no_transactions(
    connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As the lower tiers of Azure Event Hubs: their brokers refuse the request itself."""

    class Refused:
        def init_transactions(self, _timeout: float) -> None:
            raise KafkaException(KafkaError(code))

    connection("kafka_default", extra={"bootstrap.servers": "hub.servicebus.windows.net:9093"})
    monkeypatch.setattr(KafkaHook, "producer", lambda *_arguments: Refused())

    with KafkaHook() as hook, pytest.raises(BrokerError, match="must have transactions") as raised:
        check_transactions(hook, 60_000)

    assert "Event Hubs" in str(raised.value)
    assert "delivery='at_least_once'" in str(raised.value)


def test_brokers_without_transactions(broker_without_tokens: KafkaBroker, connection: Callable[..., None]) -> None:
    """As where there are fewer brokers than replicas of the transactions' log."""
    connection("kafka_default", extra={"bootstrap.servers": broker_without_tokens.bootstrap_servers})
    with KafkaHook(timeout=3) as hook, pytest.raises(BrokerError, match="must have transactions") as raised:
        check_transactions(hook, 60_000)
    assert "delivery='at_least_once'" in str(raised.value)
