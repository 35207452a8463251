"""The DAGs of the runs that the tests of the page write down: none of them is run."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, Param, task

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("hourly_copy", schedule="@hourly", start_date=datetime(2026, 11, 1, tzinfo=timezone.utc), catchup=False):
    KafkaToKafkaBatchOperator(task_id="copy", topics=["orders"], target_topic="orders_copy")


@task
def copy_by_function() -> None:
    """Stands for a function that calls an operator."""


with DAG("function_copy", schedule=None):
    copy_by_function()

with DAG(
    "replay_ranges",
    schedule=None,
    tags=["kafka-spark-replay"],
    params={"offset_ranges": Param([], type="array"), "target_topic": "orders_copy", "plan_only": Param(False)},
):
    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges="{{ params.offset_ranges | tojson }}",
        target_topic="{{ params.target_topic }}",
        plan_only="{{ params.plan_only }}",
    )
