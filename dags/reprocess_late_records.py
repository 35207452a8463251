"""Copy each hour, and later its late records.

What: ``copy`` copies the hour. ``grace`` waits until every partition has a record of half an hour after it, or is idle
for 10 minutes. Then ``late`` copies what arrived since and belongs to the hour. A manual run needs a logical date.

Why: producers that were offline write old timestamps after newer ones. They are found by offset; none is copied twice.

Prerequisites: ``kafka_default`` and ``spark_default``, the topics ``orders`` and ``orders_copy``, a running triggerer.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from airflow_provider_kafka_spark.core.offsets.compact_result import whole_result
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaTimestampReachedSensor

HOUR = {"starting_timestamp": "{{ data_interval_start }}", "ending_timestamp": "{{ data_interval_end }}"}
IN_HOUR = "timestamp >= timestamp'{{ data_interval_start }}' and timestamp < timestamp'{{ data_interval_end }}'"

with DAG(
    "reprocess_late_records",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
    default_args={"topics": ["orders"], "target_topic": "orders_copy", "retries": 2},
):

    @task
    def ends(copied: dict) -> dict:
        return {"orders": {str(r["partition"]): r["until_offset"] for r in whole_result(copied)["ranges"]}}

    copy = KafkaToKafkaBatchOperator(task_id="copy", exact_window=True, **HOUR)
    end, idle = "{{ data_interval_end + macros.timedelta(minutes=30) }}", timedelta(minutes=10)
    grace = KafkaTimestampReachedSensor(task_id="grace", timestamp=end, idle_after=idle, deferrable=True)
    late = KafkaToKafkaBatchOperator(task_id="late", starting_offsets=ends(copy.output), where=IN_HOUR, on_empty="skip")
    copy >> grace >> late
