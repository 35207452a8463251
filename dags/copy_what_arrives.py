"""Copy orders when they arrive.

What: a watcher checks ``orders`` every 30 seconds and makes an event of the asset ``orders_arrived`` for new records. A
run, which may be for several events, continues a stream to ``orders_copy``.

Why: the DAG is scheduled by the data. An event may be made twice, when the triggerer is restarted; the stream's
checkpoint knows what was copied, so the second run has nothing to do. The asset's URI is only a name.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, both topics, a running triggerer, and the
variable ``checkpoints``, a folder that the worker can write.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger

ORDERS = Asset(
    "orders_arrived",
    uri="x-kafka-spark://orders_arrived",
    watchers=[AssetWatcher(name="orders", trigger=KafkaNewRecordsTrigger(topics=["orders"], poll_interval=30))],
)

with DAG("copy_what_arrives", schedule=[ORDERS], max_active_runs=1, doc_md=__doc__, tags=["kafka", "spark"]):
    KafkaToKafkaAvailableNowOperator(
        task_id="copy",
        topics=["orders"],
        starting_offsets="earliest",
        checkpoint_location="{{ var.value.checkpoints }}/copy_what_arrives",
        target_topic="orders_copy",
        retries=2,
    )
