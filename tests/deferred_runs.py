"""What tests of deferred tasks ask a real Airflow. The DAG is ``deferred``, and its task ``replay``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone

_SECONDS = 240
_RUNS = "dags/deferred/dagRuns"


def start(airflow: AirflowStandalone, **conf: object) -> str:
    """Start a run, and return its id."""
    until(airflow, lambda: bool(airflow.get("dags?dag_id_pattern=deferred")["dags"]))
    return str(airflow.post(_RUNS, {"logical_date": None, "conf": conf})["dag_run_id"])


def state(airflow: AirflowStandalone, run: str, seen: set[str]) -> str:
    """The state of the task, which is added to those that were seen."""
    (ti,) = airflow.get(f"{_RUNS}/{run}/taskInstances")["task_instances"]
    assert ti["state"] != "failed", airflow.tail(150)
    seen.add(str(ti["state"]))
    return str(ti["state"])


def result(airflow: AirflowStandalone, run: str) -> dict[str, Any]:
    path = f"{_RUNS}/{run}/taskInstances/replay/xcomEntries/return_value?stringify=false"
    found: dict[str, Any] = airflow.get(path)["value"]
    return found


def log(airflow: AirflowStandalone, run: str) -> str:
    """That of the first try."""
    return json.dumps(airflow.get(f"{_RUNS}/{run}/taskInstances/replay/logs/1?full_content=true"))


def fail(airflow: AirflowStandalone, run: str) -> None:
    """Mark the task failed, as a person does."""
    airflow.patch(f"{_RUNS}/{run}/taskInstances/replay", {"new_state": "failed"})


def clear(airflow: AirflowStandalone, run: str) -> None:
    body = {"dry_run": False, "dag_run_id": run, "task_ids": ["replay"], "only_failed": False}
    airflow.post("dags/deferred/clearTaskInstances", body)


def until(airflow: AirflowStandalone, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, airflow.tail(150)
        time.sleep(0.5)
