"""A Spark connection, read and checked."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_kafka_spark.core.connection.connection_form import KAFKA_TYPES
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, ConnectionNotFoundError
from airflow_provider_kafka_spark.toolchain.connector import is_coordinate, is_sparks_module

#: Keys in the Extra: for the connector and the report's place in place of the operator's arguments, and for the history
#: server.
CONNECTOR_EXTRA, REPORT_LOCATION_EXTRA, HISTORY_SERVER_EXTRA = "kafka-connector", "report-location", "history-server"
_TEXT_EXTRAS = ("spark-binary", "deploy-mode", CONNECTOR_EXTRA, REPORT_LOCATION_EXTRA, HISTORY_SERVER_EXTRA)


class SparkConnection:
    """A connection of the type ``spark``, as the Spark provider has it. It is read when it is first asked for."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id

    @cached_property
    def _connection(self) -> Any:
        try:
            connection = BaseHook.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            # The Spark provider would silently use master=yarn.
            raise ConnectionNotFoundError(
                f"The Spark connection {self.conn_id!r} does not exist, or Airflow's API did not answer. Add it under "
                "Admin > Connections (type 'spark'), or set "
                f'AIRFLOW_CONN_{self.conn_id.upper()}=\'{{"conn_type": "spark", "host": "local[*]"}}\'.'
            ) from error
        if connection.conn_type in KAFKA_TYPES:
            raise ConnectionConfigError(
                f"spark_conn_id must be the id of a Spark connection, such as 'spark_default'; {self.conn_id!r} "
                f"is of type {connection.conn_type!r}. Correct the type under Admin > Connections, or name another; "
                "Kafka connections are source_conn_id and target_conn_id."
            )
        return connection

    @cached_property
    def extra(self) -> dict[str, Any]:
        """Its Extra.

        :raises ConnectionConfigError: if what a job reads of it is malformed.
        """
        where = f"The Extra of the Spark connection {self.conn_id!r}"
        try:
            extra = self._connection.extra_dejson
        except RecursionError:
            raise ConnectionConfigError(
                f"{where} must be a JSON object; it is too deeply nested. Correct it."
            ) from None
        if not isinstance(extra, dict):
            raise ConnectionConfigError(
                f'{where} must be a JSON object such as {{"deploy-mode": "client"}}; got a {type(extra).__name__}. '
                "Correct it."
            )
        for name in _TEXT_EXTRAS:
            if not isinstance(extra.get(name, ""), (str, type(None))):
                raise ConnectionConfigError(
                    f"{where} must have a text for {name!r}; got a {type(extra[name]).__name__}. Correct it."
                )
        if extra.get("deploy-mode") not in (None, "", "client", "cluster"):
            raise ConnectionConfigError(
                f"{where} must have 'client' or 'cluster' for 'deploy-mode'; got {extra['deploy-mode']!r}. Correct it."
            )
        return extra

    @property
    def master(self) -> str:
        """The master URL, as the Spark provider builds it."""
        kind, host, port = self._connection.conn_type, str(self._connection.host or ""), self._connection.port
        is_whole = kind == "spark" and host and ("://" in host or not port)
        return (host if is_whole else f"{kind}://{host}") + (f":{port}" if port else "")

    @property
    def connector(self) -> str | None:
        """The Kafka connector that it names.

        :raises ConnectionConfigError: if it is a Maven module other than Spark's, whose code would run in the driver.
        """
        wanted = self.extra.get(CONNECTOR_EXTRA)
        if wanted is None or (isinstance(wanted, str) and (not is_coordinate(wanted) or is_sparks_module(wanted))):
            return wanted
        raise ConnectionConfigError(
            f"{CONNECTOR_EXTRA!r} in the Extra of connection {self.conn_id!r} must be a folder or glob of jars, "
            f"'provided', or 'org.apache.spark:spark-sql-kafka-0-10_2.13:<version>'; got {wanted!r}. Pass another "
            "module as kafka_connector to the operator."
        )
