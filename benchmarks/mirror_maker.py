"""MirrorMaker 2: its source connector in a standalone Connect worker, one connector for each copy.

The worker is started once and stays warm. A connector reads ``SOURCE`` from the start and writes it to
``ALIAS.SOURCE``, which is how MirrorMaker's default policy renames a topic; since the name differs, both may lie on one
broker, as in all other variants. A new alias for each copy makes a new target.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.java import find_java

COORDINATE = "org.apache.kafka:connect-mirror:4.2.0"
# Without a logger's configuration Connect drops every line, and logs no failure.
_LOGGER = "org.slf4j:slf4j-reload4j:1.7.36"
_LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_START_SECONDS = 120
_POLL_SECONDS = 0.02
_MIB = 1024 * 1024


class MirrorMaker:
    """A Connect worker that runs inside ``with`` and ends after it.

    :param folder: for its settings, offsets and log.
    """

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        (port,) = free_ports(1)
        self._url = f"http://{LOOPBACK}:{port}"
        self._process = OwnedProcess(self._command(), folder / "connect.log", name="MirrorMaker")

    def __enter__(self) -> MirrorMaker:
        self._process.start()
        try:
            self._wait_until_ready()
        except BaseException:
            self._process.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def copy(self, alias: str, source: str, partitions: int, count: int) -> float:
        """Copy ``source`` to ``ALIAS.SOURCE``, an empty topic, and return the seconds it took.

        The clock starts when the first records are seen at the target, so starting the connector and its tasks costs
        nothing.

        :param count: of the records in ``source``.
        :raises RuntimeError: if the connector's tasks fail.
        """
        self._call("POST", "/connectors", {"name": alias, "config": self._connector(alias, source, partitions)})
        try:
            return self._time_arrival(alias, f"{alias}.{source}", partitions, count)
        finally:
            self._call("DELETE", f"/connectors/{alias}")

    def _time_arrival(self, alias: str, target: str, partitions: int, count: int) -> float:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers, "log_level": 3})
        latest = {TopicPartition(target, number): OffsetSpec.latest() for number in range(partitions)}
        started: float | None = None
        checked = time.monotonic()
        while True:  # the caller bounds this
            arrived = sum(future.result(30).offset for future in admin.list_offsets(latest).values())
            now = time.perf_counter()
            if arrived and started is None:
                started = now
            if arrived >= count:
                # A trial's few records may all be there when the first is seen.
                return max(now - (started or now), _POLL_SECONDS)
            if time.monotonic() - checked > 5:
                checked = time.monotonic()
                self._check_tasks(alias)
            time.sleep(_POLL_SECONDS)

    def _check_tasks(self, alias: str) -> None:
        status = self._call("GET", f"/connectors/{alias}/status")
        failed = [part.get("trace") for part in (status["connector"], *status["tasks"]) if part["state"] == "FAILED"]
        if failed or not self._process.running:
            raise RuntimeError(f"MirrorMaker failed: {failed[:1]}\n{self._process.tail()}")

    def _command(self) -> list[str]:
        folder = self._folder
        (folder / "log4j.properties").write_text(_LOG4J)
        worker = {
            "bootstrap.servers": self._broker.bootstrap_servers,
            "listeners": self._url,
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "header.converter": _BYTES,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
            "plugin.discovery": "only_scan",
        }
        settings = folder / "worker.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in worker.items()))
        classpath = os.pathsep.join(map(str, resolve([COORDINATE, _LOGGER])))
        java = [
            str(find_java().executable),
            "-Xms256m",
            "-Xmx2g",
            f"-Dlog4j.configuration=file:{folder}/log4j.properties",
        ]
        return [*java, "-cp", classpath, "org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]

    def _connector(self, alias: str, source: str, partitions: int) -> dict[str, str]:
        bootstrap = self._broker.bootstrap_servers
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": alias,
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": bootstrap,
            "target.cluster.bootstrap.servers": bootstrap,
            "topics": source,
            "tasks.max": str(partitions),
            "replication.factor": "1",
            # Only the copy is measured, not MirrorMaker's other work.
            "emit.offset-syncs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "refresh.topics.enabled": "false",
            # The same settings that the Spark job uses.
            "source.consumer.max.poll.records": "10000",
            "source.consumer.fetch.min.bytes": str(_MIB),
            "source.consumer.max.partition.fetch.bytes": str(8 * _MIB),
            "source.consumer.fetch.max.wait.ms": "50",
            "source.consumer.receive.buffer.bytes": str(_MIB),
            "producer.override.compression.type": "lz4",
            "producer.override.linger.ms": "20",
            "producer.override.batch.size": str(512 * 1024),
            "producer.override.buffer.memory": str(128 * _MIB),
            "producer.override.max.request.size": str(8 * _MIB),
        }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.running:
            try:
                self._call("GET", "/connectors")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"MirrorMaker must answer within {_START_SECONDS} seconds.\n{self._process.tail()}")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - our own worker
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            text = answer.read()
        return json.loads(text) if text else None
