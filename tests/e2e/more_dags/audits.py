"""An audit of what a task of another DAG has returned last, and one of a task that there is not."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator

with DAG("audit_of_another_dag", schedule=None):
    AuditReplayOperator(task_id="audit", of="replay_last_night.replay")

with DAG("audit_of_nothing", schedule=None):
    AuditReplayOperator(task_id="audit", of="replay_last_night.nothing")
