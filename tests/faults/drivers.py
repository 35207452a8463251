"""Drivers as processes of their own, and executors beside them, to be stopped and killed at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from airflow_provider_kafka_spark.core.handoff.report_mac import verified
from airflow_provider_kafka_spark.core.handoff.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from tests.child_processes import children_with

SECONDS = 240.0
#: The broker hands out little at a time, so that a copy lasts for seconds on any machine.
SLOW = {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "60", "kafka.max.partition.fetch.bytes": "1"}
_LOCAL, _EXECUTORS = "local[2]", "local-cluster[2,1,1024]"
_EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"


def request_for(broker: BrokerClient, ranges: list[str], target: str, **changes: object) -> JobRequest:
    """A request of a slow copy."""
    parsed = OffsetRanges.parse(ranges)
    spans = plan_spans(parsed)
    login = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    request = JobRequest(
        run_id=os.urandom(8).hex(),
        instance=os.urandom(8).hex(),
        submission=int(time.time() * 1000),
        plan_digest="plan",
        ranges=tuple(parsed.format()),
        spans=spans,
        transform=Transform(topic=target),
        source_options={**source_defaults(spans, read_committed=True), **SLOW, **login},
        sink_options={**sink_defaults(), **login},
        report_uri="",
    )
    return replace(request, **changes)  # type: ignore[arg-type]


@dataclass
class Driver:
    """One ``spark-submit`` with one attempt of a request.

    :param folder: for its files.
    :param executors: whether executors are processes of their own.
    """

    request: JobRequest
    folder: Path
    executors: bool = False
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> Driver:
        self.folder.mkdir()
        report = self.folder / "report.json"
        file = self.folder / "request.json"
        file.write_text(replace(self.request, report_uri=str(report)).to_json())
        home = find_spark_home(environ={})
        class_path = ":".join(map(str, resolve(home.connector_coordinates, excludes=CONNECTOR_EXCLUDES)))
        checkout = Path(__file__).resolve().parents[2]
        conf = {
            "spark.driver.extraClassPath": class_path,
            "spark.executor.extraClassPath": class_path,
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.speculation": "false",
            "spark.executor.heartbeatInterval": "1s",
        }
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        script = str(checkout / "airflow_provider_kafka_spark" / "jobs" / "batch.py")
        master = _EXECUTORS if self.executors else _LOCAL
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout),
            "SPARK_HOME": str(home.jars.parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self.folder / "work"),
        }
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(home.submit), "--master", master, *words, script, str(file)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Those of this driver that are alive, with a word in their command."""
        assert self._process is not None
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._process.pid)
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
        return found

    def kill_executor(self) -> bool:
        """Kill one executor.

        :return: whether there was one.
        """
        for process in self.processes(_EXECUTOR_CLASS):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                return True
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver and all that belongs to it."""
        found = self.processes()
        assert found, "the driver has ended already"
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill_python(self) -> None:
        """Kill the driver's Python alone; its JVM lives on until it notices."""
        (python,) = (process for process in self.processes("batch.py") if "python" in Path(process.exe()).name)
        python.kill()

    def wait(self) -> JobReport | None:
        """The report, or None if the driver left none."""
        assert self._process is not None
        self._process.wait(SECONDS)
        report = self.folder / "report.json"
        return JobReport.from_json(verified(report.read_text(), self.request.report_key)) if report.exists() else None

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
def suspended(word: str) -> Iterator[None]:
    """The processes that this test session started with a word in their command stand still inside ``with``."""
    found = children_with(word)
    assert found
    for process in found:
        process.suspend()
    try:
        yield
    finally:
        for process in found:
            process.resume()


def wait_for_copies(broker: BrokerClient, target: str, count: int) -> None:
    """Return when readers of committed records see so many."""
    deadline = time.monotonic() + SECONDS
    while sum(end - start for start, end in broker.offsets(target).values()) < count:
        assert time.monotonic() < deadline, "the copy did not begin"
        time.sleep(0.05)
