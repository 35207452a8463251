"""Read a target backwards until the place of a group is known. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import confluent_kafka

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.record_headers import headers_of
from airflow_provider_kafka_spark.clients.record_reader import read_range
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.provenance import SourcePlace, provenance_of
from airflow_provider_kafka_spark.core.offsets.segments import SegmentIndex
from airflow_provider_kafka_spark.core.topics.group_offsets import GroupTranslation

_SETTINGS = {
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,
    # A block is bounded; more would be fetched for nothing.
    "queued.max.messages.kbytes": 16_384,
    # What retention deletes meanwhile is not read.
    "auto.offset.reset": "earliest",
}


def translate(translation: GroupTranslation, source: KafkaClient, target: KafkaClient, segments: SegmentIndex) -> None:
    """Read what the translation needs.

    :param segments: say where records of a target came from. Headers then say nothing: such copies pass on those of the
        source, whose producers can write any.
    :raises BrokerError: if a broker does not return it, or gives nothing for as long as the time-out.
    """
    with closing(target.new_consumer(**_SETTINGS)) as of_target:
        while blocks := translation.next_blocks():
            for block in blocks:
                translation.add_block(block, _origins(target, of_target, block, segments))
            target.log.info(
                "Read %s records of %r, backwards to %s.",
                f"{translation.records_read:,}",
                translation.topic,
                ", ".join(f"{b.partition}: {b.from_offset:,}" for b in blocks[:20]),
            )
            _ask_source(translation, source)
    _ask_source(translation, source)


def _ask_source(translation: GroupTranslation, source: KafkaClient) -> None:
    doubtful = translation.doubtful()
    if not doubtful:
        return
    with closing(source.new_consumer(**_SETTINGS)) as consumer:
        for r in doubtful:
            source.log.info("Looking in the source for %s, which the target does not have so far.", r)
            records = read_range(source, consumer, r, "reading records")
            translation.add_source(r, (offset for offset, _ in records))


def _origins(
    client: KafkaClient, consumer: confluent_kafka.Consumer, block: OffsetRange, segments: SegmentIndex
) -> Iterator[tuple[int, SourcePlace | None]]:
    for offset, message in read_range(client, consumer, block, "reading records"):
        place = segments.source_of(block.topic_partition, offset)
        if block.topic not in segments.targets:
            found = provenance_of(headers_of(message))
            place = None if found is None else found.place
        yield offset, place
