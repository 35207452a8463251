"""Run DAGs by ``dag.test()``, and write their results to files, in a process that ``tests.services.dag_runs`` starts.

``python tests/services/dag_process DAG_ID RESULT [LOGICAL_DATE]`` in the environment of an Airflow runs one. RESULT
becomes a JSON file: ``{"run_id": ..., "state": ..., "data_interval": [start, end],
"tasks": {TASK_ID: {MAP_INDEX: {"state": ..., "xcom": {KEY: VALUE}}}}}``.

``python tests/services/dag_process --requests PIPE`` runs one after the other, see :func:`serve`. The folder has
nothing else: Python puts it before all others in which it looks for modules.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any


def main(argv: Sequence[str]) -> int:
    """Return 0 if the run succeeded."""
    if argv[0] == "--requests":
        return serve(Path(argv[1]))
    return _run(argv[0], Path(argv[1]), argv[2] if len(argv) > 2 else None)


def serve(requests: Path) -> int:
    """Run the request in each line of a pipe, until its other end is closed.

    A request is ``{"dag_id": ..., "result": ..., "log": ..., "logical_date": ...}`` in JSON. All output of its run goes
    to its log; its exit code is in the file RESULT.code when everything else is written.
    """
    with requests.open() as lines:
        for line in lines:
            request = json.loads(line)
            with Path(request["log"]).open("ab") as log:
                for stream in (1, 2):
                    os.dup2(log.fileno(), stream)
            try:
                code = _run(request["dag_id"], Path(request["result"]), request["logical_date"])
            except Exception:  # noqa: BLE001 - the next request is another DAG's
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            # A finished task leaves its signal handler, which kills ended processes.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            written = Path(f"{request['result']}.partial")
            written.write_text(str(code))
            written.replace(f"{request['result']}.code")
    return 0


def _run(dag_id: str, result: Path, date: str | None) -> int:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import timezone

    logical_date = datetime.fromisoformat(date) if date else timezone.utcnow()
    bag = DagBag()
    dag = bag.dags.get(dag_id)
    if dag is None:
        sys.stderr.write(f"There is no DAG {dag_id!r} in {bag.dag_folder}; import errors: {bag.import_errors}\n")
        return 1
    run = dag.test(logical_date=logical_date)
    result.write_text(json.dumps(_result(run)))
    return 0 if run.state == "success" else 1


def _result(run: Any) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    with create_session() as session:
        for instance in run.get_task_instances(session=session):
            values = session.query(XComModel).filter_by(
                dag_id=run.dag_id, run_id=run.run_id, task_id=instance.task_id, map_index=instance.map_index
            )
            tasks.setdefault(instance.task_id, {})[str(instance.map_index)] = {
                "state": str(instance.state),
                "xcom": {value.key: XComModel.deserialize_value(value) for value in values},
            }
    interval = [run.data_interval_start, run.data_interval_end]
    return {
        "run_id": run.run_id,
        "state": str(run.state),
        "data_interval": [moment and moment.isoformat() for moment in interval],
        "tasks": tasks,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
