"""How a connection of Airflow is read, and what of it logs show from then on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.log import redact

from airflow_provider_kafka_spark.clients.connection.airflow_connection import aread_connection, read_connection
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, ConnectionNotFoundError
from airflow_provider_kafka_spark.submission.spark_connection import SparkConnection
from tests.execution_api import ExecutionApi

_DEEP = "[" * 10_000 + "]" * 10_000
_SERVERS = {"bootstrap.servers": "b:9092"}
#: Each of them has values of less than five characters.
_SECURED = {
    **_SERVERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "pa55-of-ann",
    "ssl.endpoint.identification.algorithm": "none",
}

Read = Callable[[str], KafkaClientConfig]


@pytest.fixture(params=["task", "triggerer"])
def read(request: pytest.FixtureRequest) -> Read:
    """Both ways of reading a connection."""
    return read_connection if request.param == "task" else lambda conn_id: asyncio.run(aread_connection(conn_id))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"extra": _DEEP}, id="extra"),
        pytest.param({"extra": f'{{"bootstrap.servers": "b:9092", "client.id": {_DEEP}}}'}, id="value"),
        pytest.param({"conn_type": "kafka_spark", "host": "b", "extra": {"librdkafka": _DEEP}}, id="field-of-the-form"),
    ],
)
def test_deeply_nested_json_is_a_connection_error(
    connection: Callable[..., None], read: Read, fields: dict[str, Any]
) -> None:
    """Which names the connection, as every other error in it."""
    connection("deep", **fields)

    with pytest.raises(ConnectionConfigError, match=r"'deep'.*nested") as refused:
        read("deep")
    assert len(str(refused.value)) < 500


def test_a_connection_of_another_type_is_named(connection: Callable[..., None], read: Read) -> None:
    """Unless its Extra leads to Kafka."""
    connection("spark_default", conn_type="spark", host="local", extra={"deploy-mode": "client"})
    connection("of_http", conn_type="http", extra=_SERVERS)

    assert read("of_http").bootstrap_servers == "b:9092"
    with pytest.raises(ConnectionConfigError, match=r"is of type 'spark'.*such as 'kafka_default'"):
        read("spark_default")


def test_a_whole_connection_of_deeply_nested_json(monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    """Airflow itself parses what its environment has."""
    monkeypatch.setenv("AIRFLOW_CONN_DEEP", f'{{"conn_type": "kafka", "extra": {_DEEP}}}')

    with pytest.raises(ConnectionConfigError, match=r"'deep'.*nested"):
        read("deep")


@pytest.mark.parametrize("broken", ["", "connections/"])
def test_one_that_airflow_did_not_give_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, read: Read, broken: str
) -> None:
    """Airflow says the same of a connection that is not there and of one whose request was not answered."""
    ExecutionApi(broken=(broken,) if broken else ()).install(monkeypatch)

    for conn_id, reading in (("payroll", read), ("cluster", lambda conn_id: SparkConnection(conn_id).master)):
        with pytest.raises(ConnectionNotFoundError, match=rf"'{conn_id}' does not exist, or Airflow") as raised:
            reading(conn_id)
        assert raised.value.retriable


def test_short_values_are_not_taken_for_secrets(
    connection: Callable[..., None], read: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of every task would say that a secret is not masked, though it is."""
    from airflow.sdk._shared.secrets_masker import SecretsMasker

    # It warns once in the life of a process.
    monkeypatch.setattr(SecretsMasker, "_has_warned_short_secret", False)
    caplog.set_level(logging.WARNING)
    connection("secured", extra=_SECURED)

    read("secured")

    assert "too short" not in caplog.text
    assert redact("by pa55-of-ann") == "by ***"


def test_a_secret_that_is_too_short_is_named(
    connection: Callable[..., None], read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    """Since a log would show it."""
    caplog.set_level(logging.WARNING)
    connection("secured", extra={**_SECURED, "sasl.password": "pa5"})

    read("secured")

    assert "A secret of connection 'secured' has less than 5 characters" in caplog.text
    assert "pa5" not in caplog.text


def test_what_airflow_takes_for_secret_is_masked_before_it_is_read(connection: Callable[..., None], read: Read) -> None:
    """An error that quotes a value of a connection quotes no password."""
    connection("odd", extra=json.dumps({**_SERVERS, "my.password": "pa55-of-nobody"}))

    with pytest.raises(ConnectionConfigError, match=r"my\.password"):
        read("odd")
    assert redact("pa55-of-nobody") == "***"
