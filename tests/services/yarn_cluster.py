"""A real YARN on this machine that needs only Java: one ResourceManager, one NodeManager, files instead of HDFS."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import escape

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports, start_on_free_ports
from airflow_provider_kafka_spark.testing.short_lived_jvm import OPTIONS_VARIABLE, SHORT_LIVED
from airflow_provider_kafka_spark.toolchain import jars
from airflow_provider_kafka_spark.toolchain.java import find_java

HADOOP_VERSION = "3.4.1"
# Not the one-jar hadoop-client-minicluster: its relocated classes break YARN's REST API, which then lists an
# application without its id.
COORDINATES = (
    f"org.apache.hadoop:hadoop-yarn-server-resourcemanager:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-yarn-server-nodemanager:{HADOOP_VERSION}",
    # Both are required by the daemons, but have the scope provided, so they are not resolved.
    f"org.apache.hadoop:hadoop-common:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-yarn-server-timelineservice:{HADOOP_VERSION}",
)
_JVM_OPTIONS = ("-Xmx512m", *SHORT_LIVED)
#: Of all containers; they need not exist.
_CORES = "8"
_START_SECONDS = 120.0

_FINAL_STATES = frozenset({"FINISHED", "FAILED", "KILLED"})
_YARN = "org.apache.hadoop.yarn.server"
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class YarnCluster(ManagedServer):
    """A YARN cluster with one node, which accepts applications inside ``with`` and ends after it.

    Applications end with it. Everything ends with this process, even after SIGKILL. It listens on the loopback
    interface only.

    ``HADOOP_CONF_DIR`` has to be :attr:`conf_dir` for ``spark-submit``; :meth:`environment` and :meth:`spark_conf` are
    all that a submission needs.

    :param memory_mb: memory for all containers, in MiB
    :raises LocalServiceError: on entering, if it is not in time
    :raises JavaNotFoundError: on entering, if there is no Java 17
    :raises JarError: on entering, if its jars are unavailable
    """

    def __init__(self, *, memory_mb: int = 6144) -> None:
        self.memory_mb = memory_mb
        self.web_address = ""
        self._folder: Path | None = None
        self._node_port = 0
        self._daemons: list[OwnedProcess] = []

    @property
    def conf_dir(self) -> Path:
        """The folder that ``HADOOP_CONF_DIR`` has to name."""
        return self._home / "conf"

    @property
    def staging_dir(self) -> Path:
        """The folder to which ``spark-submit`` uploads the files of the containers."""
        return self._home / "staging"

    @property
    def log(self) -> str:
        """The ends of both daemons' logs, for the message of a failing test."""
        return "\n".join(daemon.tail() for daemon in self._daemons)

    def environment(self) -> dict[str, str]:
        """Return the additional environment variables for ``spark-submit``."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "YARN_CONF_DIR": str(self.conf_dir)}

    def spark_conf(self) -> dict[str, str]:
        """Return the Spark properties that a PySpark application needs here.

        :raises JarError: there is no Spark on this machine
        """
        return {
            # There is no HDFS, and the default, the home folder, must not be filled.
            "spark.yarn.stagingDir": self.staging_dir.as_uri(),
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
            "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
            # Spark's jars are on this machine: uploading 400 MB for every application takes longer than running it.
            "spark.yarn.jars": f"local:{jars.find_ivy().parent}/*",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": LOOPBACK,
            "spark.executorEnv.SPARK_LOCAL_IP": LOOPBACK,
            f"spark.yarn.appMasterEnv.{OPTIONS_VARIABLE}": " ".join(SHORT_LIVED),
            f"spark.executorEnv.{OPTIONS_VARIABLE}": " ".join(SHORT_LIVED),
        }

    def applications(self) -> list[dict[str, Any]]:
        """Return all applications, ended ones too, as the ResourceManager lists them."""
        return self._list("apps", "app")

    def application_log(self, application: str) -> str:
        """Return what all containers of an application wrote, each file under its path.

        :param application: such as ``"application_1700000000000_0001"``
        """
        files = sorted(file for file in (self._home / "logs" / application).rglob("*") if file.is_file())
        return "\n".join(
            f"==> {file.relative_to(self._home / 'logs')}\n{file.read_text(errors='replace')}" for file in files
        )

    def kill_applications(self, timeout: float = 20.0) -> None:
        """Kill every application that has not ended, and return when all have.

        :param timeout: seconds
        :raises LocalServiceError: one did not end in time
        """
        deadline = time.monotonic() + timeout
        while left := [app["id"] for app in self.applications() if app["state"] not in _FINAL_STATES]:
            if time.monotonic() > deadline:
                raise self._failed(f"end all applications within {timeout:g} seconds", f"{left} still running")
            for application in left:
                self._put_killed(application)
            time.sleep(0.2)

    def start(self) -> None:
        """Start the cluster and return when its node is registered and running.

        :raises LocalServiceError: it was not in time; nothing is left running
        """
        if self._folder is not None:
            raise self._already_running(self.web_address)
        java = find_java(minimum=17).executable.resolve()
        classpath = os.pathsep.join(str(jar) for jar in jars.resolve(COORDINATES))
        start_on_free_ports(
            lambda: self._start_once(java, classpath),
            self._end,
            lambda: "".join(daemon.tail(400) for daemon in self._daemons),
        )

    def stop(self) -> None:
        """Kill all applications, end the cluster and remove its files. Calling it again does nothing.

        :raises LocalServiceError: the system did not let it end in time
        """
        try:
            if self._daemons and all(daemon.running for daemon in self._daemons):
                self.kill_applications()
        finally:
            self._end()

    def _end(self) -> None:
        daemons, self._daemons = self._daemons, []
        folder, self._folder = self._folder, None
        try:
            # The node first: it ends the containers that are left.
            for daemon in reversed(daemons):
                daemon.stop()
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _start_once(self, java: Path, classpath: str) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="yarn-cluster-"))
        for name in ("conf", "staging", "local", "logs", "tmp"):
            (folder / name).mkdir()
        ports = free_ports(8)
        self.web_address, self._node_port = f"http://{LOOPBACK}:{ports[0]}", ports[5]
        _write_site(self.conf_dir / "core-site.xml", _core_site(folder))
        _write_site(self.conf_dir / "yarn-site.xml", _yarn_site(folder, ports, str(self.memory_mb)))
        (self.conf_dir / "log4j.properties").write_text(_LOG4J)

        environment = {**os.environ, **self.environment(), "JAVA_HOME": str(java.parent.parent)}
        for daemon in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            name = daemon.rpartition(".")[2]
            process = OwnedProcess(
                [
                    str(java),
                    *_JVM_OPTIONS,
                    # Jetty and the compression libraries unpack into it, and do not clean up when they are killed.
                    f"-Djava.io.tmpdir={folder / 'tmp'}",
                    "--add-opens=java.base/java.lang=ALL-UNNAMED",
                    "--add-opens=java.base/java.util=ALL-UNNAMED",
                    *("-cp", f"{self.conf_dir}{os.pathsep}{classpath}"),
                    f"{_YARN}.{daemon}",
                ],
                folder / f"{name}.log",
                name=f"YARN {name}",
                env=environment,
                cwd=folder,
                # A longer wait is not needed: remaining containers end with them.
                grace=3.0,
                remove_if_orphaned=folder,
            )
            self._daemons.append(process)
            process.start()
        self._wait_for_node()

    def _wait_for_node(self) -> None:
        """Wait for this node at this ResourceManager: another process may have taken the port."""
        deadline = time.monotonic() + _START_SECONDS
        got: object = "no answer"
        while time.monotonic() < deadline:
            ended = [daemon for daemon in self._daemons if not daemon.running]
            if ended:
                got = f"{ended[0].name} with exit code {ended[0].returncode}"
                break
            try:
                nodes = self._list("nodes", "node")
            except (OSError, HTTPException, ValueError) as error:
                got = error
            else:
                got = [(node["id"], node["state"]) for node in nodes]
                if any(node["id"].endswith(f":{self._node_port}") and node["state"] == "RUNNING" for node in nodes):
                    return
            time.sleep(0.1)
        raise self._failed(f"have a running node within {_START_SECONDS:g} seconds", got)

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise self._not_running()
        return self._folder

    def _list(self, outer: str, inner: str) -> list[dict[str, Any]]:
        # The address is ours and is always http.
        with urllib.request.urlopen(f"{self.web_address}/ws/v1/cluster/{outer}", timeout=10) as answer:  # noqa: S310
            # An empty list arrives as null.
            return cast("list[dict[str, Any]]", (json.load(answer)[outer] or {}).get(inner, []))

    def _put_killed(self, application: str) -> None:
        request = urllib.request.Request(  # noqa: S310
            # Without a user's name the ResourceManager refuses all changes, even without security.
            f"{self.web_address}/ws/v1/cluster/apps/{application}/state?user.name=testing",
            data=json.dumps({"state": "KILLED"}).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            pass

    def _failed(self, rule: str, got: object) -> LocalServiceError:
        return LocalServiceError(f"YARN at {self.web_address} must {rule}; got {got}. Read its logs below.\n{self.log}")


def _core_site(folder: Path) -> dict[str, str]:
    return {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder / "tmp")}


def _yarn_site(folder: Path, ports: Sequence[int], memory: str) -> dict[str, str]:
    names = (
        "yarn.resourcemanager.webapp.address",
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.scheduler.address",
        "yarn.resourcemanager.resource-tracker.address",
        "yarn.resourcemanager.admin.address",
        "yarn.nodemanager.address",
        "yarn.nodemanager.localizer.address",
        "yarn.nodemanager.webapp.address",
    )
    return {
        **{name: f"{LOOPBACK}:{port}" for name, port in zip(names, ports, strict=True)},
        "yarn.resourcemanager.hostname": LOOPBACK,
        "yarn.nodemanager.hostname": LOOPBACK,
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        # Both daemons start at the same time; the node asks again soon instead of after 30 seconds.
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        # Allocation happens on heartbeats, so their pace is what an application of a few seconds waits for.
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.nodemanager.resource.memory-mb": memory,
        "yarn.nodemanager.resource.cpu-vcores": _CORES,
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": memory,
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # A developer's disk is often fuller than the 90 percent at which a node declares itself unhealthy.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.remote-app-log-dir": str(folder / "remote-logs"),
        # By default beneath the machine's temporary folder, where the next cluster would find the last one's.
        "yarn.node-attribute.fs-store.root-dir": (folder / "node-attribute").as_uri(),
        "yarn.node-labels.fs-store.root-dir": (folder / "node-labels").as_uri(),
        "yarn.resourcemanager.am.max-attempts": "1",
    }


def _write_site(path: Path, properties: Mapping[str, str]) -> None:
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    path.write_text(f"<configuration>\n{rows}</configuration>\n")
