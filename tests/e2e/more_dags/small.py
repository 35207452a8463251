"""One that succeeds, and one that does not."""

from __future__ import annotations

from airflow.sdk import DAG, task

with DAG("plans", schedule=None):

    @task
    def plan() -> int:
        return 1

    plan()

with DAG("fails", schedule=None):

    @task
    def fail() -> float:
        return 1 / 0

    fail()
