"""Replay exactly the new records, when there are some.

What: ``new`` waits in the triggerer for at least 100 records after those of the last run, or for fewer if the first is
five minutes old; ``replay`` copies exactly these ranges from ``orders`` to ``orders_replay``.

Why: nothing runs while nothing arrives, and each record is in the ranges of exactly one run. The progress is in an
Airflow variable, because a manual run without a date cannot find the XCom of an earlier run. No other run copies the
ranges of a failed replay: clear only that task. If the whole run is cleared, ``new`` finds newer records, and those of
the failed replay are left out.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics. To start again, delete the
variable ``replay_new_records``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Variable, task

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor


@task
def remember(offsets: dict[str, Any]) -> None:
    Variable.set("replay_new_records", offsets, serialize_json=True)


start = datetime(2026, 1, 1, tzinfo=timezone.utc)
# Two runs at a time would find the same records.
with DAG("replay_new_records", schedule="@hourly", start_date=start, catchup=False, max_active_runs=1, doc_md=__doc__):
    since = "{{ var.json.get('replay_new_records', 'earliest') | tojson }}"
    wait: dict[str, Any] = {"min_records": 100, "max_wait_for_min": timedelta(minutes=5), "deferrable": True}
    new = KafkaNewRecordsSensor(task_id="new", topics=["orders"], since=since, **wait)
    ranges: Any = new.output
    replay = ReplayOffsetRangesOperator(task_id="replay", offset_ranges=ranges, target_topic="orders_replay", retries=2)
    remember(new.output["offsets"]) >> replay
