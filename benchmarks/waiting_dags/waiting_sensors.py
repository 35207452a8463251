"""Deferred sensors for the benchmark of the triggerer; environment variables give their number and kind."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any

from airflow.sdk import DAG

COUNT = int(os.environ["WAITING_SENSORS"])
INTERVAL = float(os.environ["WAITING_INTERVAL"])
TOPICS = [os.environ["WAITING_TOPIC"]]


def _sensor(kind: str) -> tuple[Any, dict[str, Any]]:
    if kind == "ours":
        from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor

        return KafkaNewRecordsSensor, {"since": "earliest", "deferrable": True}
    from airflow.providers.apache.kafka.sensors.kafka import AwaitMessageSensor

    return AwaitMessageSensor, {"apply_function": None, "poll_interval": INTERVAL}


with DAG("waiting_sensors", schedule="@once", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False):
    sensor, parameters = _sensor(os.environ["WAITING_KIND"])
    sensor.partial(
        task_id="wait", poke_interval=INTERVAL, timeout=1_800, retries=3, retry_delay=1, **parameters
    ).expand(topics=[TOPICS] * COUNT)
