from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.transaction_check import check_transactions, remove_progress
from airflow_provider_kafka_spark.core.errors import BrokerError, OptionError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.run_identity import PREFIX
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


def test_brokers_that_take_no_such_long_transaction(kafka: KafkaBroker) -> None:
    """The job would fail at its first record, in words that name no setting."""
    with KafkaHook() as hook:
        check_transactions(hook, 60_000)
        with pytest.raises(OptionError, match=r"transaction\.max\.timeout\.ms .* must be at least 1,200,000") as raised:
            check_transactions(hook, 1_200_000)
    assert "kafka.transaction.timeout.ms" in str(raised.value)
    assert "delivery='at_least_once'" in str(raised.value)


def test_brokers_without_transactions(connection: Callable[..., None]) -> None:
    """As where there are fewer brokers than replicas of the transactions' log."""
    with KafkaBroker(properties={"transaction.state.log.replication.factor": "3"}) as broker:
        connection("kafka_default", extra={"bootstrap.servers": broker.bootstrap_servers})
        with KafkaHook(timeout=5) as hook, pytest.raises(BrokerError, match="must have transactions") as raised:
            check_transactions(hook, 60_000)
    assert "delivery='at_least_once'" in str(raised.value)


def test_progress_is_removed_as_far_as_it_is_there(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """It is tidied up after a success, and nothing depends on it."""
    partition, group = TopicPartition(topic(), 0), f"{PREFIX}0123456789abcdef-task"
    with KafkaHook() as hook:
        ConsumerGroup(hook, group).commit({partition: 5})
        remove_progress(hook, [group, f"{PREFIX}unknown"])
        assert ConsumerGroup(hook, group).committed([partition]) == {}
