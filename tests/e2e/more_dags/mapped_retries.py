"""Copies of a mapped group and of a mapped task that fail after they have written; a retry has other ranges."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Context, task, task_group

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

TARGETS = {"target_topic": "orders_replay", "retries": 1, "retry_delay": timedelta(0)}


class FailsOnce(ReplayOffsetRangesOperator):
    """Its worker dies after the copy."""

    def execute(self, context: Context) -> Any:
        result = super().execute(context)
        if context["ti"].try_number == 1:
            raise RuntimeError("died")
        return result


with DAG("mapped_retries", schedule=None):

    @task
    def items() -> list[str]:
        return ["orders:0:0:10", "orders:0:100:110"]

    @task_group
    def group(item: Any) -> None:
        FailsOnce(task_id="copy", offset_ranges=[item, "orders:1:0:1{{ ti.try_number }}"], **TARGETS)

    group.expand(item=items())
    FailsOnce.partial(task_id="copy", **TARGETS).expand(
        offset_ranges=[["orders:1:100:11{{ ti.try_number }}"], ["orders:1:200:21{{ ti.try_number }}"]]
    )
