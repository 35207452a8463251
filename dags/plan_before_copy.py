"""Check the plan before anything is copied.

What: ``plan`` resolves the requested bounds to exact offsets and starts no job; ``approve`` fails for a plan that is
too large or misses records; ``copy`` carries out exactly the approved plan, whatever has arrived in the meantime.

Why: a mistake in a start or a pattern is found before it costs hours of cluster time.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and the topics ``orders`` and ``orders_copy``.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.operators.sealed_plan import checked_plan


@task
def approve(plan: dict[str, Any], most_records: int = 1_000_000, **context: Any) -> dict[str, Any]:
    """Pass the plan on, if it may be carried out, and is as it was made."""
    checked_plan(plan, context["ti"])
    if plan["planned_records"] > most_records or plan["missing"]:
        raise AirflowFailException(f"Not approved: {plan['planned_records']:,} records, {plan['missing']:,} missing.")
    return plan


with DAG("plan_before_copy", schedule=None, doc_md=__doc__, tags=["kafka", "spark"]):
    plan = KafkaToKafkaBatchOperator(task_id="plan", topics=["orders"], target_topic="orders_copy", plan_only=True)
    ReplayOffsetRangesOperator(task_id="copy", plan=approve(plan.output), retries=2)
