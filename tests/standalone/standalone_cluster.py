"""A real standalone Spark cluster on this machine, by what pip's pyspark brings: one Master, one Worker."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

_START_SECONDS = 180.0
_DEPLOY = "org.apache.spark.deploy"
#: Spark itself gives the files of a job the mode that the worker's mask lets it.
_OURS_ONLY = ("sh", "-c", 'umask 077 && exec "$@"', "sh")
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_WEB = re.compile(r"Bound MasterWebUI to \S+, and started at (http://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master (spark://\S+)")


class StandaloneCluster(ManagedServer):
    """A standalone cluster with one worker, which accepts applications inside ``with`` and ends after it, with its
    files.

    It listens on ports of the loopback interface that the system chooses.
    """

    def __init__(self) -> None:
        self.master = ""
        self._web_address = ""
        self._folder: Path | None = None
        self._daemons: list[OwnedProcess] = []

    @property
    def work_dir(self) -> Path:
        """Where each executor has its working folder, with its logs."""
        return self._home / "work"

    @property
    def local_dir(self) -> Path:
        """Where executors keep what they fetch and spill."""
        return self._home / "local"

    @property
    def folder(self) -> Path:
        """The folder of all that, and of the logs of master and worker."""
        return self._home

    @property
    def log(self) -> str:
        """The ends of both logs, for the message of a failing test."""
        return "\n".join(daemon.tail() for daemon in self._daemons)

    def applications(self) -> dict[str, str]:
        """The state of every application, by its id."""
        state = self._state()
        return {app["id"]: app["state"] for app in (*state["activeapps"], *state["completedapps"])}

    def wait_until_idle(self, timeout: float = 120.0) -> None:
        """Return when no application has executors any more, and the worker has cleaned up after them.

        :raises LocalServiceError: it was not in time.
        """
        deadline = time.monotonic() + timeout
        while self._state()["coresused"] or list(self.local_dir.glob("*/executor-*")):
            if time.monotonic() > deadline:
                raise LocalServiceError(
                    f"Every executor must end within {timeout:g} seconds; got {self.applications()}.\n{self.log}"
                )
            time.sleep(0.2)

    def start(self) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="spark-standalone-"))
        try:
            for name in ("work", "local", "tmp"):
                (folder / name).mkdir()
            port = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
            log = self._start_daemon("master.Master", *port)
            self.master = self._wait_for(_MASTER, log)
            self._web_address = self._wait_for(_WEB, log)
            # Nobody checks that they exist.
            limits = ("--cores", "4", "--memory", "4g", "--work-dir", str(self.work_dir))
            self._wait_for(_REGISTERED, self._start_daemon("worker.Worker", *port, *limits, self.master))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        daemons, self._daemons = self._daemons, []
        folder, self._folder = self._folder, None
        try:
            # The worker first: it ends its executors.
            for daemon in reversed(daemons):
                daemon.stop()
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _start_daemon(self, name: str, *arguments: str) -> Path:
        spark, folder = find_spark_home(), self._home
        log = folder / f"{name}.log"
        daemon = OwnedProcess(
            [*_OURS_ONLY, str(spark.submit.with_name("spark-class")), f"{_DEPLOY}.{name}", *arguments],
            log,
            name=f"Spark {name}",
            # Executors inherit it: on a machine of the cluster there is nothing of Airflow's.
            env={
                **child_environment(),
                "JAVA_HOME": str(find_java(spark.minimum_java).executable.resolve().parent.parent),
                "SPARK_HOME": str(spark.jars.parent),
                "SPARK_LOCAL_IP": LOOPBACK,
                "SPARK_PUBLIC_DNS": LOOPBACK,
                "SPARK_LOCAL_DIRS": str(self.local_dir),
                "SPARK_DAEMON_MEMORY": "256m",
                # The REST server, which later versions start by themselves, has a fixed port.
                "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={folder / 'tmp'} -Dspark.master.rest.enabled=false",
            },
            cwd=folder,
            grace=5.0,
            remove_if_orphaned=folder,
        )
        self._daemons.append(daemon)
        daemon.start()
        return log

    def _wait_for(self, pattern: re.Pattern[str], log: Path) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and all(daemon.running for daemon in self._daemons):
            if found := pattern.search(log.read_text(errors="replace")):
                return found[1]
            time.sleep(0.1)
        raise LocalServiceError(
            f"{log} must have {pattern.pattern!r} within {_START_SECONDS:g} seconds. Read the logs.\n{self.log}"
        )

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._web_address}/json/", timeout=30) as answer:  # noqa: S310 - always http
            state: dict[str, Any] = json.load(answer)
        return state

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise self._not_running()
        return self._folder
