"""Replay exactly the new records, when there are some.

What: ``new`` waits in the triggerer for at least 100 records after those of the last run, or for fewer if the first is
five minutes old; ``replay`` copies exactly these ranges from ``orders`` to ``orders_replay``.

Why: nothing runs while nothing arrives, and each record is in the ranges of exactly one run, whatever is retried or
cleared.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics. To start again, delete the
variable ``kafka_spark_last_run:replay_new_records:new``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor

start = datetime(2026, 1, 1, tzinfo=timezone.utc)
# Two runs at a time would find the same records.
with DAG("replay_new_records", schedule="@hourly", start_date=start, catchup=False, max_active_runs=1, doc_md=__doc__):
    wait: dict[str, Any] = {"min_records": 100, "max_wait_for_min": timedelta(minutes=5), "deferrable": True}
    new = KafkaNewRecordsSensor(task_id="new", topics=["orders"], since="last_run", retries=2, **wait)
    ranges: Any = new.output
    ReplayOffsetRangesOperator(task_id="replay", offset_ranges=ranges, target_topic="orders_replay", retries=2)
