"""A shop's orders on the real broker, an Airflow of its own, and a mark by which every process of a test is found."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.orders import orders
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from tests.e2e.process_mark import ProcessMark
from tests.e2e.shop import Shop
from tests.services.dag_runs import DagRuns

_CHECKOUT = Path(__file__).resolve().parents[2]
DAGS = _CHECKOUT / "dags"
#: Of ``docs/how-to/run-by-another-operator.md``.
RUN_BY_ANOTHER = _CHECKOUT / "tests/docs/examples/run_by_spark_submit.py"
README = _CHECKOUT / "README.md"
GETTING_STARTED = _CHECKOUT / "docs/getting-started.md"
#: As many as the sensor of an example waits for.
NEW_ORDERS = 100


def printed_dag() -> str:
    """The DAG that the README shows."""
    found = re.search(r"```python\n(.+?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def produce_orders(shop: Shop) -> None:
    """Orders that arrive now."""
    shop.broker.produce("orders", [Record(b"%d" % i, b"{}", partition=i % 4) for i in range(NEW_ORDERS)])
    shop.orders[:] = shop.broker.consume("orders")


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
    """A migrated Airflow whose connections lead to the shop and to a local Spark, with all examples and the README's
    DAG.

    Its path has a space, as users' paths may.
    """
    assert "AIRFLOW_HOME" in os.environ, "the caller's Airflow, which must not be touched"
    dags = tmp_path_factory.mktemp("dags") / "all"
    shutil.copytree(DAGS, dags)
    for folder in ("more_dags", "waiting_dags"):
        shutil.copytree(Path(__file__).parent / folder, dags, dirs_exist_ok=True)
    shutil.copy(RUN_BY_ANOTHER, dags)
    (dags / "printed.py").write_text(printed_dag())
    scratch = tmp_path_factory.mktemp("scratch")
    home = AirflowHome(
        tmp_path_factory.mktemp("airflow home"),
        dags,
        scratch,
        connections={
            "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": shop.broker.bootstrap_servers}},
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        },
        settings={
            "AIRFLOW_VAR_CHECKPOINTS": str(tmp_path_factory.mktemp("checkpoints")),
            "AIRFLOW_VAR_SPARK_JOBS": str(scratch / "jobs"),
            "AIRFLOW_VAR_SPARK_REPORTS": str(scratch / "reports"),
            "AIRFLOW_VAR_KAFKA_CONNECTOR": ",".join(map(str, connector_jars(None))),
            # Its first copy gives it a name.
            "AIRFLOW__KAFKA_SPARK__DEPLOYMENT": "",
            # A scheduler runs what a test unpauses, and not every example at once.
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            # No file changes while a test runs.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        },
    )
    home.migrate()
    return home


@pytest.fixture(scope="session")
def dag_runs(airflow_home: AirflowHome) -> Iterator[DagRuns]:
    """Runs DAGs of :func:`airflow_home` by ``dag.test()``, and writes their lineage to a file."""
    transport = {"type": "file", "log_file_path": str(airflow_home.logs / "lineage.json"), "append": True}
    settings = {**airflow_home.settings, "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
    with DagRuns(replace(airflow_home, settings=settings)) as runs:
        yield runs
