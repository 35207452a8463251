"""A separate Airflow for tests and the demo: a home folder, a SQLite database, and owned processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.settings import VARIABLE_PREFIX

_POLL_SECONDS = 0.1
_MIGRATE_SECONDS = 180.0
_LOCK_SECONDS = 60
#: Airflow reads every variable with this prefix.
_AIRFLOW_PREFIX = "AIRFLOW_"


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """The home of an Airflow that is separate from all others on this machine.

    It does not inherit another Airflow's variables from the caller's environment, and writes only to ``folder`` and
    ``scratch``.

    :param folder: the ``AIRFLOW_HOME``; created if it does not exist, and kept.
    :param dags: the folder with the DAG files.
    :param scratch: a folder for temporary files, which the caller removes; without spaces in its path, for Spark.
    :param connections: Airflow connections by id, each as the JSON form has it, such as ``{"conn_type": "spark",
        "host": "local[2]"}``.
    :param settings: more Airflow settings as environment variables, such as ``{"AIRFLOW__CORE__PARALLELISM": "4"}``.
    """

    folder: Path
    dags: Path
    scratch: Path
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        """The folder with all logs."""
        return self.folder / "logs"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a process of this Airflow."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(VARIABLE_PREFIX) or not name.startswith((_AIRFLOW_PREFIX, "_AIRFLOW_"))
        }
        return {
            **inherited,
            # `airflow standalone` starts its parts by that name.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self.scratch),
            # What Spark keeps here stays when it is killed.
            "SPARK_LOCAL_DIRS": str(self.scratch),
            "NO_COLOR": "1",
            "AIRFLOW_HOME": str(self.folder),
            # Many processes share one SQLite file, and on a busy machine its default of 5 seconds is too short to wait
            # for a lock.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}?timeout={_LOCK_SECONDS}",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            # On a machine that stands still for a minute, a DAG must not disappear.
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
            "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "300",
            # Nor is a part of Airflow dead whose heartbeat is late.
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "120",
            "AIRFLOW__TRIGGERER__RUNNER_HEALTH_CHECK_THRESHOLD": "120",
            "AIRFLOW__DAG_PROCESSOR__HEALTH_CHECK_THRESHOLD": "120",
            "AIRFLOW__API__WORKERS": "1",
            # A scheduler may start long before the API server, and its tasks then fail after some 10 seconds.
            "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "20",
            "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "5",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **self.settings,
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(fields) for name, fields in self.connections.items()},
        }

    @property
    def database(self) -> Path:
        """The metadata database."""
        return self.folder / "airflow.db"

    def migrate(self) -> None:
        """Create or migrate the metadata database.

        The first database of an installation is cached, and later homes start with a copy of it.

        :raises LocalServiceError: it could not be done
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Database and logs have records of the demo's users.
        self.folder.chmod(0o700)
        # Airflow takes seconds to check that there is nothing to migrate.
        marker, installed = self.folder / "migrated", _installed_distributions()
        if self.database.exists() and marker.exists() and marker.read_text() == installed:
            return
        kept = cache_root() / "airflow" / f"{installed}.db"
        if kept.exists() and not self.database.exists():
            _copy_atomically(kept, self.database)
        else:
            is_new = not self.database.exists()
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            self.run(command, self.logs / "db-migrate.log", timeout=_MIGRATE_SECONDS)
            if is_new:
                kept.parent.mkdir(parents=True, exist_ok=True)
                _copy_atomically(self.database, kept)
        marker.write_text(installed)

    def fail_unfinished_runs(self) -> None:
        """Fail the unfinished runs of an Airflow that was stopped here, so that the next one does not resume them with
        another broker's offsets.
        """
        unfinished = (
            "state IS NULL OR state IN ('running', 'queued', 'scheduled', 'up_for_retry', 'deferred', 'restarting')"
        )
        with closing(sqlite3.connect(self.database, timeout=10.0)) as database, database:
            for table in ("dag_run", "task_instance"):
                database.execute(f"UPDATE {table} SET state = 'failed' WHERE {unfinished}")  # noqa: S608 - constants

    def process(self, command: Sequence[str], log: Path) -> OwnedProcess:
        """A process of this Airflow, not yet started."""
        log.parent.mkdir(parents=True, exist_ok=True)
        return OwnedProcess(command, log, name=" ".join(command[2:]), env=self.environment, cwd=self.scratch)

    def run(
        self, command: Sequence[str], log: Path, *, timeout: float, watch: Callable[[], None] = lambda: None
    ) -> None:
        """Run a command of this Airflow to its end.

        :param log: overwritten with its output.
        :param timeout: seconds that it may take
        :raises LocalServiceError: it failed, or took longer
        """
        log.unlink(missing_ok=True)
        deadline = time.monotonic() + timeout
        with self.process(command, log) as process:
            while process.running and time.monotonic() < deadline:
                watch()
                time.sleep(_POLL_SECONDS)
            watch()
            code = process.returncode
        if code != 0:
            got = f"exit code {code}" if code is not None else f"no end after {timeout:g} seconds"
            raise LocalServiceError(f"{process.name!r} must succeed; got {got}. Read its log.\n{process.tail(60)}")


def _installed_distributions() -> str:
    """A digest of all names and versions: other providers may have their own tables."""
    names = sorted({f"{found.name}=={found.version}" for found in distributions()})
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _copy_atomically(source: Path, target: Path) -> None:
    """Copy a file so that other processes see the whole file or none."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)
