"""Clients of a test broker: write records, read them all back, join a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.testing.broker_admin import BrokerAdmin
from airflow_provider_kafka_spark.testing.record import Record, position_of, record_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

__all__ = ["BrokerClient", "OpenTransaction", "Record"]

_LEADER_SECONDS = 5.0


class OpenTransaction:
    """A transaction whose records are written and neither committed nor aborted."""

    def __init__(self, end: Callable[[bool], None]) -> None:
        self._end = end
        self.has_ended = False

    def commit(self) -> None:
        """Commit. Its records are visible to everyone when this returns."""
        self._end(True)
        self.has_ended = True

    def abort(self) -> None:
        """Abort. Its records are invisible to consumers that read committed."""
        self._end(False)
        self.has_ended = True


class BrokerClient(BrokerAdmin):
    """A test's client of one running broker: every call returns when the broker has done it, or raises.

    Its parameters are those of :class:`BrokerAdmin`.
    """

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the first offset and the one after the last, of every partition."""
        with closing(self._consumer("read_uncommitted")) as consumer:
            return self._offsets(consumer, topic)

    def produce(self, topic: str, records: Iterable[Record], config: Mapping[str, Any] | None = None) -> None:
        """Write all records, in order within each partition, and return when the broker has acknowledged every one.

        :param records: taken one by one, so that a generator of millions does not fill the memory
        :param config: more librdkafka producer properties, such as ``{"compression.type": "zstd"}``
        :raises LocalServiceError: one could not be written; some of the others may have been
        """
        self._produce(self._producer(config), topic, records)

    def produce_transaction(self, topic: str, records: Iterable[Record], *, commit: bool = True) -> None:
        """Write all records in one transaction, and commit or abort it.

        :raises LocalServiceError: as :meth:`produce`; the transaction is then aborted
        """
        with self.open_transaction(topic, records) as transaction:
            if commit:
                transaction.commit()

    @contextmanager
    def open_transaction(self, topic: str, records: Iterable[Record]) -> Iterator[OpenTransaction]:
        """Write all records in a transaction that stays open inside ``with``; it is aborted at the end unless it was
        committed.

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
                self._wait(deadline, f"write the end of a transaction to {topic!r}")

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

        with closing(self._consumer("read_committed", {"group.id": group_id})) as consumer:
            partitions = [TopicPartition(topic, number) for number in self._offsets(consumer, topic)]
            found = consumer.committed(partitions, timeout=self.timeout)
        return {p.partition: p.offset for p in found if p.offset >= 0}

    @contextmanager
    def group_member(self, group_id: str, topic: str) -> Iterator[None]:
        """Consume a topic as a member of a group inside ``with``.

        :raises LocalServiceError: it was given no partition within the time-out
        """
        with closing(self._consumer("read_committed", {"group.id": group_id})) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + self.timeout
            while not consumer.assignment():
                consumer.poll(0.1)
                self._wait(deadline, f"assign a partition of {topic!r} to a member of group {group_id!r}")
            yield

    def consume(
        self, topic: str, *, isolation_level: str = "read_committed", config: Mapping[str, Any] | None = None
    ) -> list[Record]:
        """Return every record that the topic holds at the time of the call, ordered by partition and offset.

        :param isolation_level: ``"read_uncommitted"`` also returns records of open and aborted transactions
        :param config: more librdkafka consumer properties
        :raises LocalServiceError: the ends were not reached within the time-out
        """
        from confluent_kafka import TopicPartition

        with closing(self._consumer(isolation_level, config)) as consumer:
            ends = {partition: end for partition, (start, end) in self._offsets(consumer, topic).items() if start < end}
            consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
            records = self._read(consumer, topic, ends) if ends else []
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def _producer(self, config: Mapping[str, Any] | None) -> Producer:
        from confluent_kafka import Producer

        return Producer(
            self._config(
                {
                    # No retries, so that nothing is written twice or out of order. An idempotent producer gives the
                    # same guarantee, but needs half a second for its id before the first record.
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
                    # Required by the client, but unused: partitions are assigned and nothing is committed.
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

    def _offsets(self, consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        from airflow_provider_kafka_spark.clients.connection.broker_failures import LEADER_ELECTION_ERRORS

        # A new leader may not know that it is one, or how far its followers are; one that has died does not answer, and
        # the client gives up its connection.
        lost = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER}
        transient = LEADER_ELECTION_ERRORS | lost
        patience = min(self.timeout, _LEADER_SECONDS)
        deadline = time.monotonic() + self.timeout
        while True:
            found = self._metadata(self._admin()).topics.get(topic)
            if found is None or not found.partitions:
                raise self._failed(f"have topic {topic!r}", "no such topic")
            got: object = "a partition without a leader"
            if all(partition.leader >= 0 for partition in found.partitions.values()):
                try:
                    return {
                        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=patience)
                        for number in sorted(found.partitions)
                    }
                except KafkaException as error:
                    got = error
                    if error.args[0].code() not in transient:
                        raise self._failed(f"return the offsets of topic {topic!r}", got) from error
                    # Otherwise it would ask the earlier leader again.
                    consumer.list_topics(topic, timeout=self.timeout)
            self._wait(deadline, f"return the offsets of topic {topic!r}; the last answer was {got}")

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
                    # The queue is full: wait for the broker. message.timeout.ms limits the wait.
                    producer.poll(0.1)
            if failures:
                break
        unsent = producer.flush(self.timeout)
        if failures or unsent:
            got = f"{len(failures)} failures, the first: {failures[0]}" if failures else f"no answer for {unsent}"
            raise self._failed(f"take every record for topic {topic!r}", got)

    def _read(self, consumer: Consumer, topic: str, ends: dict[int, int]) -> list[Record]:
        from confluent_kafka import KafkaError

        from airflow_provider_kafka_spark.clients.next_messages import next_messages

        records: list[Record] = []
        open_partitions = set(ends)
        deadline = time.monotonic() + self.timeout
        while open_partitions:
            messages = next_messages(consumer, 0.1)
            for message in messages:
                partition, offset = position_of(message)
                if error := message.error():
                    # The end is also reported if the last offsets have no record: transaction markers, or compacted
                    # records.
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise self._failed(f"serve the records of topic {topic!r}", error)
                    open_partitions.discard(partition)
                    continue
                if offset < ends[partition]:
                    records.append(record_of(message))
                if offset >= ends[partition] - 1:
                    open_partitions.discard(partition)
            if messages:
                deadline = time.monotonic() + self.timeout
            elif time.monotonic() > deadline:
                raise self._failed(
                    f"serve topic {topic!r} to its end", f"no more records of partitions {open_partitions}"
                )
        return records
