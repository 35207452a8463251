"""Replay what no run of another DAG has copied.

What: the asset events of ``hourly_window_copy`` say which offsets of ``orders`` were copied. Every offset between them
that no event has is replayed.

Why: windows were skipped, deleted or never run. A run that failed, runs or waits for its retry has no event, although
it may have copied a part: clear its task, which copies the rest, or wait for it, before this runs. The command
``python -m airflow_provider_kafka_spark.coverage orders`` lists such runs.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, both topics, and runs of ``hourly_window_copy``.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

ORDERS_COPY = Asset("orders_copy", uri="x-kafka-spark://orders_copy")

with DAG("replay_gaps", schedule=None, max_active_runs=1, doc_md=__doc__, tags=["kafka", "spark"]):

    @task(inlets=[ORDERS_COPY])
    def find_gaps(*, inlet_events: Any) -> list[dict[str, Any]]:
        return uncovered(inlet_events[ORDERS_COPY], "orders", target_topic="orders_copy")

    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=find_gaps(),  # type: ignore[arg-type]
        target_topic="orders_copy",
        outlets=[ORDERS_COPY],
        on_empty="skip",
        retries=2,
    )
