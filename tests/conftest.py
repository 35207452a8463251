"""What all tests share: an Airflow home of their own, connections, and the real broker and Spark."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

# Airflow reads its environment when it is first imported, which the imports of the tests do.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ.update(
    AIRFLOW_HOME=_HOME.name,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).parent.parent / "dags"),
    AIRFLOW__LOGGING__LOGGING_LEVEL="INFO",
)

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker  # noqa: E402

pytest_plugins = ["airflow_provider_kafka_spark.testing.pytest_plugin"]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Define an Airflow connection for this test: ``connection("kafka_default", extra={...})``."""

    def define(conn_id: str, **fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", **fields}))

    return define


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, connection: Callable[..., None]) -> KafkaBroker:
    """The broker, with ``kafka_default`` leading to it and ``spark_default`` to a local Spark."""
    connection("kafka_default", extra={"bootstrap.servers": kafka_broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")
    return kafka_broker
