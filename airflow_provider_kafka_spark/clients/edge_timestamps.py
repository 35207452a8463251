"""Read the timestamps of some records of planned ranges. Nothing is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.record_reads import raise_error, run_searches
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.record_search import Records, sample

#: For :func:`sample_timestamps`: places in a range, records at each of them, and the largest number of ranges.
_PLACES, _SAMPLES, _MAX_SAMPLED_RANGES = 5, 10, 50


def edge_timestamps(client: KafkaClient, ranges: OffsetRanges) -> dict[str, tuple[int, int]]:
    """The least and the greatest timestamp, in ms, of the first and the last record of each partition's ranges, by
    topic; all partitions are read at once.

    A record that the worker's client cannot read is left out with a warning: the job may be told to leave it out, or
    read it with more memory.

    :return: a topic is left out if there is no record at any of these offsets.
    :raises BrokerError: if the broker does not return them.
    """
    first: dict[TopicPartition, int] = {}
    last: dict[TopicPartition, int] = {}
    for r in ranges.without_empty():
        first.setdefault(r.topic_partition, r.from_offset)
        last[r.topic_partition] = r.until_offset
    read = _read(client, {p: [start, last[p] - 1] for p, start in first.items()}, last, 1)
    found: dict[str, list[int]] = {}
    for p, records in read.items():
        for offset, ms in records:
            if ms >= 0:
                found.setdefault(p.topic, []).append(ms)
                continue
            client.log.warning(
                "The timestamp of %s@%s is not compared with the settings of the target, since the worker's client "
                "cannot read it. The job reads the record, or fails with its offset.",
                p,
                offset,
            )
    return {topic: (min(times), max(times)) for topic, times in found.items()}


def sample_timestamps(client: KafkaClient, ranges: OffsetRanges) -> dict[TopicPartition, list[int]]:
    """The timestamps, in ms, of some records at even distances in each of the largest ranges.

    :param ranges: at most one of each partition.
    :raises BrokerError: if the broker does not return them.
    """
    largest = sorted(ranges.without_empty(), key=lambda r: -r.size)[:_MAX_SAMPLED_RANGES]
    places = {
        r.topic_partition: [r.from_offset + r.size * (2 * i + 1) // (2 * _PLACES) for i in range(_PLACES)]
        for r in largest
    }
    read = _read(client, places, {r.topic_partition: r.until_offset for r in largest}, _SAMPLES)
    return {p: [ms for _, ms in records if ms >= 0] for p, records in read.items()}


def _read(
    client: KafkaClient,
    positions: Mapping[TopicPartition, Sequence[int]],
    ends: Mapping[TopicPartition, int],
    count: int,
) -> dict[TopicPartition, Records]:
    """The first so many records from each position on that are before the end; none of them is of an aborted
    transaction.
    """
    samples = {(p, 0): sample(at, count) for p, at in positions.items()}
    found = run_searches(client, samples, ends, raise_error, settings={"isolation.level": "read_committed"})
    return {p: records for (p, _), records in found.items()}
