"""Replay what no run has copied.

What: the ledger's asset events of the last month say which offsets of ``orders`` were copied to ``orders_copy``, by
whatever DAG. Every offset between them that no event has is replayed.

Why: windows were skipped, deleted or never run. A run that failed, runs or waits for its retry has no event, although
it may have copied a part: clear its task, which copies the rest, or wait for it, before this runs. The command
``python -m airflow_provider_kafka_spark.coverage orders`` lists such runs.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, both topics, and runs of ``hourly_window_copy``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("replay_gaps", schedule=None, max_active_runs=1, doc_md=__doc__, tags=["kafka", "spark"]):

    @task(inlets=[COPIES])
    def find_gaps(*, inlet_events: Any) -> list[dict[str, Any]]:
        month = datetime.now(timezone.utc) - timedelta(days=31)
        return uncovered(inlet_events[COPIES].after(month.isoformat()), "orders", target_topic="orders_copy")

    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=find_gaps(),  # type: ignore[arg-type]
        target_topic="orders_copy",
        on_empty="skip",
        retries=2,
    )
