"""Read the timestamps of some records of planned ranges. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.next_messages import next_messages
from airflow_provider_kafka_spark.clients.unreadable import UNREADABLE
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges, TopicPartition

#: Records in the middle and at the end of a range, and the largest number of ranges, for :func:`oldest_sampled`.
_SAMPLES, _MAX_SAMPLED_RANGES = 20, 50


def edge_timestamps(client: KafkaClient, ranges: OffsetRanges) -> tuple[int, int] | None:
    """The least and the greatest timestamp, in ms, of the first and the last record of each partition's ranges.

    A record that the worker's client cannot read is left out with a warning: the job may be told to leave it out, or
    read it with more memory.

    :return: None if there is no record at any of these offsets.
    :raises BrokerError: if the broker does not return them.
    """
    wanted = ranges.without_empty()
    first: dict[TopicPartition, int] = {}
    last: dict[TopicPartition, int] = {}
    for r in wanted:
        first.setdefault(r.topic_partition, r.from_offset)
        last[r.topic_partition] = r.until_offset
    at_ends = _timestamps(client, {p: until - 1 for p, until in last.items() if until - 1 > first[p]}, last)
    found = [*chain(*_timestamps(client, first, last).values(), *at_ends.values())]
    return (min(found), max(found)) if found else None


def oldest_sampled(client: KafkaClient, ranges: OffsetRanges) -> dict[TopicPartition, int]:
    """The oldest timestamp, in ms, of some records in the middle and at the end of each of the largest ranges.

    :param ranges: at most one of each partition.
    :raises BrokerError: if the broker does not return them.
    """
    largest = sorted(ranges.without_empty(), key=lambda r: -r.size)[:_MAX_SAMPLED_RANGES]
    ends = {r.topic_partition: r.until_offset for r in largest}
    oldest: dict[TopicPartition, int] = {}
    for starts in (
        {r.topic_partition: r.from_offset + r.size // 2 for r in largest},
        {r.topic_partition: max(r.from_offset, r.until_offset - _SAMPLES) for r in largest},
    ):
        for partition, found in _timestamps(client, starts, ends, _SAMPLES).items():
            # A record without a timestamp has -1.
            oldest[partition] = min([oldest.get(partition, found[0]), *(ms for ms in found if ms >= 0)])
    return oldest


def _timestamps(
    client: KafkaClient, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], count: int = 1
) -> dict[TopicPartition, list[int]]:
    """The timestamps of the first so many records at or after the start of each partition, as far as they are before
    the end.
    """
    if not starts:
        return {}
    consumer = client.new_consumer(**{"fetch.message.max.bytes": 65536, "enable.partition.eof": True})
    try:
        consumer.assign([confluent_kafka.TopicPartition(p.topic, p.partition, o) for p, o in starts.items()])
        found, seen = dict[TopicPartition, list[int]](), dict.fromkeys(starts, 0)
        waiting, deadline = set(starts), time.monotonic() + client.timeout
        while waiting and time.monotonic() < deadline:
            for message in next_messages(consumer, 0.2):
                topic, number = message.topic(), message.partition()
                if topic is None or number is None or (partition := TopicPartition(topic, number)) not in waiting:
                    continue
                if timestamps := _timestamp(client, partition, message, ends[partition]):
                    found.setdefault(partition, []).extend(timestamps)
                seen[partition] += 1
                is_last = message.error() is not None or (message.offset() or 0) >= ends[partition] - 1
                if seen[partition] < count and not is_last:
                    continue
                waiting.discard(partition)
                consumer.incremental_unassign([confluent_kafka.TopicPartition(topic, number)])
        return found
    finally:
        consumer.close()


def _timestamp(client: KafkaClient, partition: TopicPartition, message: confluent_kafka.Message, end: int) -> list[int]:
    """The timestamp of a record, if it is before the end, can be read, and has one."""
    error, offset, (kind, timestamp) = message.error(), message.offset(), message.timestamp()
    if error is None:
        return [timestamp] if kind and offset is not None and offset < end else []
    if error.code() in UNREADABLE:
        client.log.warning(
            "The timestamp of %s@%s is not compared with the window or with the settings of the target, since the "
            "worker's client cannot read the record (%s). The job reads it, or fails with its offset.",
            partition,
            offset,
            error.name(),
        )
    elif error.code() != KafkaError._PARTITION_EOF:
        raise client.to_error(KafkaException(error), f"reading {partition}", f"READ on topic {partition.topic!r}")
    return []
