from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, OptionError
from airflow_provider_kafka_spark.core.tokens.spark_tokens import cluster_settings, obtained_by_spark, without_login


def kerberos(conn_id: str, servers: str = "broker-1:9093,broker-2:9093", **extra: Any) -> KafkaClientConfig:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": "copier@EXAMPLE.COM",
        "sasl.kerberos.keytab": "/etc/copier.keytab",
    }
    return translate(
        conn_id, {"bootstrap.servers": servers, **login, **{k.replace("_", "."): v for k, v in extra.items()}}
    )


PLAIN = translate(
    "plain",
    {
        "bootstrap.servers": "broker-3:9094",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "hunter2",
    },
)


def test_one_cluster_for_each_connection() -> None:
    settings = cluster_settings([kerberos("eu.orders"), kerberos("us", "us-1:9093", sasl_kerberos_service_name="kfk")])
    eu, us = "spark.kafka.clusters.eu_orders-0", "spark.kafka.clusters.us-1"
    assert settings == {
        f"{eu}.auth.bootstrap.servers": "broker-1:9093,broker-2:9093",
        f"{eu}.target.bootstrap.servers.regex": r"broker\-1\:9093|broker\-2\:9093",
        f"{eu}.security.protocol": "SASL_SSL",
        f"{eu}.sasl.kerberos.service.name": "kafka",
        f"{eu}.sasl.token.mechanism": "SCRAM-SHA-512",
        f"{us}.auth.bootstrap.servers": "us-1:9093",
        f"{us}.target.bootstrap.servers.regex": r"us\-1\:9093",
        f"{us}.security.protocol": "SASL_SSL",
        f"{us}.sasl.kerberos.service.name": "kfk",
        f"{us}.sasl.token.mechanism": "SCRAM-SHA-512",
    }


@pytest.mark.parametrize("other", ["broker-1x9093", "abroker-1:9093", "broker-1:90930", "broker-11:9093", "broker"])
def test_the_pattern_matches_no_other_server(other: str) -> None:
    pattern = cluster_settings([kerberos("c", "broker-1:9093,b.x:1")])[
        "spark.kafka.clusters.c-0.target.bootstrap.servers.regex"
    ]
    assert re.fullmatch(pattern, "broker-1:9093")
    assert re.fullmatch(pattern, "b.x:1")
    assert not re.fullmatch(pattern, other)


def test_trust_goes_with_the_settings_and_the_login_does_not() -> None:
    config = kerberos("c", ssl_endpoint_identification_algorithm="none")
    settings = cluster_settings([config])
    assert settings["spark.kafka.clusters.c-0.kafka.ssl.endpoint.identification.algorithm"] == ""
    assert not [name for name in settings if "jaas" in name]
    assert "copier.keytab" not in str(settings)
    left = without_login(config)
    assert left.files == ()
    assert not [name for name in left.spark_options(by_name=True) if name.startswith("kafka.sasl.")]


def test_only_kerberos_is_spark_s() -> None:
    config = kerberos("c")
    assert obtained_by_spark([config, PLAIN, config]) == [config]
    with pytest.raises(OptionError, match=r"'plain' has PLAIN.*Use True"):
        obtained_by_spark([PLAIN, PLAIN])


def test_two_connections_to_one_cluster_are_refused() -> None:
    """Spark itself would fail on the executors."""
    with pytest.raises(ConnectionConfigError, match="both lead to broker-2:9093"):
        obtained_by_spark([kerberos("a"), kerberos("b", "broker-2:9093")])


def test_nor_may_one_with_another_login_lead_there() -> None:
    """Spark would put its token in the place of that login."""
    with pytest.raises(ConnectionConfigError, match=r"both lead to broker-3:9094"):
        obtained_by_spark([PLAIN, kerberos("a", "broker-3:9094")])
