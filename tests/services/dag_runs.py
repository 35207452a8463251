"""DAG runs one after the other in one process, since Airflow's start takes longer than many DAGs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer

#: Runs the DAGs.
PROGRAM = Path(__file__).with_name("dag_process")
_POLL_SECONDS = 0.1


class DagRuns(ManagedServer):
    """A process that runs DAGs by ``dag.test()``, inside ``with``.

    :param home: where it runs; its database has to be migrated.
    """

    def __init__(self, home: AirflowHome) -> None:
        self._home = home
        self._pipe = home.scratch / f"dag-runs-{time.time_ns()}"
        command = [sys.executable, str(PROGRAM), "--requests", str(self._pipe)]
        self._process = home.process(command, home.logs / "dag-runs.log")
        self._requests: IO[str] | None = None

    def start(self) -> None:
        os.mkfifo(self._pipe, 0o600)
        self._process.start()
        # Opened for reading and writing, it does not wait for a reader.
        self._requests = os.fdopen(os.open(self._pipe, os.O_RDWR), "w")

    def stop(self) -> None:
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.close()
        self._process.stop()
        self._pipe.unlink(missing_ok=True)

    def run(
        self,
        dag_id: str,
        log: Path,
        *,
        logical_date: str | None = None,
        timeout: float = 600.0,
        watch: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Run one DAG to its end, and return its result: see ``dag_process/__main__.py``.

        :param log: overwritten with its output.
        :param logical_date: ISO 8601; this moment by default.
        :param timeout: seconds that it may take; after that the process is stopped.
        :param watch: called repeatedly while it runs.
        :raises LocalServiceError: the run did not succeed, or not in time.
        """
        if self._requests is None:
            raise self._not_running()
        result = self._home.scratch / f"{dag_id}-{time.time_ns()}.json"
        code = Path(f"{result}.code")
        log.unlink(missing_ok=True)
        request = {"dag_id": dag_id, "result": str(result), "log": str(log), "logical_date": logical_date}
        self._requests.write(f"{json.dumps(request)}\n")
        self._requests.flush()
        deadline = time.monotonic() + timeout
        while not code.exists() and self._process.running and time.monotonic() < deadline:
            watch()
            time.sleep(_POLL_SECONDS)
        watch()
        if not code.exists():
            self.stop()
            got = "no end in time" if time.monotonic() >= deadline else f"exit code {self._process.returncode}"
        else:
            got = f"exit code {code.read_text()}"
            code.unlink()
        if got != "exit code 0":
            end = log.read_text(errors="replace")[-6000:] if log.exists() else self._process.tail(60)
            raise LocalServiceError(f"The run of DAG {dag_id!r} must succeed; got {got}. The end of {log}:\n{end}")
        content: dict[str, Any] = json.loads(result.read_text())
        result.unlink()
        return content
