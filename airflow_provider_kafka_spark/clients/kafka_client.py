"""Clients of a cluster, by confluent-kafka, and what any request to it needs. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, TimeoutError
from functools import cached_property
from typing import Any, TypeVar

import confluent_kafka
from airflow.sdk import BaseHook
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, TopicDescription

from airflow_provider_kafka_spark.clients.connection.airflow_connection import aread_connection, read_connection
from airflow_provider_kafka_spark.clients.connection.broker_failures import (
    LEADER_ELECTION_ERRORS,
    BrokerFailures,
    code_of,
    text_of,
)
from airflow_provider_kafka_spark.clients.connection.cloud_tokens import token_callback
from airflow_provider_kafka_spark.clients.managed_resource import ManagedResource
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.faults import find_login_fault
from airflow_provider_kafka_spark.core.errors import (
    BrokerError,
    BrokerUnavailableError,
    ConnectionConfigError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition

T = TypeVar("T")
#: Of a request for offsets.
OffsetAnswers = dict[confluent_kafka.TopicPartition, ListOffsetsResultInfo | KafkaError]

#: What confluent-kafka raises for an answer that it does not expect, such as a name that is no UTF-8.
MALFORMED_ANSWERS = (UnicodeError, SystemError, RuntimeError)
#: Consumers for the offsets of groups that are open at once: each has some five threads and eight files.
GROUPS_AT_ONCE = 16
#: Seconds in which every connection has to be refused before a first contact gives up.
_REFUSED_SECONDS = 2.5


class KafkaClient(ManagedResource, BaseHook):
    """One connection to a Kafka cluster; every client is closed on leaving ``with``. Parameters as of ``KafkaHook``."""

    conn_name_attr = "conn_id"
    default_conn_name = "kafka_default"

    def __init__(
        self, conn_id: str = default_conn_name, timeout: float = 30.0, *, waits_for_start: bool = True
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.timeout = timeout
        self._waits_for_start = waits_for_start
        self._answered = False
        self._admin: AdminClient | None = None
        self._group_consumers: dict[str, confluent_kafka.Consumer] = {}

    def close(self) -> None:
        """Close every client. Calling it again does nothing."""
        while self._group_consumers:
            self._group_consumers.popitem()[1].close()
        # confluent-kafka closes an AdminClient when the last reference goes.
        self._admin = None

    async def load_config(self) -> None:
        """Fetch the connection without blocking the event loop; :attr:`config` then has it.

        :raises ConnectionConfigError: as :attr:`config`.
        """
        self.config = await aread_connection(self.conn_id)

    @cached_property
    def config(self) -> KafkaClientConfig:
        """The connection, translated for both clients; its secrets are masked in logs.

        :raises ConnectionConfigError: if the connection is missing or cannot be translated.
        """
        return read_connection(self.conn_id)

    @cached_property
    def failures(self) -> BrokerFailures:
        """Errors that these clients got in the background."""
        return BrokerFailures(self.config)

    def group_consumer(self, group_id: str) -> confluent_kafka.Consumer:
        """A consumer for a group's committed offsets, which never joins the group. It is open until
        :data:`GROUPS_AT_ONCE` other groups were asked for.

        The AdminClient's request for them crashes the process by a segmentation fault while the group's coordinator
        moves or is created (librdkafka issue 5040, seen with 2.16).
        """
        consumer = self._group_consumers.pop(group_id, None) or self.new_consumer(group_id)
        if len(self._group_consumers) >= GROUPS_AT_ONCE:
            self._group_consumers.pop(next(iter(self._group_consumers))).close()
        self._group_consumers[group_id] = consumer
        return consumer

    def new_consumer(
        self, group_id: str = "airflow-kafka-spark-reader", /, **settings: Any
    ) -> confluent_kafka.Consumer:
        """A consumer for partitions that are assigned; the caller closes it. It joins no group, of which librdkafka
        wants the name, and nothing is committed automatically.

        :param settings: of librdkafka.
        """
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
        return self._made(confluent_kafka.Consumer, config)

    def producer(self, transactional_id: str, timeout_ms: int) -> confluent_kafka.Producer:
        """A new producer for transactions.

        :param timeout_ms: of a transaction.
        """
        settings = self._client_settings()
        config = {
            **settings,
            # librdkafka takes no longer ones than the transaction's.
            "socket.timeout.ms": min(int(settings["socket.timeout.ms"]), timeout_ms),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
        return self._made(confluent_kafka.Producer, config)

    def _client_settings(self) -> dict[str, Any]:
        # Without a logger librdkafka writes to the process's stderr, which Airflow shows as errors of the task.
        service = self.config.token_service
        return {
            "socket.timeout.ms": int(self.timeout * 1000),
            **self.config.librdkafka,
            **({"oauth_cb": token_callback(self.conn_id, service)} if service else {}),
            "error_cb": self.failures.add,
            "logger": self.log,
            "log_level": 2,
        }

    @property
    def client(self) -> AdminClient:
        """The one AdminClient.

        :raises ConnectionConfigError: if librdkafka refuses the configuration.
        """
        if self._admin is None:
            self._admin = self._made(AdminClient, self._client_settings())
        return self._admin

    def _made(self, kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
        if self.config.unsupported_by_librdkafka:
            raise ConnectionConfigError(
                self.config.with_field_names(
                    f"The connection {self.conn_id!r} cannot be used by the worker, which asks for offsets: "
                    f"{self.config.unsupported_by_librdkafka}."
                )
            )
        try:
            return kind(settings)
        except (KafkaException, ValueError, TypeError) as error:
            said = text_of(error)
            fault = find_login_fault(said)
            reason = f"{fault} ({said})" if fault else f"{said}. Correct the property it names."
            raise ConnectionConfigError(
                self.config.with_field_names(
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
        refused_since: float | None = None
        while True:
            asked = time.monotonic()
            try:
                metadata = client.list_topics(timeout=max(0.1, min(wait, deadline - asked)))
            except KafkaException as error:
                client.poll(0)
                now = time.monotonic()
                if now >= deadline or self.failures.is_final(now - began, self.timeout):
                    raise self.to_error(error, "reading metadata") from error
                if not self._waits_for_start:
                    refused_since = (refused_since or now) if self.failures.nothing_listens() else None
                    if refused_since is not None and now >= refused_since + _REFUSED_SECONDS:
                        raise self.failures.refusal("reading metadata") from error
                if now - asked < wait:
                    # The client fails at once if brokers are down; they may start again soon.
                    time.sleep(0.1)
                else:
                    # The metadata of a large cluster take longer.
                    wait *= 2
            except MALFORMED_ANSWERS as error:
                raise BrokerUnavailableError(f"The brokers' metadata must be readable; got {error!r}.") from error
            else:
                # A broker that was there and restarts is waited for.
                self._answered = self._waits_for_start = True
                return metadata

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

    def list_offsets(self, times: Mapping[TopicPartition, int], isolation: IsolationLevel) -> Future[OffsetAnswers]:
        """Request offsets, all in one request; :meth:`result` waits for its answers.

        ``AdminClient.list_offsets`` makes a future for each partition of the one that its base class fills, which is a
        third of what a plan of 10,000 partitions takes.

        :param times: in ms since 1970, or one of Kafka's negative numbers, such as -1 for the end.
        """
        asked = [confluent_kafka.TopicPartition(*p, at) for p, at in times.items()]
        answers: Future[OffsetAnswers] = Future()
        super(AdminClient, self.client).list_offsets(
            asked, answers, isolation_level_value=isolation.value, request_timeout=self.timeout
        )
        return answers

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


def is_transient(error: Exception) -> bool:
    """Whether a leader is only missing temporarily, as in a rolling restart or just after a topic was created."""
    return code_of(error.__cause__) in LEADER_ELECTION_ERRORS


def partition_numbers(listed: Any, described: TopicDescription | None) -> list[int]:
    """The partitions of a topic by two answers, of two brokers perhaps, of which one that has just started may not know
    all of them yet.

    :param listed: the topic in a broker's list.
    :param described: None if it was not described.
    """
    return sorted({*listed.partitions, *(() if described is None else (p.id for p in described.partitions))})


def topic_ids(described: Mapping[str, TopicDescription]) -> dict[str, str]:
    """The ids of topics, as far as brokers return them."""
    return {name: str(topic.topic_id) for name, topic in described.items() if topic.topic_id is not None}
