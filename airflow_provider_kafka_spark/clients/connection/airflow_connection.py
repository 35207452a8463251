"""An Airflow connection -> the configurations of both clients. Its secrets are masked in logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import amask_secret, mask_secret

from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.connection_form import (
    CONN_TYPE,
    KAFKA_TYPES,
    FormFields,
    extra_of_form,
    with_field_names,
)
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, ConnectionNotFoundError

log = logging.getLogger(__name__)

#: The logger of Airflow's masking.
_MASKING = "airflow.sdk._shared.secrets_masker.secrets_masker"


def read_connection(conn_id: str) -> KafkaClientConfig:
    """Fetch a connection and translate it.

    :raises ConnectionConfigError: if it cannot be translated.
    :raises ConnectionNotFoundError: if Airflow does not give it.
    """
    with _naming(conn_id):
        connection = BaseHook.get_connection(conn_id)
        config = _translated(connection, connection.extra_dejson)
    for secret in _secrets_to_mask(config):
        mask_secret(secret)
    return config


async def aread_connection(conn_id: str) -> KafkaClientConfig:
    """:func:`read_connection` without blocking the event loop."""
    with _naming(conn_id):
        connection = await BaseHook.aget_connection(conn_id)
        # It reads files; and Airflow has the Extra without blocking since 3.3.2 only.
        config = await asyncio.to_thread(lambda: _translated(connection, connection.extra_dejson))
    for secret in _secrets_to_mask(config):
        await amask_secret(secret)
    return config


@contextmanager
def _naming(conn_id: str) -> Iterator[None]:
    """Raise failures to read a connection as errors that name it."""
    masking = logging.getLogger(_MASKING)
    masking.addFilter(_is_no_short_value)
    try:
        yield
    except AirflowNotFoundException as error:
        raise _not_found(conn_id) from error
    except RecursionError:
        raise ConnectionConfigError(
            f"The Extra of connection {conn_id!r} must be a JSON object of texts and numbers; it is too deeply nested. "
            "Correct it."
        ) from None
    finally:
        masking.removeFilter(_is_no_short_value)


def _is_no_short_value(record: logging.LogRecord) -> bool:
    """Drop Airflow's warnings that a value is too short to be masked, which it logs for every value of an Extra."""
    return "too short" not in str(record.msg)


def _secrets_to_mask(config: KafkaClientConfig) -> list[str]:
    """The secrets that Airflow can mask; a shorter one is a warning."""
    shortest = conf.getint("logging", "min_length_masked_secret", fallback=5)
    found = [secret for secret in config.secrets if len(secret) >= shortest]
    if len(found) < len(config.secrets):
        log.warning(
            "A secret of connection %r has less than %d characters, which is too few to be masked in logs "
            "([logging] min_length_masked_secret).",
            config.conn_id,
            shortest,
        )
    return found


def _not_found(conn_id: str) -> ConnectionNotFoundError:
    # Airflow says the same of a connection whose request failed, and of one that it cannot parse.
    return ConnectionNotFoundError(
        f"The Kafka connection {conn_id!r} does not exist, or Airflow did not give it: its API did not answer, or the "
        "Extra is too deeply nested. "
        "Add it under Admin > Connections (type 'Kafka (for Spark)'), or set "
        f'AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": '
        '"broker-1:9092"}}\'.'
    )


def _translated(connection: Connection, extra: Any) -> KafkaClientConfig:
    conn_id = connection.conn_id
    if not isinstance(extra, dict):
        raise ConnectionConfigError(
            f'The Extra of connection {conn_id!r} must be a JSON object such as {{"bootstrap.servers": '
            f'"broker-1:9092"}}; got a {type(extra).__name__}. Correct it.'
        )
    has_servers = not extra.keys().isdisjoint(("bootstrap.servers", "metadata.broker.list"))
    if not has_servers and connection.conn_type not in (None, "", *KAFKA_TYPES):
        raise ConnectionConfigError(
            f"The connection {conn_id!r} is of type {connection.conn_type!r}, and its Extra has no "
            "'bootstrap.servers': it leads to no Kafka cluster. Pass the id of a Kafka connection, such as "
            "'kafka_default'."
        )
    if connection.conn_type != CONN_TYPE:
        return configure(conn_id, extra)
    form = FormFields(
        conn_id=conn_id,
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        extra=extra,
    )
    try:
        return replace(configure(conn_id, extra_of_form(form)), has_form=True)
    except ConnectionConfigError as error:
        raise ConnectionConfigError(with_field_names(str(error))) from error
