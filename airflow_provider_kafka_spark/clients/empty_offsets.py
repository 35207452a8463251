"""Find offsets without a record: markers of transactions, what was compacted, aborted records. Nothing is committed."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.record_reads import raise_error, run_searches
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.record_search import sample


def empty_beginnings(
    client: KafkaClient,
    ranges: OffsetRanges,
    ends: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    within: float = 30.0,
) -> OffsetRanges:
    """Of each range what is before its first record. All are asked at once, and of each range one record is read.

    :param ends: of the logs.
    :param read_committed: aborted records are none.
    :param within: seconds for all of it, beside one request that goes on.
    :raises BrokerError: if the broker does not return the records, or not in time.
    """
    by_partition: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for r in ranges.without_empty():
        by_partition[r.topic_partition].append(r)
    searches = {(p, 0): sample([r.from_offset for r in of_p], 1) for p, of_p in by_partition.items()}
    level = "read_committed" if read_committed else "read_uncommitted"
    # What ages out meanwhile is not empty: from where the log begins then, nothing follows.
    settings = {"isolation.level": level, "auto.offset.reset": "error"}
    found = run_searches(client, searches, ends, raise_error, within, settings)
    empty = []
    for (p, _), records in found.items():
        # The first record after each beginning is among them.
        offsets = [offset for offset, _ in records]
        for r in by_partition[p]:
            place = bisect_left(offsets, r.from_offset)
            first = offsets[place] if place < len(offsets) else r.until_offset
            empty.append(replace(r, until_offset=min(first, r.until_offset)))
    return OffsetRanges(empty).without_empty()
