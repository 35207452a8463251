"""Write runs into the database of a test's Airflow, as the operators leave them: ``python ledger.py PIPE DAGS``.

Each line of PIPE names a file with a list of ``{"extra", "timestamp", ...}`` for events of the ledger's asset, and a
list of task instances with what their task state store holds. It runs in that Airflow's environment.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import insert, select

from airflow_provider_kafka_spark.operators.asset_events import COPIES


def main(file: Path, dags: Path) -> None:
    content: dict[str, list[dict[str, Any]]] = json.loads(file.read_text())
    with create_session() as session:
        if session.get(DagBundleModel, "dags-folder") is None:
            session.add(DagBundleModel(name="dags-folder"))
            session.commit()
    bag = DagBag(dag_folder=str(dags), bundle_name="dags-folder")
    if bag.import_errors:
        raise SystemExit(str(bag.import_errors))
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        # The DAGs declare it.
        ledger = session.scalars(select(AssetModel.id).where(AssetModel.name == COPIES.name)).one()
        rows = [
            {
                "asset_id": ledger,
                "extra": event["extra"],
                "timestamp": datetime.fromisoformat(event["timestamp"]),
                "source_dag_id": event.get("dag_id", "hourly_copy"),
                "source_run_id": event.get("dag_run_id", "manual"),
                "source_task_id": event.get("source_task_id", "copy") and event.get("task_id", "copy"),
                "source_map_index": event.get("map_index", -1),
            }
            for event in content["events"]
        ]
        if rows:
            session.execute(insert(AssetEvent), rows)
        for task in content["tasks"]:
            _write_task(session, task)


def _write_task(session: Any, task: dict[str, Any]) -> None:
    dag = SerializedDagModel.get_dag(task["dag_id"], session=session)
    started = datetime.fromisoformat(task["started_at"])
    run = session.scalar(select(DagRun).where(DagRun.dag_id == task["dag_id"], DagRun.run_id == task["dag_run_id"]))
    if run is None:
        run = dag.create_dagrun(
            run_id=task["dag_run_id"],
            run_after=started,
            run_type=DagRunType.from_run_id(task["dag_run_id"]),
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=started,
            session=session,
        )
    (instance,) = [ti for ti in run.get_task_instances(session=session) if ti.task_id == task["task_id"]]
    # A task that has stored nothing has not begun.
    instance.state, instance.updated_at = task["state"], started
    instance.start_date = started if task["store"] else None
    instance.end_date = started if task["state"] == "failed" else None
    for key, value in task["store"].items():
        session.add(
            TaskStateStoreModel(
                dag_run_id=run.id,
                dag_id=task["dag_id"],
                run_id=task["dag_run_id"],
                task_id=task["task_id"],
                map_index=-1,
                key=key,
                value=json.dumps(value),
            )
        )


if __name__ == "__main__":
    with Path(sys.argv[1]).open() as lines:
        for line in lines:
            content = Path(line.strip())
            main(content, Path(sys.argv[2]))
            content.with_suffix(".done").touch()
