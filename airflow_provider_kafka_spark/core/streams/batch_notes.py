"""Beside each batch of a stream: which task has finished it, what it has read, and where the target has that. No I/O.

The checkpoint only says where the stream stands, whichever task has moved it. So the driver writes a note when every
record of a batch was acknowledged, before the batch is committed. A later try of the task, which does not read the
batch again, has from there what it announces. What no note tells of is announced by nobody.

A task that a further try belongs to has had no report accepted: it was rejected, or a broker did not answer, or nobody
was there to look. So the further try checks the notes of its owner as it would have checked the report, before it
submits anything. What a committed batch lacks is written by no try: the task fails, and is not retried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.offsets.spans import merged
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode
from airflow_provider_kafka_spark.core.wire.protocol import JobReport

#: In the folder of a generation: a file for each of its newest batches, and for older ones of the task at work.
NOTES_FOLDER, KEPT_NOTES = "batches", 100
_VERSION = 1


@dataclass(frozen=True, slots=True)
class BatchNote:
    """The file ``batches/N``.

    :param owner: the task's run, as the lock has it. It is the same for all tries.
    :param report: of the batch.
    """

    owner: str
    report: JobReport

    def to_json(self) -> str:
        """:meth:`from_json` reads it back."""
        return json.dumps(encode(self, _VERSION), sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BatchNote:
        """:raises ProtocolError: if it is not whole, or of another version."""
        return decode_text(cls, text, version=_VERSION)


@dataclass(frozen=True, slots=True)
class FinishedBatches:
    """What earlier tries of a task have finished of a stream.

    :param reports: of their batches, by number.
    :param unknown: ranges that the stream has passed meanwhile, of which no note says who has finished them.
    :param warnings: what could not be checked of the others.
    """

    reports: Mapping[int, JobReport] = field(default_factory=dict)
    unknown: OffsetRanges = field(default_factory=OffsetRanges)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, notes: Mapping[int, BatchNote], owner: str, passed: OffsetRanges) -> FinishedBatches:
        """
        :param notes: of committed batches since the task's first try, by number.
        :param owner: the task.
        :param passed: where the stream has gone since.
        """
        own = {number: note.report for number, note in sorted(notes.items()) if note.owner == owner}
        known = (r.offset_range for note in notes.values() for r in note.report.ranges)
        return cls(own, passed.subtract(known))

    @property
    def ranges(self) -> OffsetRanges:
        """What they have read."""
        return _read(self.reports)

    @property
    def mapped(self) -> OffsetRanges:
        """The part of :attr:`ranges` that :attr:`segments` are known of."""
        return _read({number: r for number, r in self.reports.items() if r.segments is not None})

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(segment for report in self.reports.values() for segment in report.segments or ())

    @property
    def target_ids(self) -> dict[str, str]:
        return {name: topic_id for report in self.reports.values() for name, topic_id in report.target_ids.items()}

    @property
    def report(self) -> JobReport | None:
        """The counts of all :attr:`reports` together; None if there are none."""
        reports = tuple(self.reports.values())
        if not reports:
            return None
        return replace(
            reports[0],
            ranges=tuple(counts for report in reports for counts in report.ranges),
            duplicates=sum(report.duplicates for report in reports),
            failed_tasks=sum(report.failed_tasks for report in reports),
        )

    @property
    def may_have_duplicates(self) -> bool:
        return any(report.may_have_duplicates for report in self.reports.values())

    def target_ranges(self) -> Iterator[OffsetRange]:
        """Where the target has what they wrote: one range of each partition, and one more after each batch that another
        task has finished in between.
        """
        # Batches that follow each other have the same difference.
        numbered = enumerate(self.reports.items())
        for _, group in groupby(numbered, key=lambda found: found[1][0] - found[0]):
            yield from merged(r for _, (_, report) in group for r in report.target_ranges)


def _read(reports: Mapping[int, JobReport]) -> OffsetRanges:
    return OffsetRanges().merge(r.offset_range for report in reports.values() for r in report.ranges)
