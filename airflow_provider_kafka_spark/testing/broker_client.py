"""What tests do to a broker: make and change topics, write records, read them all back, age some out, join a group, let
users do things."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from uuid import uuid4

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import Consumer, Message, Producer
    from confluent_kafka.admin import AdminClient, ClusterMetadata

#: What ACLs call the cluster, of the resource type ``"cluster"``.
CLUSTER = "kafka-cluster"

_BATCH = 10_000
_REASON_SECONDS = 5.0
_Member = TypeVar("_Member", bound=Enum)


class Record(NamedTuple):
    """One record, as written or as read.

    ``key`` and ``value`` are bytes or null; ``headers`` keep their order and may repeat a key or have a null value;
    ``timestamp`` is in milliseconds since the epoch. In a record to write, None as ``timestamp`` means now, None as
    ``partition`` lets the client choose by the key, and ``offset`` is not looked at. In a record that was read, all
    are set.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = None
    offset: int | None = None


class OpenTransaction:
    """A transaction whose records are written and neither committed nor aborted."""

    def __init__(self, end: Callable[[bool], None]) -> None:
        self._end = end
        self.has_ended = False

    def commit(self) -> None:
        """Make its records visible to everyone; they are when this returns."""
        self._end(True)
        self.has_ended = True

    def abort(self) -> None:
        """Make its records invisible to whoever reads committed ones."""
        self._end(False)
        self.has_ended = True


