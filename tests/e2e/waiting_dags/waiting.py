"""Deferred sensors on one connection, and a DAG that is scheduled by a watcher: what the test of the triggerer runs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger, announced_ranges

SENSORS, INTERVAL = 12, 2.0
LONG_AGO = datetime(2026, 1, 1, tzinfo=timezone.utc)
# Airflow on one SQLite file may fail a task now and then; permanent errors are not retried.
COMMON = {
    "poke_interval": INTERVAL,
    "timeout": 300,
    "deferrable": True,
    "retries": 2,
    "retry_delay": timedelta(seconds=1),
}

ARRIVED = Asset(
    "arrived",
    uri="x-kafka-spark://arrived",
    watchers=[
        AssetWatcher(
            name="arrived", trigger=KafkaNewRecordsTrigger(["watched"], since="earliest", poll_interval=INTERVAL / 2)
        )
    ],
)

with DAG("waiting", schedule="@once", start_date=LONG_AGO, catchup=False):
    KafkaNewRecordsSensor.partial(task_id="new", topics=["waited"], **COMMON).expand(
        since=[{"waited": {"0": 0, "1": 0}}] * SENSORS
    )
    KafkaTimestampReachedSensor(task_id="reached", topics=["waited"], timestamp=LONG_AGO, **COMMON)
    KafkaNewRecordsSensor(
        task_id="impossible", topics=["waited"], since={"waited": {"0": 0, "9": 0}}, missing_topic="wait", **COMMON
    )
    KafkaNewRecordsSensor(
        task_id="too_late",
        topics=["never"],
        since="earliest",
        missing_topic="wait",
        soft_fail=True,
        **{**COMMON, "timeout": 3},
    )
    KafkaTimestampReachedSensor(
        task_id="poked", topics=["waited"], timestamp=LONG_AGO, **{**COMMON, "deferrable": False, "mode": "reschedule"}
    )
    ConsumerGroupLagSensor(task_id="lag", group_id="nobody", topics=["waited"], max_lag=1_000, **COMMON)


@task
def announced(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
    """What the watcher has announced for this run."""
    return announced_ranges(triggering_asset_events[ARRIVED])


# Airflow starts the watchers of a DAG when it reads its file, and not those of a DAG that is paused then.
with DAG("woken", schedule=[ARRIVED], is_paused_upon_creation=False):
    announced()
