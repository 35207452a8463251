"""Copy orders when they arrive.

What: a watcher checks ``orders`` every 30 seconds and makes an event of the asset ``orders_arrived`` for new records. A
run, which may be for several events, copies exactly the announced offsets to ``orders_copy``.

Why: the DAG is scheduled by the data. The watcher stores its progress with the asset, so a restart of the triggerer
loses nothing. The asset's URI is only a name.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, both topics, and a running triggerer.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger, announced_ranges

ORDERS = Asset(
    "orders_arrived",
    uri="x-kafka-spark://orders_arrived",
    watchers=[AssetWatcher(name="orders", trigger=KafkaNewRecordsTrigger(topics=["orders"], poll_interval=30))],
)


@task
def announced(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
    """The ranges of all events that this run is for."""
    return announced_ranges(triggering_asset_events[ORDERS])


with DAG("copy_what_arrives", schedule=[ORDERS], doc_md=__doc__, tags=["kafka", "spark"]):
    ReplayOffsetRangesOperator(task_id="copy", offset_ranges=announced(), target_topic="orders_copy", retries=2)
