"""Deferred copies in a real Airflow, with its scheduler, worker and triggerer, on YARN: two runs in a row, a clear, and
a run that a person ends. What a trigger does on Kubernetes is in ``tests/kubernetes``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.services.airflow_standalone import AirflowStandalone
from tests.services.yarn_cluster import YarnCluster

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.long,
    pytest.mark.timeout(1_500),
]

_SECONDS = 240
_RUNS = "dags/deferred/dagRuns"
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
        deferrable=True,
        **{options!r},
    )
"""


def test_runs_in_a_row_a_clear_and_an_end(
    kafka_broker: KafkaBroker, topic: TopicFactory, yarn_cluster: YarnCluster, tmp_path: Path
) -> None:
    """Each run has a driver of its own, and a clear finds that everything is there. Of the last run a person marks the
    task failed, which ends its driver.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i) for i in range(100)])
    dags, reports, scratch = (tmp_path / name for name in ("dags", "reports", "scratch"))
    for folder in (dags, reports, scratch):
        folder.mkdir()
    reports.chmod(0o777)
    texts, name = {"source": source, "target": target, "reports": reports.as_uri()}, f"deferred-{uuid4().hex[:8]}"
    small = {"num_executors": 1, "driver_memory": "512m", "executor_memory": "512m"}
    options = {"conf": yarn_cluster.spark_conf(), "name": name, **small}
    (dags / "deferred.py").write_text(_DAG.format(**texts, options=options))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka_broker.bootstrap_servers}}
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    connections = {"kafka_default": kafka, "spark_default": spark}
    settings = {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}
    home = AirflowHome(tmp_path / "home", dags, scratch, connections=connections, settings=settings)
    home.migrate()

    with AirflowStandalone(home) as airflow:
        seen = set[str]()

        def until(condition: Callable[[], bool]) -> None:
            deadline = time.monotonic() + _SECONDS
            while not condition():
                assert time.monotonic() < deadline, airflow.tail(150)
                time.sleep(0.5)

        def start(**conf: object) -> str:
            until(lambda: bool(airflow.get("dags?dag_id_pattern=deferred")["dags"]))
            return str(airflow.post(_RUNS, {"logical_date": None, "conf": conf})["dag_run_id"])

        def state(run: str) -> str:
            (ti,) = airflow.get(f"{_RUNS}/{run}/taskInstances")["task_instances"]
            assert ti["state"] != "failed", airflow.tail(150)
            seen.add(str(ti["state"]))
            return str(ti["state"])

        def drivers() -> list[str]:
            return [app["state"] for app in yarn_cluster.applications() if app["name"] == name]

        def is_done(run: str) -> Callable[[], bool]:
            return lambda: state(run) == "success"

        first, second = start(), start()
        for run in (first, second):
            until(is_done(run))
            found = airflow.get(f"{_RUNS}/{run}/taskInstances/replay/xcomEntries/return_value?stringify=false")
            assert found["value"]["records_written"] == 100
        assert "deferred" in seen
        assert drivers() == ["FINISHED"] * 2
        # A task that is cleared while its run ends is not scheduled again.
        until(lambda: str(airflow.get(f"{_RUNS}/{first}")["state"]) == "success")
        body = {"dry_run": False, "dag_run_id": first, "task_ids": ["replay"], "only_failed": False}
        airflow.post("dags/deferred/clearTaskInstances", body)
        until(lambda: state(first) != "success")
        until(is_done(first))
        values = sorted(int(r.value or b"") for r in kafka_broker.consume(target))
        assert values == sorted([*range(100), *range(100)])

        third = start(pace=1)
        until(lambda: "RUNNING" in drivers())
        until(lambda: state(third) == "deferred")
        # Only the cluster has the driver's output.
        log = f"{_RUNS}/{third}/taskInstances/replay/logs/1?full_content=true"
        until(lambda: "Progress: " in json.dumps(airflow.get(log)))
        airflow.patch(f"{_RUNS}/{third}/taskInstances/replay", {"new_state": "failed"})
        until(lambda: "RUNNING" not in drivers())
