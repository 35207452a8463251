"""What an operator refuses for a managed service before it plans anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JarError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.token_policy import DelegationTokenPolicy
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster

_LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
_SERVERS = "bootstrap.demo.europe-west1.managedkafka.my-project.cloud.goog:9092"


@pytest.fixture
def cluster(connection: Callable[..., None]) -> SparkCluster:
    connection("spark_default", conn_type="spark", host="local[2]")
    connection("kafka_default", extra={"bootstrap.servers": "broker-1:9092"})
    connection("google", extra={"bootstrap.servers": _SERVERS, **_LOGIN})
    return SparkCluster("spark_default", kafka_connector=None, report_location=None, submit_options={})


@pytest.mark.parametrize(("source", "target"), [("google", "kafka_default"), ("kafka_default", "google")])
def test_a_missing_handler(cluster: SparkCluster, source: str, target: str) -> None:
    with pytest.raises(JarError, match="GcpLoginCallbackHandler"):
        DelegationTokenPolicy().check(cluster, KafkaHook(source), KafkaHook(target))


def test_a_delegation_token(cluster: SparkCluster) -> None:
    with pytest.raises(ConnectionConfigError, match=r"connection 'google' .*issues none"):
        DelegationTokenPolicy("target").check(cluster, KafkaHook("kafka_default"), KafkaHook("google"))
