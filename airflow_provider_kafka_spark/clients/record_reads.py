"""Search records in any number of partitions. Nothing is committed."""

from __future__ import annotations

import time
from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Generic, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection.broker_failures import UNREADABLE
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.next_messages import learn_topics, next_messages
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.record_search import Records, Search, Wanted

#: Partitions that are read at once, so that what is fetched ahead stays below 64 MB.
_AT_ONCE = 1_000
#: Searches whose positions are so near are served by one read, which costs less than a seek.
_NEAR = 1_000
#: Messages that are taken at once where one record of each partition is enough. The fetches of the partitions that
#: they are of end by one call, which costs as much as many messages.
_TAKEN = 16
#: After so many reads, a search is named in the log.
SAID_AFTER = 8
_SETTINGS = {
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
    # What retention has deleted since it was asked is not there.
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": 65_536,
    # Nothing is fetched ahead, since a search goes on elsewhere. What was would delay the next fetch by a second.
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 1,
    # A fetch that waits at the end of one partition delays those of the others.
    "fetch.wait.max.ms": 10,
}

T = TypeVar("T")


def run_searches(
    client: KafkaClient,
    searches: Mapping[tuple[TopicPartition, int], Search[T]],
    ends: Mapping[TopicPartition, int],
    on_error: Callable[[str, KafkaSparkError], None],
    within: float | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[tuple[TopicPartition, int], T]:
    """Read what searches ask for, in all partitions at once, and return their answers.

    :param searches: by partition and any number.
    :param ends: of the logs.
    :param on_error: is called with a topic that the login may not read, and the error; it raises, or the topic is left
        out.
    :param within: seconds for all of it; None for no bound but that of each request.
    :param settings: of the consumer, beside those that every search has.
    :raises BrokerUnavailableError: if a broker returns no records for as long as the time-out, or it takes longer.
    """
    until = None if within is None else time.monotonic() + within
    by_partition: dict[TopicPartition, dict[int, Search[T]]] = {}
    for (p, number), search in searches.items():
        by_partition.setdefault(p, {})[number] = search
    found: dict[tuple[TopicPartition, int], T] = {}
    readers = {p: _PartitionReader(p, of_partition, found) for p, of_partition in sorted(by_partition.items())}
    waiting = [p for p, reader in readers.items() if reader.wanted is not None]
    if not waiting:
        return found
    with closing(client.new_consumer(**{**_SETTINGS, **(settings or {})})) as consumer:
        if len(waiting) > _AT_ONCE:
            learn_topics(consumer, waiting, client.timeout)
        for i in range(0, len(waiting), _AT_ONCE):
            of_some = {p: readers[p] for p in waiting[i : i + _AT_ONCE]}
            _search(client, consumer, of_some, ends, on_error, until)
    return found


def raise_error(_: str, error: KafkaSparkError) -> None:
    """The ``on_error`` of a caller that leaves no topic out."""
    raise error


class _PartitionReader(Generic[T]):
    """The searches in one partition, and what they have read. Those that want records near one another share a read.

    :param found: takes their answers.
    """

    def __init__(
        self, p: TopicPartition, searches: Mapping[int, Search[T]], found: dict[tuple[TopicPartition, int], T]
    ) -> None:
        self._p, self._found, self._searches = p, found, searches
        self._reads: list[tuple[int, Records]] = []
        #: What each search waits for: its position, number and count, in order.
        self._waiting: list[tuple[int, int, int]] = []
        for number in searches:
            self._advance(number, None)

    @property
    def wanted(self) -> Wanted | None:
        """What to read next; None if all searches have ended."""
        if not self._waiting:
            return None
        position, _, count = self._waiting[0]
        near = self._waiting[bisect_right(self._waiting, position + _NEAR, key=lambda w: w[0]) - 1][0]
        return Wanted(position, max(count, near - position + 1))

    def add(self, position: int, records: Records) -> None:
        """:param records: all from a position on, up to the last of them; none if there are none before the end."""
        self._reads.insert(bisect_right(self._reads, position, key=lambda read: read[0]), (position, records))
        while self._waiting and (known := self._known(self._waiting[0][0])) is not None:
            self._advance(self._waiting.pop(0)[1], known)

    def _advance(self, number: int, records: Records | None) -> None:
        search = self._searches[number]
        try:
            wanted = next(search) if records is None else search.send(records)
            while (known := self._known(wanted.position)) is not None:
                wanted = search.send(known)
        except StopIteration as answer:
            self._found[self._p, number] = answer.value
        else:
            insort(self._waiting, (wanted.position, number, wanted.count))

    def _known(self, position: int) -> Records | None:
        i = bisect_right(self._reads, position, key=lambda read: read[0]) - 1
        if i < 0:
            return None
        records = self._reads[i][1]
        if not records:
            return records
        return records[bisect_right(records, position - 1, key=lambda r: r[0]) :] or None


def _search(
    client: KafkaClient,
    consumer: confluent_kafka.Consumer,
    readers: Mapping[TopicPartition, _PartitionReader[T]],
    ends: Mapping[TopicPartition, int],
    on_error: Callable[[str, KafkaSparkError], None],
    until: float | None,
) -> None:
    lost: set[str] = set()
    rounds = 0
    while wanted := {
        p: at for p, reader in readers.items() if (at := reader.wanted) is not None and p.topic not in lost
    }:
        rounds += 1
        if rounds == SAID_AFTER:
            client.log.info(
                "Records of %d partitions, such as %s, are searched by their timestamps; with large batches this may "
                "take some seconds for each moment.",
                len(wanted),
                min(wanted),
            )
        if until is not None and time.monotonic() >= until:
            raise BrokerUnavailableError(
                f"The records of {len(wanted):,} partitions, such as {min(wanted)}, must be read in time; the brokers "
                f"took longer (connection {client.conn_id!r}, {client.config.bootstrap_servers})."
            )
        for p, records in _read(client, consumer, wanted, ends).items():
            if isinstance(records, KafkaSparkError):
                on_error(p.topic, records)
                lost.add(p.topic)
            else:
                readers[p].add(wanted[p].position, records)


def _read(
    client: KafkaClient,
    consumer: confluent_kafka.Consumer,
    wanted: Mapping[TopicPartition, Wanted],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Records | KafkaSparkError]:
    """The first records that come of each partition, from a position on; or why it may not be read."""
    consumer.assign([_place(p, at.position) for p, at in wanted.items()])
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    refused: dict[TopicPartition, Records | KafkaSparkError] = {}
    missing, deadline = set(wanted), time.monotonic() + client.timeout
    most = max(at.count for at in wanted.values())
    if most == 1:
        most = _TAKEN
    while missing:
        read = set[TopicPartition]()
        for message in next_messages(consumer, 0.2, most):
            topic, number = message.topic(), message.partition()
            if topic is None or number is None:
                continue
            p = TopicPartition.of((topic, number))
            if p in missing:
                missing.discard(p)
                read.add(p)
            elif p not in read or len(found.get(p, ())) >= wanted[p].count:
                continue
            answer = _answer(client, message, p, wanted[p].position)
            if isinstance(answer, tuple):
                found.setdefault(p, []).append(answer)
            elif answer is not None:
                refused[p] = answer
        if missing and read:
            # What the client has fetched of them beside is not wanted: of a batch it fetches all records.
            consumer.incremental_unassign([_place(p) for p in read])
        if missing and time.monotonic() > deadline:
            p = min(missing)
            raise BrokerUnavailableError(
                f"The records of {p} from offset {wanted[p].position:,} on must be readable; none came within "
                f"{client.timeout:.0f} s (connection {client.conn_id!r}, {client.config.bootstrap_servers}). Is the "
                "partition's leader up?"
            )
    # Records that came since the end was asked do not count.
    return {p: [r for r in found.get(p, []) if r[0] < ends[p]] for p in wanted} | refused


def _answer(
    client: KafkaClient, message: confluent_kafka.Message, p: TopicPartition, position: int
) -> tuple[int, int] | KafkaSparkError | None:
    """What a message of the client says: offset and time of a record, or why the partition may not be read; None at its
    end. A record without a time has -1, and so has one that the client cannot read.

    :param position: that was asked for.
    """
    error, offset = message.error(), message.offset()
    if error is None:
        if offset is None or offset < position:
            return _cut(client, p, position, offset)
        kind, ms = message.timestamp()
        return offset, ms if kind else -1
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    if error.code() in UNREADABLE:
        # It may have the offset of its batch, which begins before the place that was asked for.
        return max(offset or 0, position), -1
    return client.to_error(KafkaException(error), f"reading {p}", f"READ on topic {p.topic!r}")


def _cut(client: KafkaClient, p: TopicPartition, position: int, offset: int | None) -> BrokerUnavailableError:
    """The client reads from the log's start where the log has no such offset any more."""
    return BrokerUnavailableError(
        f"The log of {p} must reach to offset {position:,}, as it did when its end was asked; the brokers returned the "
        f"record {offset} (connection {client.conn_id!r}, {client.config.bootstrap_servers}). It was cut, or the topic "
        "was recreated, meanwhile; a further try asks again."
    )


def _place(p: TopicPartition, offset: int = confluent_kafka.OFFSET_INVALID) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(p.topic, p.partition, offset)
