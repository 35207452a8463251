"""Catch up with a topic every hour, and show the progress to lag monitors.

What: every run copies the records that ``orders`` got since the previous run to ``orders_copy``, in micro-batches, and
stops. The consumer group ``copy-of-orders`` shows the progress.

Why: there is no window to compute, and no record is copied twice or left out, whatever the schedule; the checkpoint
stores the position of the stream. The group must have no members: it is only for monitors, and is never read back.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, both topics, and the Airflow variable
``checkpoints``: a folder, or a URI such as ``s3a://bucket/checkpoints``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator

with DAG(
    "hourly_catch_up",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["kafka", "spark"],
):
    KafkaToKafkaAvailableNowOperator(
        task_id="catch_up",
        topics=["orders"],
        starting_offsets="earliest",
        checkpoint_location="{{ var.value.checkpoints }}/hourly_catch_up",
        max_offsets_per_trigger=1_000_000,
        commit_group_id="copy-of-orders",
        target_topic="orders_copy",
        retries=2,
        retry_delay=timedelta(minutes=1),
    )
