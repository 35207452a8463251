"""A shop's orders on the real broker, an Airflow of its own, and a mark by which every process of a test is found."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.orders import orders
from tests.e2e.process_mark import ProcessMark
from tests.e2e.shop import Shop

DAGS = Path(__file__).resolve().parents[2] / "dags"


@pytest.fixture(scope="session")
def shop(kafka_broker: KafkaBroker) -> Shop:
    end = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for name in ("orders", "orders_copy", "orders_replay"):
        if name in kafka_broker.topics():
            kafka_broker.delete_topic(name)
        kafka_broker.create_topic(name, 4)
    kafka_broker.produce("orders", orders(24_000, 4, end - timedelta(hours=24), timedelta(hours=24)))
    return Shop(kafka_broker, end, kafka_broker.consume("orders"))


@pytest.fixture
def process_mark() -> ProcessMark:
    return ProcessMark()


@pytest.fixture
def marked(process_mark: ProcessMark, monkeypatch: pytest.MonkeyPatch) -> ProcessMark:
    """The mark on everything that this test starts from now on."""
    for name, value in process_mark.environment.items():
        monkeypatch.setenv(name, value)
    return process_mark


@pytest.fixture(scope="session")
def airflow_home(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    """A migrated Airflow whose connections lead to the shop and to a local Spark. Its path has a space, as users' paths may."""
    assert "AIRFLOW_HOME" in os.environ, "the caller's Airflow, which must not be touched"
    home = AirflowHome(
        tmp_path_factory.mktemp("airflow home"),
        DAGS,
        tmp_path_factory.mktemp("scratch"),
        connections={
            "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": shop.broker.bootstrap_servers}},
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        },
        settings={
            "AIRFLOW_VAR_CHECKPOINTS": str(tmp_path_factory.mktemp("checkpoints")),
            # A scheduler runs what a test unpauses, and not every example at once.
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        },
    )
    home.migrate()
    return home
