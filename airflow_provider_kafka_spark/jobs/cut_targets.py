"""Whether the logs of targets still have what they have acknowledged: a leader that was not in sync cuts them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, partition_name, split_name
from airflow_provider_kafka_spark.core.offsets.segments import Segment, segments_of_runs
from airflow_provider_kafka_spark.core.runs.carried_progress import SlotProgress, last_targets
from airflow_provider_kafka_spark.core.runs.run_protocol import leaders_of
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset, KafkaAdmin
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
    def of_slots(cls, request: CopyJob, pieces: Sequence[Piece], slots: Sequence[CommittedOffset]) -> Acknowledged:
        partitions = {piece.spans[0].topic_partition for piece in pieces}
        by_name = {partition_name(p, request.source_ids): p for p in partitions}
        lasts, segments = dict[Place, int](), list[Segment]()
        for slot in slots:
            for place, offset in last_targets(slot.metadata).items():
                lasts[place] = max(offset, lasts.get(place, 0))
            progress = SlotProgress.parse(slot.offset, slot.metadata)
            source = by_name.get((split_name(progress.name) or (progress.name,))[0])
            # The plan may lack the partition.
            if source is not None:
                segments += segments_of_runs(source, request.transform.target_of(source.topic), progress.runs or ())
        return cls(lasts, tuple(segments))

    def and_also(self, other: Acknowledged) -> Acknowledged:
        lasts = {p: max(m.get(p, 0) for m in (self.lasts, other.lasts)) for p in {*self.lasts, *other.lasts}}
        return Acknowledged(lasts, (*self.segments, *other.segments))


class TargetLogs:
    """The logs of targets since a moment at which their leaders were noted.

    :param topics: the targets.
    :ivar leaders: as the mark has them; empty if brokers do not say them.
    """

    def __init__(self, admin: KafkaAdmin, topics: Iterable[str]) -> None:
        self._admin = admin
        self._topics = sorted(topics)
        self.leaders = leaders_of(admin.leader_epochs(self._topics)) if self._topics else ""

    def have_other_leaders(self) -> bool:
        """Whether one has got another leader since, as far as brokers say it."""
        return self.leaders not in ("", leaders_of(self._admin.leader_epochs(self._topics)))

    def lacking(
        self, request: CopyJob, run_id: str, acknowledged: Acknowledged, may_lack: Collection[str]
    ) -> tuple[str, ...]:
        """The partitions that have not what was acknowledged.

        :param may_lack: targets from which records may be absent.
        """
        if not acknowledged.lasts and not acknowledged.segments:
            return ()
        ends = self._admin.end_offsets(self._topics)
        return _cut_since(self._admin.jvm, request, run_id, acknowledged, ends, may_lack)


def _cut_since(
    jvm: object,
    request: CopyJob,
    run_id: str,
    acknowledged: Acknowledged,
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
    ordered = sorted(acknowledged.segments, key=lambda s: s.target)
    last_of = [*acknowledged.lasts.items(), *((_place(s), s.target.until_offset - 1) for s in ordered)]
    cut = {place for place, offset in last_of if offset >= ends.get(place, offset + 1)}
    cut |= {_place(b) for a, b in pairwise(ordered) if _place(a) == _place(b) and _overlaps(a, b)}
    # They say nothing of a partition that is cut already.
    if request.transform.provenance.in_headers:
        cut.update(_without_our_header(jvm, request, run_id, acknowledged.lasts, cut, compacted))
    elif ordered:
        cut.update(_other_than_source(jvm, request, ordered, cut, compacted))
    return tuple(f"{topic}[{number}]" for topic, number in sorted(cut))


def _without_our_header(
    jvm: object,
    request: CopyJob,
    run_id: str,
    lasts: Mapping[Place, int],
    cut: Collection[Place],
    compacted: Collection[str],
) -> set[Place]:
    """Where the last record is not of this run."""
    others = set()
    with record_reader(jvm, request.sink_options) as read:
        for place, offset in lasts.items():
            if place in cut or place[0] == request.transform.dead_letter_topic:
                continue
            found = read(*place, offset)
            is_absent = found is Look.ABSENT and place[0] not in compacted
            is_ours = isinstance(found, FoundRecord) and found.provenance is not None
            is_ours = is_ours and found.provenance.run_id == run_id  # type: ignore[union-attr]
            if is_absent or (isinstance(found, FoundRecord) and not is_ours):
                others.add(place)
    return others


def _other_than_source(
    jvm: object, request: CopyJob, ordered: Sequence[Segment], cut: Collection[Place], compacted: Collection[str]
) -> set[Place]:
    """Where a last record is not that of the source."""
    others = set[Place]()
    with (
        record_reader(jvm, request.source_options) as read_source,
        record_reader(jvm, request.sink_options) as read,
    ):
        for s in _before_gaps(ordered):
            place = _place(s)
            if place in cut or place in others:
                continue
            found = read(*place, s.target.until_offset - 1)
            source = read_source(s.source.topic, s.source.partition, s.source.until_offset - 1)
            if isinstance(found, FoundRecord) and isinstance(source, FoundRecord):
                is_other = (found.key, found.value) != (source.key, source.value)
            else:
                is_other = found is Look.ABSENT and place[0] not in compacted
            if is_other:
                others.add(place)
    return others


def _place(segment: Segment) -> Place:
    return segment.target.topic, segment.target.partition


def _overlaps(segment: Segment, following: Segment) -> bool:
    """Whether the log was cut between them: the second one begins at offsets of the first."""
    return segment.target.until_offset > following.target.from_offset


def _before_gaps(ordered: Sequence[Segment]) -> Iterator[Segment]:
    """Those after which a log may have been cut and filled again, and the last of each partition."""
    for _, group in groupby(ordered, key=lambda s: s.target.topic_partition):
        of_partition = list(group)
        for s, following in pairwise(of_partition):
            if following.target.from_offset - s.target.until_offset > _MARKERS:
                yield s
        yield of_partition[-1]
