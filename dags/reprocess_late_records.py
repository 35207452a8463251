"""Copy each hour, and later its late records.

What: ``copy`` copies the hour. ``grace`` waits until every partition has a record of half an hour after it, or is idle
for 10 minutes. Then ``arrived`` finds the records since the copy, and ``late`` copies those of them that belong to the
hour. If none arrived, both are skipped after a minute. A manual run needs a logical date, or it has no hour.

Why: producers that were offline write old timestamps after newer ones. Such records are found by offset and selected by
timestamp, and no record is copied twice.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, the topics ``orders`` and ``orders_copy``, and a
running triggerer.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor, KafkaTimestampReachedSensor

HOUR = {"starting_timestamp": "{{ data_interval_start }}", "ending_timestamp": "{{ data_interval_end }}"}
IN_HOUR = "timestamp >= timestamp'{{ data_interval_start }}' and timestamp < timestamp'{{ data_interval_end }}'"

with DAG(
    "reprocess_late_records",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    doc_md=__doc__,
    default_args={"topics": ["orders"], "target_topic": "orders_copy", "retries": 2},
):
    copy = KafkaToKafkaBatchOperator(task_id="copy", exact_window=True, **HOUR)
    end, idle = "{{ data_interval_end + macros.timedelta(minutes=30) }}", timedelta(minutes=10)
    grace = KafkaTimestampReachedSensor(task_id="grace", timestamp=end, idle_after=idle, deferrable=True)
    arrived = KafkaNewRecordsSensor(task_id="arrived", since=copy.output, soft_fail=True, timeout=60, deferrable=True)
    late = ReplayOffsetRangesOperator(task_id="late", offset_ranges=arrived.output, where=IN_HOUR)
    copy >> grace >> arrived
