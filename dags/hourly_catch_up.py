"""Catch up with a topic every hour, and let lag monitors see it.

What: every run copies what came into ``orders`` since the run before to ``orders_copy``, in micro-batches, and stops.
The consumer group ``copy-of-orders`` shows how far it is.

Why: no window to compute, nothing twice and nothing left out, whatever the schedule; the checkpoint remembers where the
stream stands. Nobody may be a member of the group: it is only for monitors, and is never read back.

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