class BrokerClient:
    """A test's view of one running broker: every call returns when the broker has done it, or raises.

    :param bootstrap_servers: such as ``"127.0.0.1:9092"``
    :param client_config: more librdkafka properties for every client, such as a login
    :param timeout: seconds that any one call may take
    """

    def __init__(
        self, bootstrap_servers: str, client_config: Mapping[str, Any] | None = None, *, timeout: float = 60.0
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_config = dict(client_config or {})
        self.timeout = timeout
        self._heard: list[str] = []

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name once every partition has a leader, so that any client can use it.

        :param config: topic properties such as ``{"cleanup.policy": "compact"}``
        :raises LocalServiceError: the broker refused it, for instance because it exists
        """
        from confluent_kafka.admin import NewTopic

        admin = self._admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self._settle(admin.create_topics([topic]), f"to create topic {name!r}")
        deadline = time.monotonic() + self.timeout
        while len(self._leaders(admin, name)) < partitions:
            self._wait(deadline, f"a leader for all {partitions} partitions of the new topic {name!r}")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and return once it is gone, so that the name can be used again.

        :raises LocalServiceError: the broker refused it, for instance because there is none of that name
        """
        admin = self._admin()
        self._settle(admin.delete_topics([name]), f"to delete topic {name!r}")
        deadline = time.monotonic() + self.timeout
        while name in self._metadata(admin).topics:
            self._wait(deadline, f"topic {name!r} to be gone")

    def alter_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Change properties of a topic; the others stay.

        :param config: such as ``{"max.message.bytes": "1000000"}``
        :raises LocalServiceError: the broker refused it
        """
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        admin = self._admin()
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._settle(admin.incremental_alter_configs([resource]), f"to set {dict(config)!r} of topic {name!r}")

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions to a topic and return once every one has a leader.

        :param total: how many it has then
        :raises LocalServiceError: the broker refused it, for instance because it has more already
        """
        from confluent_kafka.admin import NewPartitions

        admin = self._admin()
        self._settle(
            admin.create_partitions([NewPartitions(name, total)]), f"to add partitions to {name!r}, up to {total}"
        )
        deadline = time.monotonic() + self.timeout
        while len(self._leaders(admin, name)) < total:
            self._wait(deadline, f"a leader for all {total} partitions of topic {name!r}")

    def topics(self) -> set[str]:
        """Return the names of all topics, the broker's internal ones included."""
        return set(self._metadata(self._admin()).topics)

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the first offset and the one after the last, of every partition."""
        consumer = self._consumer("read_uncommitted")
        try:
            return self._offsets(consumer, topic)
        finally:
            consumer.close()

    def produce(self, topic: str, records: Iterable[Record], config: Mapping[str, Any] | None = None) -> None:
        """Write all records, in order within each partition, and return when the broker has acknowledged every one.

        :param records: taken one by one, so that a generator of millions does not fill the memory
        :param config: more librdkafka producer properties, such as ``{"compression.type": "zstd"}``
        :raises LocalServiceError: one could not be written; some of the others may have been
        """
        self._produce(self._producer(config), topic, records)

    def produce_transaction(self, topic: str, records: Iterable[Record], *, commit: bool = True) -> None:
        """Write all records in one transaction, which ends by a commit or, on demand, by an abort.

        :raises LocalServiceError: as :meth:`produce`; the transaction is then aborted
        """
        with self.open_transaction(topic, records) as transaction:
            if commit:
                transaction.commit()

    @contextmanager
    def open_transaction(self, topic: str, records: Iterable[Record]) -> Iterator[OpenTransaction]:
        """Write all records in a transaction that stays open inside ``with``; at its end it is aborted unless it was committed.

        :raises LocalServiceError: as :meth:`produce`
        """
        producer = self._producer({"transactional.id": f"testing-{uuid4()}", "message.send.max.retries": 10})
        producer.init_transactions(self.timeout)
        producer.begin_transaction()
        before = self.offsets(topic)

        def end(commit: bool) -> None:
            written = self.offsets(topic)
            (producer.commit_transaction if commit else producer.abort_transaction)(self.timeout)
            # The broker answers before it has written the markers.
            deadline = time.monotonic() + self.timeout
            touched = [partition for partition, ends in written.items() if ends != before[partition]]
            while any(self.offsets(topic)[partition] == written[partition] for partition in touched):
                self._wait(deadline, f"the end of a transaction to show in {topic!r}")

        transaction = OpenTransaction(end)
        try:
            self._produce(producer, topic, records)
            yield transaction
        finally:
            if not transaction.has_ended:
                transaction.abort()

    def committed(self, group_id: str, topic: str) -> dict[int, int]:
        """Return the committed offset of every partition of a topic that has one."""
        from confluent_kafka import TopicPartition

        consumer = self._consumer("read_committed", {"group.id": group_id})
        try:
            partitions = [TopicPartition(topic, number) for number in self._offsets(consumer, topic)]
            found = consumer.committed(partitions, timeout=self.timeout)
        finally:
            consumer.close()
        return {p.partition: p.offset for p in found if p.offset >= 0}

    @contextmanager
    def group_member(self, group_id: str, topic: str) -> Iterator[None]:
        """Consume a topic as a member of a group inside ``with``.

        :raises LocalServiceError: it was given no partition within the time-out
        """
        consumer = self._consumer("read_committed", {"group.id": group_id, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            deadline = time.monotonic() + self.timeout
            while not consumer.assignment():
                consumer.poll(0.1)
                self._wait(deadline, f"a partition of {topic!r} for a member of group {group_id!r}")
            yield
        finally:
            consumer.close()

    def consume(
        self, topic: str, *, isolation_level: str = "read_committed", config: Mapping[str, Any] | None = None
    ) -> list[Record]:
        """Return every record that the topic holds at the time of the call, ordered by partition and offset.

        :param isolation_level: ``"read_uncommitted"`` also returns records of open and aborted transactions
        :param config: more librdkafka consumer properties
        :raises LocalServiceError: the ends were not reached within the time-out
        """
        from confluent_kafka import TopicPartition

        consumer = self._consumer(isolation_level, config)
        try:
            ends = {partition: end for partition, (start, end) in self._offsets(consumer, topic).items() if start < end}
            consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
            records = self._read(consumer, topic, ends) if ends else []
        finally:
            consumer.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Age records out: in each named partition, those before the given offset are gone when this returns.

        :param before: partition to the first offset that stays; -1 for the end
        :raises LocalServiceError: the broker refused it, for instance because an offset lies beyond the end
        """
        from confluent_kafka import TopicPartition

        # Named, because a client that is collected as garbage never answers.
        admin = self._admin()
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        self._settle(admin.delete_records(wanted), f"to delete records of topic {topic!r} before {dict(before)!r}")

    def add_acl(self, principal: str, operation: str, resource_type: str, name: str, pattern: str = "literal") -> None:
        """Let a user do something, from any host. The broker goes by it when this returns.

        To :meth:`consume`, a user has to read the groups that begin with ``testing-`` too.

        :param principal: such as ``"User:alice"``, or ``"User:CN=alice"`` for a client with a certificate
        :param operation: such as ``"read"``, ``"describe"`` or ``"idempotent_write"``
        :param resource_type: ``"topic"``, ``"group"``, ``"transactional_id"`` or ``"cluster"``
        :param name: of the topic or group; ``"*"`` for all; of a cluster always ``"kafka-cluster"``
        :param pattern: ``"prefixed"`` if it is only how the names begin
        :raises OptionError: there is no such operation, resource type or pattern
        :raises LocalServiceError: the broker refused it, for instance because it has no authorizer
        """
        self._change_acl((principal, operation, resource_type, name, pattern), is_there=True)

    def remove_acl(
        self, principal: str, operation: str, resource_type: str, name: str, pattern: str = "literal"
    ) -> None:
        """Take back what :meth:`add_acl` gave, by the same arguments. The broker goes by it when this returns.

        :raises OptionError: there is no such operation, resource type or pattern
        :raises LocalServiceError: the broker refused it, or has no such ACL
        """
        self._change_acl((principal, operation, resource_type, name, pattern), is_there=False)

    def _change_acl(self, acl: tuple[str, str, str, str, str], *, is_there: bool) -> None:
        from confluent_kafka.admin import (
            AclBinding,
            AclBindingFilter,
            AclOperation,
            AclPermissionType,
            ResourcePatternType,
            ResourceType,
        )

        principal, operation, resource_type, name, pattern = acl
        parts = (
            # The client keeps the name of an older protocol.
            _member(ResourceType, "broker" if resource_type.lower() == "cluster" else resource_type),
            name,
            _member(ResourcePatternType, pattern),
            principal,
            "*",
            _member(AclOperation, operation),
            AclPermissionType.ALLOW,
        )
        only_this = AclBindingFilter(*parts)
        admin = self._admin()
        if is_there:
            self._settle(admin.create_acls([AclBinding(*parts)]), f"to add the ACL {acl!r}")
        else:
            deletions = admin.delete_acls([only_this])
            self._settle(deletions, f"to remove the ACL {acl!r}")
            if not any(future.result() for future in deletions.values()):
                raise self._failed(f"to remove the ACL {acl!r}", "no such ACL")
        # The broker answers when the change is written, and goes by it when its authorizer has read it.
        deadline = time.monotonic() + self.timeout
        while bool(self._answer(admin.describe_acls(only_this), f"to list the ACL {acl!r}")) != is_there:
            self._wait(deadline, f"the ACL {acl!r} to be {'there' if is_there else 'gone'}")

    def _config(self, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            # librdkafka writes to stderr, which is the test's; failures come back as errors anyway.
            "log_level": 0,
            "error_cb": lambda error: self._heard.append(str(error)),
            # A broker that is starting or was restarted is found at once, instead of after up to 10 seconds.
            "reconnect.backoff.max.ms": 200,
            **self.client_config,
            **(more or {}),
        }

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._config())

    def _producer(self, config: Mapping[str, Any] | None) -> Producer:
        from confluent_kafka import Producer

        return Producer(
            self._config(
                {
                    # Never retried, so nothing is written twice or out of order. An idempotent producer would promise
                    # the same, and takes half a second to get its id before its first record.
                    "message.send.max.retries": 0,
                    "linger.ms": 5,
                    "batch.size": 512 * 1024,
                    "compression.type": "lz4",
                    # Successes are counted by flush(); calling Python for each of them halves the speed.
                    "delivery.report.only.error": True,
                    "message.timeout.ms": int(self.timeout * 1000),
                    "queue.buffering.max.messages": 500_000,
                    **(config or {}),
                }
            )
        )

    def _consumer(self, isolation_level: str, config: Mapping[str, Any] | None = None) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(
            self._config(
                {
                    # Required by the client, and never used: partitions are assigned and nothing is committed.
                    "group.id": f"testing-{uuid4()}",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "isolation.level": isolation_level,
                    "fetch.wait.max.ms": 50,
                    **(config or {}),
                }
            )
        )

    def _leaders(self, admin: AdminClient, topic: str) -> list[int]:
        """Return the partitions that have a leader."""
        found = self._metadata(admin).topics.get(topic)
        return [] if found is None else sorted(p.id for p in found.partitions.values() if p.leader >= 0)

    def _metadata(self, admin: AdminClient) -> ClusterMetadata:
        from confluent_kafka import KafkaException

        self._heard.clear()
        try:
            return admin.list_topics(timeout=self.timeout)
        except KafkaException as error:
            # The reason, such as a refused login, is told to the callback only, when the client is polled.
            deadline = time.monotonic() + _REASON_SECONDS
            while not self._heard and time.monotonic() < deadline:
                admin.poll(0.2)
            reason = self._heard[0] if self._heard else error
            raise self._failed("an answer to a metadata request", reason) from error

    def _offsets(self, consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            partitions = self._leaders(self._admin(), topic)
            if not partitions:
                raise self._failed(f"topic {topic!r} to exist", "no such topic, or one without leaders")
            return {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=self.timeout)
                for partition in partitions
            }
        except KafkaException as error:
            raise self._failed(f"the offsets of topic {topic!r}", error) from error

    def _produce(self, producer: Producer, topic: str, records: Iterable[Record]) -> None:
        failures: list[str] = []

        def failed(error: object, _message: Message) -> None:
            failures.append(str(error))

        for record in records:
            # Only the values that are set: this client takes a timestamp of 0 as now, and has no None for either.
            arguments: dict[str, Any] = {}
            if record.partition is not None:
                arguments["partition"] = record.partition
            if record.timestamp is not None:
                arguments["timestamp"] = record.timestamp
            if record.headers:
                arguments["headers"] = list(record.headers)
            while True:
                try:
                    producer.produce(topic, record.value, record.key, on_delivery=failed, **arguments)
                    break
                except BufferError:
                    # The queue is full: let the broker take some. message.timeout.ms bounds how often.
                    producer.poll(0.1)
            if failures:
                break
        unsent = producer.flush(self.timeout)
        if failures or unsent:
            got = f"{len(failures)} failures, the first: {failures[0]}" if failures else f"no answer for {unsent}"
            raise self._failed(f"the broker to take every record for topic {topic!r}", got)

    def _read(self, consumer: Consumer, topic: str, ends: dict[int, int]) -> list[Record]:
        from confluent_kafka import KafkaError

        records: list[Record] = []
        open_partitions = set(ends)
        deadline = time.monotonic() + self.timeout
        while open_partitions:
            messages = consumer.consume(_BATCH, timeout=0.1)
            for message in messages:
                partition, offset = _position(message)
                if error := message.error():
                    # The end is also told where the last offsets hold no record: markers, or compacted away.
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise self._failed(f"to read topic {topic!r}", error)
                    open_partitions.discard(partition)
                    continue
                if offset < ends[partition]:
                    records.append(_record(message))
                if offset >= ends[partition] - 1:
                    open_partitions.discard(partition)
            if messages:
                deadline = time.monotonic() + self.timeout
            elif time.monotonic() > deadline:
                raise self._failed(f"to reach the end of topic {topic!r}", f"silence in partitions {open_partitions}")
        return records

    def _settle(self, futures: Mapping[Any, Future[Any]], what: str) -> None:
        for future in futures.values():
            self._answer(future, what)

    def _answer(self, future: Future[Any], what: str) -> Any:
        try:
            return future.result(self.timeout)
        except Exception as error:  # the client documents none: KafkaException, and TimeoutError of the future
            raise self._failed(what, str(error) or f"no answer within {self.timeout:g} seconds") from error

    def _wait(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise self._failed(what, f"nothing within {self.timeout:g} seconds")
        time.sleep(0.02)

    def _failed(self, expected: str, got: object) -> LocalServiceError:
        return LocalServiceError(
            f"Expected {expected}; got {got}. Broker: {self.bootstrap_servers}. See that it runs and takes this request."
        )


def _member(kind: type[_Member], name: str) -> _Member:
    """Return the value that is meant by its name, in any case."""
    try:
        return kind[name.upper()]
    except KeyError as error:
        known = [member.name.lower() for member in kind]
        raise OptionError(f"Expected one of {known} as {kind.__name__}; got {name!r}. Correct it.") from error


def _position(message: Message) -> tuple[int, int]:
    """Return partition and offset, which the client's types call optional, and which every message that it read has."""
    return cast(int, message.partition()), cast(int, message.offset())


def _record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return Record(
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
        timestamp=timestamp if kind else None,
        partition=message.partition(),
        offset=message.offset(),
    )
