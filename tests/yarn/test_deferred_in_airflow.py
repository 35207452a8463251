"""A deferred copy in a real Airflow: scheduler, worker and triggerer, with a real YARN."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.services.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

_SECONDS = 240
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
        _until(airflow, lambda: bool(airflow.get("dags?dag_id_pattern=deferred")["dags"]))
        seen = set[str]()
        good = airflow.post("dags/deferred/dagRuns", {"logical_date": None})["dag_run_id"]
        _until(airflow, lambda: _state(airflow, good, seen) == "success")
        path = f"dags/deferred/dagRuns/{good}/taskInstances/replay/xcomEntries/return_value?stringify=false"
        result = airflow.get(path)["value"]
        assert "deferred" in seen
        assert result["records_written"] == 100
        assert sorted(int(r.value or b"") for r in kafka_broker.consume(target)) == list(range(100))

        bad = airflow.post("dags/deferred/dagRuns", {"logical_date": None, "conf": {"pace": 1}})["dag_run_id"]
        _until(airflow, lambda: _yarn_states(yarn_cluster, bad) == ["RUNNING"])
        _until(airflow, lambda: _state(airflow, bad, seen) == "deferred")
        # Only the cluster has the driver's output.
        _until(airflow, lambda: "Progress: " in _log(airflow, bad))
        airflow.patch(f"dags/deferred/dagRuns/{bad}/taskInstances/replay", {"new_state": "failed"})
        _until(airflow, lambda: _yarn_states(yarn_cluster, bad) == ["KILLED"])


def _state(airflow: AirflowStandalone, run: str, seen: set[str]) -> str:
    (ti,) = airflow.get(f"dags/deferred/dagRuns/{run}/taskInstances")["task_instances"]
    assert ti["state"] != "failed", airflow.tail(150)
    seen.add(str(ti["state"]))
    return str(ti["state"])


def _log(airflow: AirflowStandalone, run: str) -> str:
    return json.dumps(airflow.get(f"dags/deferred/dagRuns/{run}/taskInstances/replay/logs/1?full_content=true"))


def _yarn_states(yarn: YarnCluster, name: str) -> list[str]:
    return [app["state"] for app in yarn.applications() if app["name"] == name]


def _until(airflow: AirflowStandalone, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, airflow.tail(150)
        time.sleep(0.5)
