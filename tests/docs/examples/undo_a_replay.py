from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

with DAG("undo_a_replay", schedule=None) as dag:
    KafkaToKafkaBatchOperator(
        task_id="without_the_wrong_replay",
        topics=["orders_replay"],
        target_topic="orders_clean",
        where="not coalesce(exists(headers, h -> h.key = 'x-kafka-spark-source' and "
        "startswith(string(h.value), '5c1fb7a0f6e24c36|')), false)",
        preserve_partition=True,
    )
    KafkaToKafkaBatchOperator(
        task_id="remove_the_wrong_replay",
        topics=["orders_replay"],
        target_topic="orders_replay",
        allow_same_topic=True,
        where="value is not null and exists(headers, h -> h.key = 'x-kafka-spark-source' and "
        "startswith(string(h.value), '5c1fb7a0f6e24c36|'))",
        columns={"value": "null"},
        include_headers=False,
        preserve_partition=True,
        preserve_timestamps=False,
    )
