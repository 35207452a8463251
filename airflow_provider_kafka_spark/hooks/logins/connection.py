"""A Kafka connection as Airflow has it -> the configurations of both clients. Its secrets are masked in logs from here on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import amask_secret, mask_secret

from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.logins.connection_form import (
    CONN_TYPE,
    FormFields,
    extra_of_form,
    in_words_of_the_form,
)
from airflow_provider_kafka_spark.hooks.logins.files import configure


@dataclass(frozen=True)
class KafkaConnection:
    """A connection that was read.

    :param config: its configurations for the two clients.
    :param has_form: whether its user knows it by the fields of our own type's form, and not by the names of properties.
    """

    config: KafkaClientConfig
    has_form: bool

    def worded(self, message: str) -> str:
        """A message that names properties, in words that the user of this connection knows."""
        return in_words_of_the_form(message) if self.has_form else message


def read_connection(conn_id: str) -> KafkaConnection:
    """Fetch a connection and translate it.

    :raises ConnectionConfigError: if it is missing or cannot be translated.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error
    read = _translated(connection, connection.extra_dejson)
    for secret in read.config.secrets:
        mask_secret(secret)
    return read


async def aread_connection(conn_id: str) -> KafkaConnection:
    """:func:`read_connection` without blocking the event loop."""
    try:
        connection = await BaseHook.aget_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error
    # It reads files.
    read = await asyncio.to_thread(_translated, connection, await connection.aextra_dejson())
    for secret in read.config.secrets:
        await amask_secret(secret)
    return read


def _missing(conn_id: str) -> ConnectionConfigError:
    return ConnectionConfigError(
        f"The Kafka connection {conn_id!r} does not exist. Add it under Admin > Connections (type 'kafka_spark' or 'kafka'), or set "
        f'AIRFLOW_CONN_{conn_id.upper()}=\'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "broker-1:9092"}}}}\'.'
    )


def _translated(connection: Connection, extra: Any) -> KafkaConnection:
    conn_id = connection.conn_id
    if not isinstance(extra, dict):
        raise ConnectionConfigError(
            f'The Extra of connection {conn_id!r} must be a JSON object such as {{"bootstrap.servers": "broker-1:9092"}}; got a {type(extra).__name__}. Correct it.'
        )
    if connection.conn_type != CONN_TYPE:
        return KafkaConnection(configure(conn_id, extra), has_form=False)
    form = FormFields(conn_id, connection.host, connection.port, connection.login, connection.password, extra)
    try:
        return KafkaConnection(configure(conn_id, extra_of_form(form)), has_form=True)
    except ConnectionConfigError as error:
        raise ConnectionConfigError(in_words_of_the_form(str(error))) from error
