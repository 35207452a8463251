"""A real Kafka cluster of three brokers on this machine, for tests of what happens when one of them dies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.testing.broker_process import BrokerProcess, new_cluster_id
from airflow_provider_kafka_spark.testing.broker_properties import (
    BrokerSecurity,
    cluster_properties,
    server_properties,
)
from airflow_provider_kafka_spark.testing.cluster_admin import ClusterAdmin
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports, start_on_free_ports
from airflow_provider_kafka_spark.testing.short_lived_jvm import SHORT_LIVED

NODES = (1, 2, 3)
DEFAULT_JVM_OPTIONS = ("-Xms64m", "-Xmx256m", *SHORT_LIVED)


class KafkaCluster(ClusterAdmin, ManagedServer):
    """Three Kafka brokers in KRaft mode, which run inside ``with`` and end after it, with all their data.

    Each is also a controller, so any one may be absent. Topics have three replicas, of which two must have each record
    (``min.insync.replicas``). The brokers end with this process, even after SIGKILL. They listen on the loopback
    interface only, on free ports, without logins, and create no topics automatically.

    :param properties: server properties of each broker to add or to replace or, by None, to leave out
    :param jvm_options: of each broker, instead of a small heap
    :param start_timeout: seconds until all brokers have to answer
    :raises LocalServiceError: on entering, if they do not answer in time
    :raises JavaNotFoundError: on entering, if there is no Java 17
    :raises JarError: on entering, if Kafka's jars are unavailable
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str | None] | None = None,
        jvm_options: Sequence[str] = DEFAULT_JVM_OPTIONS,
        start_timeout: float = 120.0,
    ) -> None:
        super().__init__("")
        self.properties = dict(properties or {})
        self.jvm_options = tuple(jvm_options)
        self.start_timeout = start_timeout
        self.cluster_id = ""
        self._addresses: dict[int, str] = {}
        self._brokers: dict[int, BrokerProcess] = {}

    @property
    def log(self) -> str:
        """The ends of all logs, for the message of a failing test."""
        return "\n".join(broker.tail() for broker in self._brokers.values())

    def running(self) -> list[int]:
        """Return the brokers whose processes run; a suspended one is among them."""
        return [node for node, broker in self._brokers.items() if broker.running]

    def start(self) -> None:
        """Start all brokers, and return when each has joined.

        :raises LocalServiceError: one did not in time; nothing is left running
        """
        if self._brokers:
            raise self._already_running(self.bootstrap_servers)
        start_on_free_ports(
            self._start_once, self.stop, lambda: "\n".join(broker.tail(200) for broker in self._brokers.values())
        )

    def stop(self) -> None:
        """End all brokers and remove their data. Calling it again does nothing.

        :raises LocalServiceError: the system did not let one end in time
        """
        brokers, self._brokers = self._brokers, {}
        with ExitStack() as stack:
            for broker in brokers.values():
                stack.callback(broker.remove)
                # Without a quorum the last ones could not leave the cluster in order.
                stack.callback(broker.kill)

    def kill(self, node: int) -> None:
        """End a broker by SIGKILL, as a crash would. Its data stays for :meth:`start_node`."""
        self._broker(node).kill()

    def start_node(self, node: int) -> None:
        """Start a broker that was killed, with its data and at its port, and return when it has joined again.

        :raises LocalServiceError: it runs, or did not join in time
        """
        broker = self._broker(node)
        broker.start()
        self._wait_until_ready(broker, self.start_timeout)

    def restart(self, node: int) -> None:
        """Stop a broker by SIGTERM, so that it leaves the cluster in order, and start it again.

        :raises LocalServiceError: it did not join again in time
        """
        self._broker(node).stop()
        self.start_node(node)

    @contextmanager
    def suspended(self, node: int) -> Iterator[None]:
        """A broker stands still inside ``with``, as on a machine that hangs: its connections stay open."""
        with self._broker(node).suspended():
            yield

    def _start_once(self) -> None:
        self.cluster_id = new_cluster_id()
        free = free_ports(2 * len(NODES))
        ports = {
            node: {"PLAINTEXT": plain, "CONTROLLER": controller}
            for node, plain, controller in zip(NODES, free[::2], free[1::2], strict=True)
        }
        self._addresses = {node: f"{LOOPBACK}:{ports[node]['PLAINTEXT']}" for node in NODES}
        self.bootstrap_servers = ",".join(self._addresses.values())
        common = cluster_properties({node: ports[node]["CONTROLLER"] for node in NODES})
        for node in NODES:
            broker = self._brokers[node] = BrokerProcess(node, self.jvm_options)
            own = server_properties(broker.folder, ports[node], BrokerSecurity(), node=node)
            broker.configure(own | common | self.properties)
            broker.start_format(self.cluster_id, {})
        # Fetching the jars, the first time, does not count.
        deadline = time.monotonic() + self.start_timeout
        for broker in self._brokers.values():
            broker.wait_for_format(deadline)
            broker.start()
        for broker in self._brokers.values():
            self._wait_until_ready(broker, deadline - time.monotonic())

    def _wait_until_ready(self, broker: BrokerProcess, timeout: float) -> None:
        from confluent_kafka.admin import AdminClient

        config = self._config({"bootstrap.servers": self._addresses[broker.node]})
        broker.wait_until_ready(lambda: AdminClient(config), self.cluster_id, timeout)

    def _broker(self, node: int) -> BrokerProcess:
        if not self._brokers:
            raise self._not_running()
        if node not in self._brokers:
            raise OptionError(f"node must be one of {NODES}, such as 1; got {node!r}. Name one of the brokers.")
        return self._brokers[node]
