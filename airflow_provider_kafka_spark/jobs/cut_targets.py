"""Whether the logs of targets still have what they have acknowledged: a leader that was not in sync cuts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_provider_kafka_spark.core.carried_progress import SlotProgress, last_targets, overlaps
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.pieces import Piece, partition_name, split_name
from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.core.segments import Segment
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset
from airflow_provider_kafka_spark.jobs.one_record import record_reader


def cut_since(
    jvm: object,
    request: JobRequest,
    pieces: Sequence[Piece],
    slots: Sequence[CommittedOffset],
    ends: Mapping[tuple[str, int], int],
) -> tuple[str, ...]:
    """The partitions of targets that have not what the slots, or the worker's proof, say of them.

    A cut takes the end of a log, so the last record of each tells it. It is compared with its source where segments say
    which that is; otherwise a log that others have filled again looks as before.

    :param ends: of the targets' logs now.
    """
    cut = {p for slot in slots for p, offset in last_targets(slot.metadata).items() if offset >= ends.get(p, 0)}
    segments = list(request.proved_segments or ())
    for slot, source in zip(slots, _sources(request, pieces, slots), strict=True):
        progress = SlotProgress.parse(slot.offset, slot.metadata)
        if overlaps(progress.runs or ()):
            cut |= last_targets(slot.metadata).keys()
        elif source is not None:
            segments += progress.segments(source, request.transform.target_of(source.topic))
    cut |= set(_other_records(jvm, request, segments, ends))
    return tuple(f"{topic}[{number}]" for topic, number in sorted(cut))


def _sources(
    request: JobRequest, pieces: Sequence[Piece], slots: Iterable[CommittedOffset]
) -> Iterator[TopicPartition | None]:
    """Of which partition each slot is, if the plan has it."""
    partitions = {piece.spans[0].topic_partition for piece in pieces}
    by_name = {partition_name(p, request.source_ids): p for p in partitions}
    for slot in slots:
        name = SlotProgress.parse(slot.offset, slot.metadata).name
        yield by_name.get((split_name(name) or (name,))[0])


def _other_records(
    jvm: object, request: JobRequest, segments: Iterable[Segment], ends: Mapping[tuple[str, int], int]
) -> Iterator[tuple[str, int]]:
    """Partitions that end before their last segment, or have another record there than the source."""
    newest = {s.target.topic_partition: s for s in sorted(segments, key=lambda s: s.target)}
    if not newest:
        return
    with (
        record_reader(jvm, request.source_options) as read_source,
        record_reader(jvm, request.sink_options) as read_target,
    ):
        for s in newest.values():
            place = s.target.topic, s.target.partition
            if s.target.until_offset > ends.get(place, 0):
                yield place
                continue
            copy = read_target(*place, s.target.until_offset - 1)
            record = read_source(s.source.topic, s.source.partition, s.source.until_offset - 1)
            # What has aged out, or was compacted, says nothing.
            if None not in (copy, record) and copy != record:
                yield place
