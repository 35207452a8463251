"""Copy each hour of a topic exactly once.

What: every run copies the records of its own hour from ``orders`` to ``orders_copy``, and emits an event of the asset
``orders_copy`` with the copied offsets.

Why: the window is cut by offset, so consecutive runs and backfills copy every record once.
``CronDataIntervalTimetable`` gives each run an hour to copy; plain ``schedule="@hourly"`` gives an empty interval in
Airflow 3. A run from the trigger form, or over the REST API, needs a logical date and copies the last whole hour before
it; without one it fails. ``airflow dags trigger`` takes the last whole hour before now. For records that come late with
an old timestamp, see ``reprocess_late_records``.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

with DAG(
    "hourly_window_copy",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=2,
    doc_md=__doc__,
    tags=["kafka", "spark"],
):
    KafkaToKafkaBatchOperator(
        task_id="copy",
        topics=["orders"],
        starting_timestamp="{{ data_interval_start }}",
        ending_timestamp="{{ data_interval_end }}",
        target_topic="orders_copy",
        outlets=[Asset("orders_copy", uri="x-kafka-spark://orders_copy")],
        retries=2,
    )
