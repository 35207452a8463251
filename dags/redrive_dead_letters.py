"""Send dead letters back to the topics that they failed in.

What: each run takes what has come to ``orders.DLT`` since the last one. A record goes back to its topic, which a header
of Spring, of Kafka Connect or of this package names, with one more attempt in the header ``redrive-attempts``. After
three attempts, or without a topic that is named here, it goes to ``orders.parked``.

Why: the consumers get them again when the cause is repaired, slowly, and a record that always fails does not go around
for ever. A header of a record decides only between topics that are named here.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, all topics, and the variable ``checkpoints``.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator

ATTEMPTS = "coalesce(try_cast(header_text('redrive-attempts') AS int), 0)"
OURS = "try_element_at(split(header_text('x-kafka-spark-source'), '[|]'), 2)"
TOPIC = f"coalesce(header_text('kafka_dlt-original-topic'), header_text('__connect.errors.topic'), {OURS})"
KEPT = "filter(headers, h -> h.key <> 'redrive-attempts' AND h.key NOT LIKE 'kafka_dlt-%')"
ATTEMPT = f"array(named_struct('key', 'redrive-attempts', 'value', binary(string({ATTEMPTS} + 1))))"

with DAG("redrive_dead_letters", schedule=None, max_active_runs=1, doc_md=__doc__, tags=["kafka", "spark"]):
    KafkaToKafkaAvailableNowOperator(
        task_id="redrive",
        topics=["orders.DLT"],
        starting_offsets="earliest",
        checkpoint_location="{{ var.value.checkpoints }}/redrive_dead_letters",
        target_topic_expr=f"if({ATTEMPTS} < 3 AND {TOPIC} IN ('orders', 'orders_replay'), {TOPIC}, 'orders.parked')",
        columns={"headers": f"concat(coalesce({KEPT}, array()), {ATTEMPT})"},
        max_records_per_second=1_000,
        retries=2,
    )
