"""Client mode on a real YARN: the driver runs on this machine, executors elsewhere, and both find the logins under one
name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import task_context
from tests.services.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_login_reaches_driver_and_executors(
    yarn_cluster: YarnCluster, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a file that is not left, here or on YARN."""
    for name, value in {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "client"})
    password = "pa55<of>&alice"
    with KafkaBroker(sasl_users={"alice": password}) as broker:
        connection("kafka_default", extra=broker.sasl_client_config("alice"))
        for name in ("orders", "copy"):
            broker.create_topic(name, 2)
        broker.produce("orders", [Record(b"k", b"%d" % i, partition=i % 2) for i in range(100)])
        operator = KafkaToKafkaBatchOperator(
            task_id="t",
            topics=["orders"],
            target_topic="copy",
            # Spark attaches pages to its UI while YARN adds a filter to it, and may fail by that on a busy machine.
            conf={**yarn_cluster.spark_conf(), "spark.ui.enabled": "false"},
            num_executors=1,
            driver_memory="512m",
            executor_memory="512m",
        )
        operator.name = "client-mode"
        result = operator.execute(task_context())  # type: ignore[arg-type]
        assert len(broker.consume("copy")) == 100

    assert result["records_written"] == 100
    assert password not in json.dumps(result)
    assert [path for path in yarn_cluster.staging_dir.rglob("*") if path.suffix == ".properties"] == []
