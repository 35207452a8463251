"""Offsets, timestamps, topic ids and configurations of a cluster, by confluent-kafka. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, TimeoutError
from functools import cached_property
from typing import Any, TypeVar

import confluent_kafka
from airflow.sdk import BaseHook
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType, TopicDescription

from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE
from airflow_provider_kafka_spark.core.connection.faults import find_login_fault
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    ConnectionConfigError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.hooks.connection.airflow_connection import (
    KafkaConnection,
    aread_connection,
    read_connection,
)
from airflow_provider_kafka_spark.hooks.connection.broker_failures import (
    LEADER_ELECTION_ERRORS,
    BrokerFailures,
    code_of,
    text_of,
)
from airflow_provider_kafka_spark.hooks.managed_resource import ManagedResource

T = TypeVar("T")


class KafkaHook(ManagedResource, BaseHook):
    """Read offsets, topics and configurations of a Kafka cluster, with time-outs, and close every client.

    Use it as a context manager, inside ``execute``: a librdkafka client does not survive a fork.

    :param conn_id: an Airflow connection of the type ``kafka_spark``, or of any other type whose Extra is a librdkafka
        configuration.
    :param timeout: seconds for each call. If a broker does not answer, the call fails within this time; a refused login
        fails much earlier.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "kafka_default"
    # Not "kafka": that type belongs to the Kafka provider, and registering it twice breaks both.
    conn_type = CONN_TYPE
    hook_name = "Kafka (for Spark)"

    def __init__(self, conn_id: str = default_conn_name, timeout: float = 30.0) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.timeout = timeout
        self._answered = False
        self._admin: AdminClient | None = None
        self._group_consumers: dict[str, confluent_kafka.Consumer] = {}

    def close(self) -> None:
        """Close every client. Calling it again does nothing."""
        while self._group_consumers:
            self._group_consumers.popitem()[1].close()
        # confluent-kafka closes an AdminClient when the last reference goes.
        self._admin = None

    @cached_property
    def _connection(self) -> KafkaConnection:
        return read_connection(self.conn_id)

    async def load_config(self) -> None:
        """Fetch the connection without blocking the event loop; :attr:`config` then has it.

        :raises ConnectionConfigError: as :attr:`config`.
        """
        self._connection = await aread_connection(self.conn_id)

    @property
    def config(self) -> KafkaClientConfig:
        """The connection, translated for both clients; its secrets are masked in logs.

        :raises ConnectionConfigError: if the connection is missing or cannot be translated.
        """
        return self._connection.config

    def with_field_names(self, message: str) -> str:
        """A message that names properties, with the names of the fields in this connection's form."""
        return self._connection.with_field_names(message)

    @cached_property
    def failures(self) -> BrokerFailures:
        """Errors that this hook's clients got in the background."""
        return BrokerFailures(self.config, self.with_field_names)

    def test_connection(self) -> tuple[bool, str]:
        """Airflow's button "Test": check name, port, TLS, login and permissions, within 30 s.

        :return: whether the test passed, and a message for the user, without secrets.
        """
        # Imported here because tasks do not need it.
        from airflow_provider_kafka_spark.hooks.connection_check import check_connection

        return check_connection(self.conn_id)

    def topic_names(self, named: Iterable[str] = (), operation: str = "DESCRIBE") -> frozenset[str]:
        """The names of all topics that the login may see.

        :param named: topics that are selected by name.
        :param operation: the intended operation, for the message; ``READ`` and ``WRITE`` include ``DESCRIBE``.
        :raises BrokerAuthorizationError: if the login may not see one of them.
        """
        names = frozenset(self.metadata().topics)
        self._raise_if_unauthorized(set(named) - names, operation)
        return names

    def state(
        self, topics: Iterable[str], timestamps: Collection[int] = (), operation: str = "DESCRIBE"
    ) -> ClusterState:
        """Offsets, ids and configurations of topics, in a few requests for any number of partitions.

        A topic that does not exist is left out of the answer.

        :param topics: names of topics.
        :param timestamps: in ms since 1970; for each, the first offset at or after it is fetched for every partition.
        :param operation: the intended operation, for the message; ``READ`` and ``WRITE`` include ``DESCRIBE``.
        :raises BrokerUnavailableError: if no broker answers within the time-out.
        :raises BrokerAuthenticationError: if the login is refused.
        :raises BrokerAuthorizationError: if the login may not describe a topic.
        """
        metadata, names = self.metadata(), sorted(set(topics))
        wanted = {name: metadata.topics[name] for name in names if name in metadata.topics}
        self._raise_if_unauthorized(set(names) - set(wanted), operation)
        for name, topic in wanted.items():
            if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self.to_error(
                    KafkaException(topic.error), f"describing topic {name!r}", f"{operation} on topic {name!r}"
                )
        partitions = [TopicPartition(name, number) for name, topic in wanted.items() for number in topic.partitions]
        # The order matters on a live topic, where later requests return higher offsets. A window that is closed now
        # stays closed. A record after the window that arrives after the end was fetched must not count. A last stable
        # offset that is fetched after all ends does not look like an open transaction. The log's start comes last, to
        # include what retention deletes meanwhile.
        now_ms = int(time.time() * 1000)
        end = self._list_offsets(partitions, OffsetSpec.latest())
        first_at: dict[tuple[TopicPartition, int], int | None] = {}
        for epoch_ms in sorted(timestamps, reverse=True):
            found = self._list_offsets(partitions, OffsetSpec.for_timestamp(epoch_ms))
            first_at |= {(p, epoch_ms): offset if offset >= 0 else None for p, offset in found.items()}
        committed_end = self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        earliest = self._list_offsets(partitions, OffsetSpec.earliest())
        ids, configs = self._topic_ids(wanted), self.configs(wanted)
        return ClusterState(
            cluster_id=metadata.cluster_id or "",
            conn_id=self.conn_id,
            now_ms=now_ms,
            topics={
                name: TopicState(
                    name=name,
                    topic_id=ids.get(name),
                    partitions={
                        number: PartitionState(earliest[p], committed_end[p], end[p])
                        for number in sorted(topic.partitions)
                        for p in (TopicPartition(name, number),)
                    },
                    config=configs.get(name, {}),
                )
                for name, topic in wanted.items()
            },
            first_at=first_at,
        )

    def count_records(self, ranges: OffsetRanges, *, read_committed: bool = True) -> dict[OffsetRange, int]:
        """Count the records in ranges by reading all of them.

        :param ranges: ranges within the log.
        :param read_committed: leave out aborted records.
        :raises BrokerUnavailableError: if the broker stops answering for as long as the time-out.
        """
        counts = dict.fromkeys(ranges, 0)
        isolation_level = "read_committed" if read_committed else "read_uncommitted"
        settings = {"isolation.level": isolation_level, "fetch.wait.max.ms": 50}
        # librdkafka requires the name of a group.
        consumer = self._consumer("airflow-kafka-spark-count", **settings)
        try:
            for r in ranges.without_empty():
                counts[r] = self._count(consumer, r)
        finally:
            consumer.close()
        return counts

    def _count(self, consumer: confluent_kafka.Consumer, r: OffsetRange) -> int:
        consumer.assign([confluent_kafka.TopicPartition(r.topic, r.partition, r.from_offset)])
        count, deadline = 0, time.monotonic() + self.timeout
        while True:
            for message in consumer.consume(num_messages=10_000, timeout=0.2):
                error = message.error()
                # No group is joined, although the client requests one.
                if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue
                if error is not None:
                    raise self.to_error(KafkaException(error), f"counting records of {r}", f"READ on topic {r.topic!r}")
                offset = message.offset()
                if offset is not None and offset < r.until_offset:
                    count += 1
                deadline = time.monotonic() + self.timeout
            # The position also moves over gaps, so it shows the end even without records.
            (position,) = consumer.position([confluent_kafka.TopicPartition(r.topic, r.partition)])
            if position.offset >= r.until_offset:
                return count
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"Counting records of {r} came to a stop at offset {position.offset} for {self.timeout:.0f} s "
                    f"(connection {self.conn_id!r}, {self.config.bootstrap_servers}). Is the partition's leader up?"
                )

    def group_consumer(self, group_id: str) -> confluent_kafka.Consumer:
        """A consumer for a group's committed offsets, which never joins the group.

        The AdminClient's request for them crashes the process by a segmentation fault while the group's coordinator
        moves or is created (librdkafka issue 5040, seen with 2.16).
        """
        if group_id not in self._group_consumers:
            self._group_consumers[group_id] = self._consumer(group_id)
        return self._group_consumers[group_id]

    def new_consumer(self, **settings: Any) -> confluent_kafka.Consumer:
        """A consumer for partitions that are assigned; the caller closes it.

        :param settings: of librdkafka.
        """
        return self._consumer("airflow-kafka-spark-reader", **settings)

    def producer(self, transactional_id: str, timeout_ms: int) -> confluent_kafka.Producer:
        """A new producer for transactions.

        :param timeout_ms: of a transaction.
        """
        config = {
            **self._client_settings(),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
        return self._made(lambda: confluent_kafka.Producer(config))

    def _consumer(self, group_id: str, **settings: Any) -> confluent_kafka.Consumer:
        """It joins no group: partitions are assigned, and nothing is committed automatically."""
        config = {
            **self._client_settings(),
            "group.id": group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # Otherwise the end of a partition is an error.
            "enable.partition.eof": False,
            **settings,
        }
        return self._made(lambda: confluent_kafka.Consumer(config))

    def _client_settings(self) -> dict[str, Any]:
        # Without a logger librdkafka writes to the process's stderr, which Airflow shows as errors of the task.
        return {
            "socket.timeout.ms": int(self.timeout * 1000),
            **self.config.librdkafka,
            "error_cb": self.failures.add,
            "logger": self.log,
            "log_level": 2,
        }

    @property
    def client(self) -> AdminClient:
        """The one client of this hook.

        :raises ConnectionConfigError: if librdkafka refuses the configuration.
        """
        if self._admin is None:
            config = self._client_settings()
            self._admin = self._made(lambda: AdminClient(config))
        return self._admin

    def _made(self, client: Callable[[], T]) -> T:
        if self.config.unsupported_by_librdkafka:
            raise ConnectionConfigError(
                self.with_field_names(
                    f"The connection {self.conn_id!r} cannot be used by the worker, which asks for offsets: "
                    f"{self.config.unsupported_by_librdkafka}."
                )
            )
        try:
            return client()
        except (KafkaException, ValueError, TypeError) as error:
            said = text_of(error)
            fault = find_login_fault(said)
            reason = f"{fault} ({said})" if fault else f"{said}. Correct the property it names."
            raise ConnectionConfigError(
                self.with_field_names(
                    f"The Extra of connection {self.conn_id!r} must be a configuration that librdkafka takes; it "
                    f"refused it: {reason}"
                )
            ) from error

    def forget_errors(self) -> None:
        """Forget earlier errors of a long-lived client: they are not the cause of later failures."""
        self.client.poll(0)
        self.failures.forget()
        self._answered = False

    def metadata(self) -> Any:
        """Cluster metadata. A refused login fails while waiting, before the time-out."""
        if self._answered:
            # Errors since the last request, while a job ran for hours, are not the cause of a failure now.
            self.forget_errors()
        client, began = self.client, time.monotonic()
        deadline, wait = began + self.timeout, 0.5
        while True:
            asked = time.monotonic()
            try:
                metadata = client.list_topics(timeout=max(0.1, min(wait, deadline - asked)))
            except KafkaException as error:
                client.poll(0)
                now = time.monotonic()
                if now >= deadline or self.failures.is_final(now - began, self.timeout):
                    raise self.to_error(error, "reading metadata") from error
                if now - asked < wait:
                    # The client fails at once if brokers are down; they may start again soon.
                    time.sleep(0.1)
                else:
                    # The metadata of a large cluster take longer.
                    wait *= 2
            else:
                self._answered = True
                return metadata

    def _raise_if_unauthorized(self, names: Collection[str], operation: str) -> None:
        """Brokers omit topics from their lists that the login may not see; a request by name returns the refusal."""
        for refusal in self.unauthorized_topics(names, operation).values():
            raise refusal

    def unauthorized_topics(
        self, names: Collection[str], operation: str = "DESCRIBE"
    ) -> dict[str, BrokerAuthorizationError]:
        """The topics that are not listed because the login may not see them, each with the refusal.

        :raises BrokerUnavailableError: if no broker answers within the time-out.
        """
        refusals: dict[str, BrokerAuthorizationError] = {}
        for name, future in self.describe_topics(names).items():
            try:
                self.result(future, f"describing topic {name!r}", f"{operation} on topic {name!r}")
            except BrokerAuthorizationError as refusal:
                refusals[name] = refusal
            except UnknownTopicError:
                # The caller reports it.
                continue
            except BrokerError as error:
                # Brokers also answer this for an illegal name. An outage or a refused login is not about the topic.
                if type(error) is not BrokerError:
                    raise
        return refusals

    def describe_topics(
        self, names: Collection[str], *, permissions: bool = False
    ) -> dict[str, Future[TopicDescription]]:
        """Request topics by name, all in one request; :meth:`result` waits for each answer.

        :param permissions: include the operations that the login is authorized for.
        """
        if not names:
            return {}
        return self.client.describe_topics(
            confluent_kafka.TopicCollection(sorted(names)),
            include_authorized_operations=permissions,
            request_timeout=self.timeout,
        )

    def _list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        request = {confluent_kafka.TopicPartition(p.topic, p.partition): spec for p in partitions}
        if not request:
            return {}
        deadline = time.monotonic() + self.timeout
        while True:
            futures = self.client.list_offsets(request, isolation_level=isolation, request_timeout=self.timeout)
            try:
                return {
                    TopicPartition(p.topic, p.partition): self.result(
                        future, f"listing offsets of {p.topic}[{p.partition}]", f"DESCRIBE on topic {p.topic!r}"
                    ).offset
                    for p, future in futures.items()
                }
            except BrokerUnavailableError as error:
                if not is_transient(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.2)

    def _topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        futures = self.describe_topics(topics)
        described = {name: self.result(future, f"describing topic {name!r}") for name, future in futures.items()}
        return {name: str(topic.topic_id) for name, topic in described.items() if topic.topic_id is not None}

    def configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Configurations, as far as the login may read them; a plan does not require them."""
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        configs: dict[str, dict[str, str]] = {}
        for resource, future in self.client.describe_configs(resources, request_timeout=self.timeout).items():
            try:
                entries = self.result(future, f"reading the configuration of {resource.name!r}")
            except BrokerAuthorizationError:
                self.log.info(
                    "No permission to read the configuration of topic %s; checks that need it are left out.",
                    resource.name,
                )
                continue
            configs[resource.name] = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        return configs

    def result(self, future: Future[T], action: str, required_acl: str | None = None) -> T:
        """Wait for an answer of the client.

        :param action: of the request, for the message.
        :param required_acl: the required permission, such as ``"READ on topic 'orders'"``.
        :raises KafkaSparkError: by the name in the error tree that fits.
        """
        began = time.monotonic()
        while True:
            # librdkafka bounds the request itself; the margin only guards against a future that is never resolved.
            left = began + self.timeout + 5 - time.monotonic()
            try:
                return future.result(timeout=left if self._answered else min(1.0, left))
            except KafkaException as error:
                raise self.to_error(error, action, required_acl) from error
            except TimeoutError as error:
                self.client.poll(0)
                # Until a broker has answered, a refusal counts for all brokers.
                if left <= 1.0 or self._answered or self.failures.is_final(time.monotonic() - began, self.timeout):
                    raise self.to_error(error, action) from error

    def to_error(
        self, error: Exception, action: str, required_acl: str | None = None
    ) -> BrokerError | UnknownTopicError:
        """The failure as an error of this package."""
        return self.failures.to_error(error, action, self.timeout, required_acl)


def is_transient(error: BrokerError) -> bool:
    """Whether a leader is only missing temporarily, as in a rolling restart or just after a topic was created."""
    return code_of(error.__cause__) in LEADER_ELECTION_ERRORS
