"""Copy orders to another cluster, without what points to a person.

What: every night the last day of ``orders`` goes from production to the topic of the same name at staging, at no more
than 5,000 records per second. Keys are hashed, so all orders of a customer stay together; customer and city are masked;
of the headers only the channel is kept. A tombstone stays one, because null is masked to null.

Why: staging needs real traffic without personal data. Unmasked records never reach the target's cluster.

Prerequisites: the connections ``kafka_default`` (production), ``kafka_staging`` and ``spark_default``, and both topics.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

MASKED = r"""regexp_replace(string(value), '"(customer|city)":("[^"]*"|[^,}]*)', '"$1":"***"')"""

with DAG(
    "copy_to_staging",
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
):
    KafkaToKafkaBatchOperator(
        task_id="copy",
        topics=["orders"],
        starting_timestamp="{{ data_interval_start }}",
        ending_timestamp="{{ data_interval_end }}",
        target_conn_id="kafka_staging",
        target_topic="orders",
        columns={"key": "sha2(key, 256)", "value": MASKED, "headers": "filter(headers, h -> h.key = 'channel')"},
        max_records_per_second=5_000,
        retries=2,
    )
