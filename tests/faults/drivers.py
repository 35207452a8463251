"""Drivers as processes of their own, and executors beside them, to be stopped and killed at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from tests.child_processes import children_with

#: Spark tries each task four times, and each attempt may wait for a silent broker for a minute or two.
SECONDS = 600.0
_CHECKOUT = Path(__file__).resolve().parents[2]
_EXECUTOR_CLASS, _DRIVER_CLASS = "CoarseGrainedExecutorBackend", "org.apache.spark.deploy.SparkSubmit"


def spark_submit(
    folder: Path, master: str, script: Path, argument: Path, conf: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """A driver in a session of its own, with a log and its executors' files in a folder."""
    home = find_spark_home()
    class_path = ":".join(map(str, resolve(home.connector_coordinates, excludes=CONNECTOR_EXCLUDES)))
    conf = {
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.speculation": "false",
        "spark.executor.heartbeatInterval": "1s",
        **conf,
    }
    environment = {
        **os.environ,
        "PYTHONPATH": str(_CHECKOUT),
        "SPARK_HOME": str(home.jars.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(home.submit), "--master", master, *words, str(script), str(argument)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@dataclass
class Driver:
    """One submission of a request.

    :param folder: for its files.
    :param master: of Spark; with ``local-cluster`` executors are processes of their own.
    """

    request: JobRequest
    folder: Path
    master: str
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> Driver:
        self.folder.mkdir()
        report = self.folder / "report.json"
        file = self.folder / "request.json"
        file.write_text(replace(self.request, report_uri=str(report)).to_json())
        # As the worker does.
        writes_again = isinstance(self.request, CopyJob) and self.request.delivery != EXACTLY_ONCE
        conf = {"spark.task.maxFailures": "1"} if writes_again else {}
        job = f"{self.request.job}.py"
        script = _CHECKOUT / "airflow_provider_kafka_spark" / "jobs" / job
        self._process = spark_submit(self.folder, self.master, script, file, conf)
        return self

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Those of this driver that are alive, with a word in their command; also if their parent has ended."""
        assert self._process is not None
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                is_own = os.getsid(process.pid) == self._process.pid and process.status() != psutil.STATUS_ZOMBIE
                if is_own and word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def kill_executor(self) -> None:
        """Kill one executor."""
        self.processes(_EXECUTOR_CLASS)[0].kill()

    def kill_jvm(self) -> None:
        """Kill the driver's JVM alone; its Python lives on until it notices."""
        (jvm,) = self.processes(_DRIVER_CLASS)
        jvm.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver and all that belongs to it."""
        found = self.processes()
        assert found, "the driver has ended already"
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill_python(self) -> None:
        """Kill the driver's Python alone; its JVM lives on until it notices."""
        (python,) = (process for process in self.processes("/jobs/") if "python" in Path(process.exe()).name)
        python.kill()

    def wait(self) -> JobReport | None:
        """The report, or None if the driver left none."""
        assert self._process is not None
        self._process.wait(SECONDS)
        report = self.folder / "report.json"
        return JobReport.from_json(verified(report.read_text(), self.request.report_key)) if report.exists() else None

    def wait_until_gone(self) -> None:
        """Return when no process of it is left."""
        deadline = time.monotonic() + SECONDS
        while self.processes():
            assert time.monotonic() < deadline, "the driver did not end"
            time.sleep(0.1)

    def exit_code(self) -> int:
        """That of ``spark-submit``, when it has ended."""
        assert self._process is not None
        return self._process.wait(SECONDS)

    def stop(self) -> None:
        """End whatever is left."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process is not None:
            self._process.wait(30)


#: The fixture ``start``.
Start = Callable[..., Driver]


@contextlib.contextmanager
def suspended(broker: KafkaBroker) -> Iterator[None]:
    """The broker stands still inside ``with``."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    (process,) = (process for process in children_with("kafka.Kafka") if port in _ports(process))
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def _ports(process: psutil.Process) -> set[int]:
    connections = process.net_connections("tcp")
    return {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}


def wait_for_copies(broker: BrokerClient, target: str, count: int) -> None:
    """Return when readers of committed records see so many."""
    deadline = time.monotonic() + SECONDS
    while sum(end - start for start, end in broker.offsets(target).values()) < count:
        assert time.monotonic() < deadline, "the copy did not begin"
        time.sleep(0.05)
