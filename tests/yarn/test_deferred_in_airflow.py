"""A deferred copy in a real Airflow: scheduler, worker and triggerer, with a real YARN."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests import deferred_runs
from tests.services.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

_DAG = """
from airflow.sdk import DAG
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("deferred", schedule=None, params={{"pace": 0}}):
    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=["{source}:0:0:100"],
        target_topic="{target}",
        max_records_per_second="{{{{ params.pace or '' }}}}",
        report_location="{reports}",
        conf={conf!r},
        num_executors=1,
        driver_memory="512m",
        executor_memory="512m",
        deferrable=True,
        name="{{{{ run_id }}}}",
    )
"""


@pytest.mark.timeout(900)
def test_a_copy_waits_without_a_worker_and_ends_with_its_task(
    kafka_broker: KafkaBroker, yarn_cluster: YarnCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """One run ends well. Of another one a person marks the task failed, which ends the application."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i) for i in range(100)])
    dags, reports, scratch = (tmp_path / name for name in ("dags", "reports", "scratch"))
    for folder in (dags, reports, scratch):
        folder.mkdir()
    texts: dict[str, Any] = {"source": source, "target": target, "reports": reports.as_uri()}
    (dags / "deferred.py").write_text(_DAG.format(**texts, conf=yarn_cluster.spark_conf()))
    home = AirflowHome(
        tmp_path / "home",
        dags,
        scratch,
        connections={
            "kafka_default": {
                "conn_type": "kafka",
                "extra": {"bootstrap.servers": kafka_broker.bootstrap_servers},
            },
            "spark_default": {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}},
        },
        settings={**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable},
    )
    home.migrate()

    with AirflowStandalone(home) as airflow:
        seen = set[str]()
        good = deferred_runs.start(airflow)
        deferred_runs.until(airflow, lambda: deferred_runs.state(airflow, good, seen) == "success")
        assert "deferred" in seen
        assert deferred_runs.result(airflow, good)["records_written"] == 100
        assert sorted(int(r.value or b"") for r in kafka_broker.consume(target)) == list(range(100))

        bad = deferred_runs.start(airflow, pace=1)
        deferred_runs.until(airflow, lambda: _yarn_states(yarn_cluster, bad) == ["RUNNING"])
        deferred_runs.until(airflow, lambda: deferred_runs.state(airflow, bad, seen) == "deferred")
        # Only the cluster has the driver's output.
        deferred_runs.until(airflow, lambda: "Progress: " in deferred_runs.log(airflow, bad))
        deferred_runs.fail(airflow, bad)
        deferred_runs.until(airflow, lambda: _yarn_states(yarn_cluster, bad) == ["KILLED"])


def _yarn_states(yarn: YarnCluster, name: str) -> list[str]:
    return [app["state"] for app in yarn.applications() if app["name"] == name]
