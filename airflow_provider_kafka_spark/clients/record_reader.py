"""Read the records of offset ranges, with a bound on each wait. Nothing is committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.next_messages import learn_topics, next_messages
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.spans import SMALL_GAP_OFFSETS

#: Partitions that are read at once.
AT_ONCE = 1_000
#: Settings of a consumer that reads ranges of few records: of a longer log it would fetch far more than these.
SHORT_RANGES = {"fetch.message.max.bytes": 65_536, "queued.min.messages": 1, "fetch.queue.backoff.ms": 1}
#: A range may end without a record, which only the position shows: it is looked at so often.
_POSITION_SECONDS, _LOOK_SECONDS = 0.02, 0.2
#: Records that are taken from the client at once, at least.
_FEW = 100

_Key = tuple[str, int]


def read_ranges(
    client: KafkaClient, consumer: confluent_kafka.Consumer, ranges: OffsetRanges, action: str
) -> Iterator[tuple[OffsetRange, int, confluent_kafka.Message]]:
    """The records of ranges, each with its range and its offset: all partitions at once, and in order within each.

    :param consumer: any that joins no group; its assignment is replaced.
    :param action: of the caller, for a message, such as ``"counting records"``.
    :raises BrokerError: if the broker refuses it, or stops answering for as long as the time-out.
    """
    of_partitions = [(p, tuple(of_one)) for p, of_one in ranges.without_empty().by_partition()]
    if len(of_partitions) > AT_ONCE:
        learn_topics(consumer, (p for p, _ in of_partitions), client.timeout)
    for i in range(0, len(of_partitions), AT_ONCE):
        yield from _Reading(client, consumer, of_partitions[i : i + AT_ONCE], action).records()


def read_range(
    client: KafkaClient, consumer: confluent_kafka.Consumer, r: OffsetRange, action: str
) -> Iterator[tuple[int, confluent_kafka.Message]]:
    """The records of one range, each with its offset; as :func:`read_ranges`."""
    return ((offset, message) for _, offset, message in read_ranges(client, consumer, OffsetRanges([r]), action))


class _Partition:
    """The ranges of one partition that are not read to their ends; the first of them is read up to a position."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self._left = deque(ranges)
        self.position = ranges[0].from_offset

    def range_at(self, offset: int) -> OffsetRange | None:
        """The range of a record that came; None if it is between ranges, or no longer wanted."""
        if offset < self.position:
            return None
        self.move(offset)
        r = self._left[0] if self._left else None
        return r if r is not None and r.from_offset <= offset else None

    def move(self, position: int) -> bool:
        """Note that everything before an offset is read; return whether that is news."""
        if position <= self.position:
            return False
        self.position = position
        while self._left and position >= self._left[0].until_offset:
            self._left.popleft()
        return True

    @property
    def ended(self) -> bool:
        return not self._left

    @property
    def is_far(self) -> bool:
        """Whether a seek to the next range costs less than to read the gap."""
        return not self.ended and self._left[0].from_offset - self.position > SMALL_GAP_OFFSETS

    def jump(self) -> int:
        """Continue at the next range, and return where it begins."""
        self.position = self._left[0].from_offset
        return self.position


class _Reading:
    """One consumer reads some partitions until each is at the end of its last range."""

    def __init__(
        self,
        client: KafkaClient,
        consumer: confluent_kafka.Consumer,
        of_partitions: Sequence[tuple[TopicPartition, Sequence[OffsetRange]]],
        action: str,
    ) -> None:
        self._client, self._consumer, self._action = client, consumer, action
        self._waiting = {(p.topic, p.partition): _Partition(ranges) for p, ranges in of_partitions}
        # What comes after a short range is fetched with it, and need not be looked at.
        self._most = max(_FEW, *(r.size for _, ranges in of_partitions for r in ranges))

    def records(self) -> Iterator[tuple[OffsetRange, int, confluent_kafka.Message]]:
        self._consumer.assign([_place(p, of_one.position) for p, of_one in self._waiting.items()])
        now = looked = time.monotonic()
        deadline = now + self._client.timeout
        while self._waiting:
            moved: set[_Key] = set()
            messages = next_messages(self._consumer, _POSITION_SECONDS, self._most)
            for message in messages:
                if (found := self._of_partition(message)) is None:
                    continue
                p, of_one, offset = found
                if (r := of_one.range_at(offset)) is not None:
                    yield r, offset, message
                if of_one.move(offset + 1):
                    moved.add(p)
            now = time.monotonic()
            if not messages or now - looked > _LOOK_SECONDS:
                looked = now
                moved |= self._look()
            if moved:
                deadline = now + self._client.timeout
                self._leave(moved)
            elif now > deadline:
                raise self._stopped()

    def _of_partition(self, message: confluent_kafka.Message) -> tuple[_Key, _Partition, int] | None:
        topic, number, offset, error = message.topic(), message.partition(), message.offset(), message.error()
        # No group is joined, although the client requests one.
        if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            where = self._action if topic is None else f"{self._action} of {topic}[{number}]"
            raise self._client.to_error(KafkaException(error), where, f"READ on topic {topic!r}")
        if error is not None or topic is None or number is None or offset is None:
            return None
        p = (topic, number)
        of_one = self._waiting.get(p)
        return None if of_one is None else (p, of_one, offset)

    def _look(self) -> set[_Key]:
        """The partitions whose position has moved, which it also does over gaps: so it shows the end even without
        records.
        """
        now = self._consumer.position([_place(p) for p in self._waiting])
        return {p for at in now if self._waiting[p := (at.topic, at.partition)].move(at.offset)}

    def _leave(self, moved: Iterable[_Key]) -> None:
        """Read on at the next range of a partition where that is far away, and not at all where there is none."""
        ended = [p for p in moved if self._waiting[p].ended]
        far = [p for p in moved if self._waiting[p].is_far]
        if ended or far:
            self._consumer.incremental_unassign([_place(p) for p in (*ended, *far)])
        if far:
            self._consumer.incremental_assign([_place(p, self._waiting[p].jump()) for p in far])
        for p in ended:
            del self._waiting[p]

    def _stopped(self) -> BrokerUnavailableError:
        (topic, number), of_one = min(self._waiting.items(), key=lambda item: item[0])
        return BrokerUnavailableError(
            f"{self._action.capitalize()} of {len(self._waiting):,} partitions came to a stop for "
            f"{self._client.timeout:.0f} s, of {topic}[{number}] at offset {of_one.position:,} (connection "
            f"{self._client.conn_id!r}, {self._client.config.bootstrap_servers}). Is the partition's leader up?"
        )


def _place(p: _Key, offset: int = confluent_kafka.OFFSET_INVALID) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(*p, offset)
