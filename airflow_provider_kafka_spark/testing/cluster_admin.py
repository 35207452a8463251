"""Where a cluster has its leaders, replicas and coordinators, and how tests move them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient
from airflow_provider_kafka_spark.testing.broker_process import BrokerProcess

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata, PartitionMetadata

#: One that does not answer in this time hangs, and another is asked.
_VIEW_SECONDS = 2.0
_GROUPS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class ClusterAdmin(BrokerClient):
    """A test's client of a running cluster. What it changes is known to every broker when it returns.

    Its parameters are those of :class:`BrokerAdmin`.
    """

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, replication: int = -1
    ) -> str:
        """Create a topic, and return its name when every broker knows it and all replicas are in sync.

        :param replication: the number of replicas; by default as many as the cluster's default
        :raises LocalServiceError: a broker refused it, for instance because it exists
        """
        super().create_topic(name, partitions, config, replication=replication)
        self.wait_until_in_sync(name)
        return name

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, when there is one."""
        deadline = time.monotonic() + self.timeout
        while (leader := self._partition(topic, partition).leader) < 0:
            self._wait(deadline, f"have a leader of {topic!r}, partition {partition}")
        return leader

    def replicas(self, topic: str, partition: int) -> list[int]:
        """Return the brokers that have a replica, the preferred leader first."""
        return list(self._partition(topic, partition).replicas)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates the transactions of an id, whether or not the id is in use."""
        return self._coordinator(_TRANSACTIONS, transactional_id)

    def group_coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a consumer group, whether or not the group exists."""
        return self._coordinator(_GROUPS, group_id)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a broker the leader of a partition. If it has no replica, it gets that of the last broker.

        :raises LocalServiceError: it did not become the leader in time
        """
        from confluent_kafka import ElectionType, KafkaError, TopicPartition

        replicas = self.replicas(topic, partition)
        if replicas[0] != node:
            others = [replica for replica in replicas if replica != node]
            self.reassign(topic, partition, [node, *others][: len(replicas)])
        what = f"make broker {node} the leader of {topic!r}, partition {partition}"
        admin = self._admin()
        elected = self._answer(admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]), what)
        for error in elected.values():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise self._failed(what, error)
        self._wait_for_all(topic, lambda found: found[partition].leader == node, what)

    def reassign(self, topic: str, partition: int, nodes: Sequence[int]) -> None:
        """Move the replicas of a partition to these brokers, and return when all are in sync.

        :param nodes: the preferred leader first
        :raises LocalServiceError: the cluster refused it, or was not done in time
        """
        # confluent-kafka has no such request.
        properties = {"bootstrap.servers": self.bootstrap_servers}
        with KafkaJvm(properties, "the test cluster", timeout=self.timeout, jars=BrokerProcess.jars()) as jvm:
            admin, java = jvm.admin(), jvm.java
            with jvm.translate_errors("reassigning a partition"):
                replicas = java.java.util.ArrayList()
                for node in nodes:
                    replicas.add(node)
                target = java.org.apache.kafka.clients.admin.NewPartitionReassignment(replicas)
                request = java.java.util.HashMap()
                request.put(
                    java.org.apache.kafka.common.TopicPartition(topic, partition), java.java.util.Optional.of(target)
                )
                future = admin.alterPartitionReassignments(request).all()
            jvm.get(future, "reassigning a partition")
        self._wait_for_all(
            topic,
            lambda found: list(found[partition].replicas) == list(nodes) and _is_in_sync(found[partition]),
            f"move {topic!r}, partition {partition}, to brokers {list(nodes)}",
        )

    def wait_until_in_sync(self, *topics: str) -> None:
        """Return when every replica is in sync, every partition has a leader, and every broker knows it.

        :param topics: by default all, the internal ones included
        :raises LocalServiceError: not in time
        """
        for topic in topics or sorted(self._state().topics):
            self._wait_for_all(
                topic, lambda found: all(map(_is_in_sync, found.values())), f"have all replicas of {topic!r} in sync"
            )

    def _coordinator(self, internal_topic: str, name: str) -> int:
        """As the brokers find it: by the hash of the name."""
        partitions = len(self._state().topics[internal_topic].partitions)
        return self.leader(internal_topic, abs(_java_hash(name)) % partitions)

    def _partition(self, topic: str, partition: int) -> PartitionMetadata:
        found = self._state().topics.get(topic)
        if found is None or partition not in found.partitions:
            raise self._failed(f"have {topic!r}, partition {partition}", "no such topic or partition")
        return found.partitions[partition]

    def _wait_for_all(
        self, topic: str, condition: Callable[[Mapping[int, PartitionMetadata]], bool], what: str
    ) -> None:
        """Return when every broker that the cluster counts as alive says that the condition holds."""
        deadline = time.monotonic() + self.timeout
        while not all(
            view is not None and topic in view.topics and condition(view.topics[topic].partitions)
            for view in self._views()
        ):
            self._wait(deadline, what)

    def _state(self) -> ClusterMetadata:
        """What the first broker that answers says."""
        deadline = time.monotonic() + self.timeout
        while True:
            for address in self.bootstrap_servers.split(","):
                if (view := self._view(address)) is not None:
                    return view
            self._wait(deadline, "answer a metadata request")

    def _views(self) -> list[ClusterMetadata | None]:
        """What each broker says; None if it does not answer."""
        brokers = self._state().brokers.values()
        return [self._view(f"{broker.host}:{broker.port}") for broker in brokers]

    def _view(self, address: str) -> ClusterMetadata | None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        # A new client knows this broker only, so it asks no other.
        admin = AdminClient(self._config({"bootstrap.servers": address}))
        try:
            return admin.list_topics(timeout=_VIEW_SECONDS)
        except KafkaException:
            return None


def _is_in_sync(partition: PartitionMetadata) -> bool:
    return partition.leader >= 0 and sorted(partition.isrs) == sorted(partition.replicas)


def _java_hash(text: str) -> int:
    """The value of Java's ``String.hashCode``."""
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + 256 * high + low) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
