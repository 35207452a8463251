"""Read the timestamps of the first and last records of planned ranges. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Mapping

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges, TopicPartition


def edge_timestamps(client: KafkaClient, ranges: OffsetRanges) -> tuple[int, int] | None:
    """The least and the greatest timestamp, in ms, of the first and the last record of each partition's ranges.

    :return: None if there is no record at any of these offsets.
    :raises BrokerError: if the broker does not return them.
    """
    wanted = ranges.without_empty()
    first: dict[TopicPartition, int] = {}
    last: dict[TopicPartition, int] = {}
    for r in wanted:
        first.setdefault(r.topic_partition, r.from_offset)
        last[r.topic_partition] = r.until_offset
    found = _timestamps(client, first, last)
    found += _timestamps(client, {p: until - 1 for p, until in last.items()}, last)
    return (min(found), max(found)) if found else None


def _timestamps(
    client: KafkaClient, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[int]:
    """The timestamp of the first record at or after the start of each partition, if it is before the end."""
    if not starts:
        return []
    consumer = client.new_consumer(**{"fetch.message.max.bytes": 65536, "enable.partition.eof": True})
    try:
        consumer.assign([confluent_kafka.TopicPartition(p.topic, p.partition, o) for p, o in starts.items()])
        found, waiting, deadline = list[int](), set(starts), time.monotonic() + client.timeout
        while waiting and time.monotonic() < deadline:
            for message in consumer.consume(num_messages=500, timeout=0.2):
                error, topic, number = message.error(), message.topic(), message.partition()
                if topic is None or number is None:
                    continue
                partition = TopicPartition(topic, number)
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise client.to_error(KafkaException(error), f"reading {partition}", f"READ on topic {topic!r}")
                offset, (kind, timestamp) = message.offset(), message.timestamp()
                if error is None and partition in waiting and offset is not None and offset < ends[partition]:
                    found += [timestamp] if kind else []
                if partition in waiting:
                    waiting.discard(partition)
                    consumer.incremental_unassign([confluent_kafka.TopicPartition(topic, number)])
        return found
    finally:
        consumer.close()
