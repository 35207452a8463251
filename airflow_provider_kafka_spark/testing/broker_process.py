"""The process of one Kafka node, which a single broker and each broker of a cluster consist of."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.broker_properties import LOG4J, SCRAM, as_file
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.short_lived_jvm import SHORT_LIVED
from airflow_provider_kafka_spark.toolchain import jars
from airflow_provider_kafka_spark.toolchain.java import find_java

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

#: Kafka's, unless another one is wanted.
KAFKA_VERSION = "4.2.0"


def new_cluster_id() -> str:
    """Return an id in the form that Kafka's storage tool accepts."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


class BrokerProcess:
    """One Kafka node with a folder of its own: configured and formatted once, then started and ended any number of
    times. The folder is removed by :meth:`remove`, or when the owning process dies.

    :param node: its node id
    :param jvm_options: of the broker
    :param version: Kafka's
    :raises JavaNotFoundError: there is no Java 17
    :raises JarError: Kafka's jars are unavailable
    """

    def __init__(self, node: int, jvm_options: Sequence[str], version: str = KAFKA_VERSION) -> None:
        self.node = node
        self._java = str(find_java(minimum=17).executable)
        self._classpath = os.pathsep.join(map(str, self.jars(version)))
        self._jvm_options = tuple(jvm_options)
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-broker-"))
        self._process: OwnedProcess | None = None

    @staticmethod
    def jars(version: str = KAFKA_VERSION) -> list[Path]:
        """Return the broker's jars, with those of Kafka's Java client."""
        return jars.resolve([f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-reload4j:1.7.36"])

    @property
    def running(self) -> bool:
        """Whether the process runs; it may not answer yet."""
        return self._process is not None and self._process.running

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs or was never started."""
        return None if self._process is None else self._process.returncode

    def tail(self, lines: int = 40) -> str:
        """Return the end of the log."""
        return self._process.tail(lines) if self._process else f"(no log: node {self.node} was not started)"

    def configure(self, properties: Mapping[str, str | None]) -> None:
        """Write the broker's files."""
        self._settings.write_text(as_file(properties))
        (self.folder / "log4j.properties").write_text(LOG4J)

    def start_format(self, cluster_id: str, users: Mapping[str, str]) -> None:
        """Start to format the folder; :meth:`wait_for_format` waits for the end.

        :param users: names and passwords, for SCRAM
        """
        scram = [
            argument
            for user, password in users.items()
            for mechanism in SCRAM
            for argument in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
        ]
        self._process = self._owned(
            [*SHORT_LIVED, "-Xshare:auto"],
            ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._settings), *scram],
            "Kafka's storage tool",
        )
        self._process.start()

    def wait_for_format(self, deadline: float) -> None:
        """Return when the folder is formatted.

        :raises LocalServiceError: it failed, or did not end until the deadline
        """
        while self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.returncode != 0:
            raise LocalServiceError(
                f"The broker's folder must be formatted by Kafka's storage tool; got exit code {self.returncode}. "
                f"Check the properties that were given.\n{self.tail()}"
            )
        self._process = self._owned(
            # The compression libraries unpack into the temporary folder, and do not clean up when they are killed.
            [*self._jvm_options, f"-Djava.io.tmpdir={self.folder}"],
            ["kafka.Kafka", str(self._settings)],
            "Kafka broker",
        )

    def start(self) -> None:
        """Start the formatted broker, and return at once."""
        self._started().start()

    def stop(self) -> None:
        """End it by SIGTERM, and by SIGKILL if it does not end in time. Its data stays."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it by SIGKILL, as a crash would. Its data stays."""
        if self._process is not None:
            self._process.kill()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The process stands still inside ``with``; its connections stay open."""
        with self._started().suspended():
            yield

    def remove(self) -> None:
        """Remove its data, when it has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_until_ready(self, new_admin: Callable[[], AdminClient], cluster_id: str, timeout: float) -> None:
        """Return when this broker has answered that it is a member of its cluster: another process may have taken the
        port.

        :param new_admin: makes a client of this broker. One that has had an answer may ask other brokers
        :raises LocalServiceError: it has ended, or did not answer in time
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + timeout
        got: object = "no answer"
        while time.monotonic() < deadline:
            if not self.running:
                got = f"exit code {self.returncode}"
                break
            try:
                admin = new_admin()
                metadata = admin.list_topics(timeout=0.5)
            except KafkaException as error:
                got = error
                continue
            # A broker that has not joined its cluster is not in the list of brokers.
            if self.node in metadata.brokers and metadata.cluster_id == cluster_id:
                return
            got = f"cluster {metadata.cluster_id!r} with brokers {sorted(metadata.brokers)}"
            time.sleep(0.05)
        raise LocalServiceError(
            f"Kafka broker {self.node} must answer within {timeout:.0f} seconds; got {got}. Read its log below.\n"
            f"{self.tail()}"
        )

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def _started(self) -> OwnedProcess:
        if self._process is None:
            raise LocalServiceError(f"Node {self.node} must be formatted first; it is not. Call start_format().")
        return self._process

    def _owned(self, jvm_options: Sequence[str], program: Sequence[str], name: str) -> OwnedProcess:
        log4j = f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"
        return OwnedProcess(
            [self._java, *jvm_options, log4j, "-cp", self._classpath, *program],
            self.folder / "broker.log",
            name=name,
            remove_if_orphaned=self.folder,
        )
