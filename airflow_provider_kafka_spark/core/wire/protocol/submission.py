"""One submission of a run, and what the worker knows of the run before it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.topics.known_topics import recreated


@dataclass(frozen=True, slots=True)
class EarlierDelivery:
    """What this task instance delivered before it was cleared: the job proved it to the worker.

    :param key: the delivery key, see ``core.runs.run_protocol``; empty if nothing was proved.
    :param records: how many.
    :param target_ranges: where the target got them.
    :param announced: the part of ``target_ranges`` that asset events have announced.
    :param target_ids: id of each target topic then.
    :param submission: number of the latest submission that ``ranges`` are of; 0 without them.
    :param ranges: what was read, where no header tells it.
    :param segments: where its records are; None if that is not known.
    :param may_have_duplicates: its records may be in the target more than once, and no header tells which.
    :param searched: what the target got while tries of this run wrote: records that a failed one of another plan has
        left are there too.
    """

    key: str = ""
    records: int = 0
    target_ranges: OffsetRanges = field(default_factory=OffsetRanges)
    announced: OffsetRanges = field(default_factory=OffsetRanges)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    submission: int = 0
    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    segments: tuple[Segment, ...] | None = None
    may_have_duplicates: bool = False
    searched: OffsetRanges = field(default_factory=OffsetRanges)

    def still_there(self, target_ids: Mapping[str, str]) -> EarlierDelivery:
        """What is not in a topic that was recreated since.

        :param target_ids: of now; a topic that is not named counts as the same.
        """
        gone = recreated(self.target_ids, target_ids)
        ranges, announced, searched = (
            OffsetRanges(r for r in of if r.topic not in gone)
            for of in (self.target_ranges, self.announced, self.searched)
        )
        return replace(self, target_ranges=ranges, announced=announced, searched=searched)


@dataclass(frozen=True, slots=True)
class History:
    """What the worker knows of a run before a submission.

    :param has_begun: a submission under this ``run_id`` was about to start, or has left a batch of a stream.
    :param adopts_run: the worker may not know the run's id: it is that of the mark at the brokers, if there is one.
    :param former_run_ids: of runs of the same task instance, whose marks count wherever they are.
    :param target_starts: where to look for earlier deliveries: for each target topic and partition, its end before the
        run's first submission, or before the first one since the task was cleared after its delivery; of a stream,
        before the run that began the batch. One that is not named is searched as a whole.
    :param earlier: what was delivered before the task was cleared, or None.
    """

    has_begun: bool = False
    adopts_run: bool = False
    former_run_ids: tuple[str, ...] = ()
    target_starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    earlier: EarlierDelivery | None = None

    @property
    def is_retry(self) -> bool:
        """Whether an earlier try of this run may have delivered records."""
        return self.has_begun or self.adopts_run


@dataclass(frozen=True, slots=True)
class Submission:
    """One ``spark-submit`` of a run. It is stored before the job can write anything.

    :param number: which only grows. It is no time.
    :param at_ms: when the worker made it, in ms since 1970, by its clock.
    :param untrusted_until: progress that was committed under this number or a lower one does not count.
    """

    number: int
    at_ms: int = 0
    untrusted_until: int = 0
