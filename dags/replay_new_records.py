"""Replay exactly the records that are new, when there are some.

What: ``new`` waits in the triggerer for records behind those of the last run, at least 100 or five minutes' worth; ``replay`` copies exactly the ranges it found from ``orders`` to ``orders_replay``.

Why: nothing runs while nothing arrives, each record is in the ranges of exactly one run, and what is replayed is what was found, whatever arrives meanwhile. ``wait_for_downstream`` keeps a run from
going on behind one whose replay failed.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor

with DAG(
    "replay_new_records",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    doc_md=__doc__,
    tags=["kafka", "spark"],
):
    new = KafkaNewRecordsSensor(
        task_id="new",
        topics=["orders"],
        since="{{ (ti.xcom_pull(task_ids='new', key='offsets', include_prior_dates=True) or 'earliest') | tojson }}",
        min_records=100,
        max_wait_for_min=timedelta(minutes=5),
        deferrable=True,
        wait_for_downstream=True,
    )
    ReplayOffsetRangesOperator(task_id="replay", offset_ranges=new.output, target_topic="orders_replay")
