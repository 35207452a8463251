"""Four tasks that have written to one new topic and end in one moment, and a DAG that is scheduled by the topic."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_provider_kafka_spark.operators.asset_events import announce
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.triggers.new_records import announced_ranges

COUNT = 4
#: Of the test's Airflow; pytest also imports this file, without one.
_CONNECTION = os.environ.get("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "localhost:9092"}}')
SERVER = json.loads(_CONNECTION)["extra"]["bootstrap.servers"]
TOGETHER = Asset(f"kafka://{SERVER}/together")
_READY = Path(os.environ.get("AIRFLOW_HOME", "")) / "together"
_SECONDS = 120.0


class ReplayTogether(ReplayOffsetRangesOperator):
    """It says what a replay says, without one, and ends a second after the last one of all is ready to end."""

    def execute(self, context: Any) -> None:
        number = context["ti"].map_index
        written = {"topic": "together", "partition": number, "from_offset": 0, "until_offset": 10}
        entry = {
            "version": 1,
            "state": "complete",
            "run_id": f"{number:016x}",
            "records_written": 10,
            "offset_ranges": [f"orders:{number}:0:10"],
            "target": SERVER,
            "target_topics": ["together"],
            "target_ranges": [written],
        }
        announce(context, self, entry)

    def post_execute(self, context: Any, result: Any = None) -> None:
        super().post_execute(context, result)
        deadline = time.monotonic() + _SECONDS
        _READY.mkdir(exist_ok=True)
        (_READY / str(context["ti"].map_index)).touch()
        while len(ready := list(_READY.iterdir())) < COUNT:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Only {len(ready)} of {COUNT} tasks were ready within {_SECONDS:g} seconds.")
            time.sleep(0.01)
        time.sleep(max(0.0, max(file.stat().st_mtime for file in ready) + 1 - time.time()))


with DAG("together", schedule=None, is_paused_upon_creation=False):
    ReplayTogether.partial(task_id="replay", target_topic="together").expand(
        offset_ranges=[[f"orders:{number}:0:10"] for number in range(COUNT)]
    )


@task
def announced(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
    """Where the replays wrote."""
    return announced_ranges(triggering_asset_events[TOGETHER])


with DAG("after_together", schedule=[TOGETHER], is_paused_upon_creation=False):
    announced()
