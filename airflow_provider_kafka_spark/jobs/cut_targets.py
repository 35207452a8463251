"""Whether the logs of targets still have what they have acknowledged: a leader that was not in sync cuts them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from airflow_provider_kafka_spark.core.carried_progress import SlotProgress, last_targets
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.pieces import Piece, partition_name, split_name
from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.core.provenance import run_of
from airflow_provider_kafka_spark.core.segments import Segment
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset
from airflow_provider_kafka_spark.jobs.one_record import FoundRecord, Look, record_reader

#: Two offsets between segments may be markers: of the transaction, and of one that was aborted.
_MARKERS = 2

#: Topic and number of a partition.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What was acknowledged.

    :param lasts: the last offset of it in each partition of the targets.
    :param segments: of which records of the source it is a copy, as far as they say it.
    """

    lasts: Mapping[Place, int] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()

    @classmethod
    def of(cls, targets: Iterable[OffsetRange], segments: Iterable[Segment] | None) -> Acknowledged:
        lasts: dict[Place, int] = {}
        for r in targets:
            lasts[r.topic, r.partition] = max(r.until_offset - 1, lasts.get((r.topic, r.partition), 0))
        return cls(lasts, tuple(segments or ()))

    @classmethod
    def of_slots(cls, request: JobRequest, pieces: Sequence[Piece], slots: Sequence[CommittedOffset]) -> Acknowledged:
        lasts, segments = dict[Place, int](), list[Segment]()
        for slot, source in zip(slots, _sources(request, pieces, slots), strict=True):
            for place, offset in last_targets(slot.metadata).items():
                lasts[place] = max(offset, lasts.get(place, 0))
            if source is not None:
                progress = SlotProgress.parse(slot.offset, slot.metadata)
                segments += progress.segments(source, request.transform.target_of(source.topic))
        return cls(lasts, tuple(segments))

    def and_also(self, other: Acknowledged) -> Acknowledged:
        lasts = {p: max(m.get(p, 0) for m in (self.lasts, other.lasts)) for p in {*self.lasts, *other.lasts}}
        return Acknowledged(lasts, (*self.segments, *other.segments))


def cut_since(
    jvm: object,
    request: JobRequest,
    run_id: str,
    told: Acknowledged,
    ends: Mapping[Place, int],
    compacted: Collection[str],
) -> tuple[str, ...]:
    """The partitions of targets that have not what was acknowledged.

    A cut takes the end of a log, so the last record tells it: by its header, or by its source where segments say which
    that is. Without both, a log that others have filled again looks as before.

    :param ends: of the targets' logs now.
    :param compacted: topics from which a record may be absent.
    :raises BrokerUnavailableError: if a broker does not answer.
    """
    cut = {place for place, offset in told.lasts.items() if offset >= ends.get(place, offset + 1)}
    ordered = sorted(told.segments, key=lambda s: s.target)
    for partition, group in groupby(ordered, key=lambda s: s.target.topic_partition):
        if any(a.target.until_offset > b.target.from_offset for a, b in pairwise(group)):
            cut.add((partition.topic, partition.partition))
    with record_reader(jvm, request.sink_options) as read:

        def is_gone(place: Place, offset: int, found: FoundRecord | Look) -> bool:
            is_below = offset < ends.get(place, offset + 1)
            return not is_below or (found is Look.ABSENT and place[0] not in compacted)

        if request.transform.has_provenance_headers:
            for place, offset in told.lasts.items():
                if place in cut or place[0] == request.transform.dead_letter_topic:
                    continue
                found = read(*place, offset)
                is_other = isinstance(found, FoundRecord) and run_of(found.provenance) != run_id
                if is_other or is_gone(place, offset, found):
                    cut.add(place)
        elif ordered:
            with record_reader(jvm, request.source_options) as read_source:
                for s in _before_gaps(ordered):
                    place, offset = (s.target.topic, s.target.partition), s.target.until_offset - 1
                    if place in cut:
                        continue
                    found = read(*place, offset) if offset < ends.get(place, 0) else Look.ABSENT
                    source = read_source(s.source.topic, s.source.partition, s.source.until_offset - 1)
                    is_known = isinstance(found, FoundRecord) and isinstance(source, FoundRecord)
                    if is_gone(place, offset, found) or (is_known and found[:2] != source[:2]):  # type: ignore[index]
                        cut.add(place)
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


def _before_gaps(ordered: Sequence[Segment]) -> Iterator[Segment]:
    """Those after which a log may have been cut and filled again, and the last of each partition."""
    for _, group in groupby(ordered, key=lambda s: s.target.topic_partition):
        of_partition = list(group)
        for s, following in pairwise(of_partition):
            if following.target.from_offset - s.target.until_offset > _MARKERS:
                yield s
        yield of_partition[-1]
