"""What the driver answers: the report of a job. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol.version import PROTOCOL_VERSION, REMEDY


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What happened to one range.

    :param records_read: records that Spark read from it, in all tries of the task.
    :param records_written: records that the target acknowledged, in all tries of the task.
    :param records_skipped: records that a filter or the exact window left out.
    :param records_rejected: records that the dead-letter topic acknowledged, in all tries of the task.
    """

    offset_range: OffsetRange
    records_read: int
    records_written: int
    records_skipped: int = 0
    records_rejected: int = 0

    @property
    def gaps(self) -> int:
        """Offsets without a readable record: compacted away, aborted, or transaction markers."""
        return self.offset_range.size - self.records_read


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What happened in one micro-batch of a stream.

    :param batch: its number in the checkpoint.
    :param replayed: it was begun by an earlier run and finished by this one.
    :param delivered_before: of its records, those that the earlier run had delivered and this one left out.
    """

    batch: int
    records_read: int
    records_written: int
    seconds: float
    replayed: bool = False
    delivered_before: int = 0


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """What an audit found of one range. Each source record counts in one of the first five.

    :param once: records that the target has once.
    :param duplicated: records that the target has more than once.
    :param missing: selected records of the source that the target does not have.
    :param filtered: records of the source that are not selected, and that the target does not have.
    :param unknown: selected records of the source that the target does not have, and may have had.
    :param extra: copies beyond the first.
    :param different: delivered records of which a copy differs from the source.
    :param not_compared: delivered records that the source does not have any more.
    """

    offset_range: OffsetRange
    once: int = 0
    duplicated: int = 0
    missing: int = 0
    filtered: int = 0
    unknown: int = 0
    extra: int = 0
    different: int = 0
    not_compared: int = 0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    :param ranges: one for each range of the request.
    :param missing_ranges: where the missing records are in the source; the first ones, if there are too many.
    :param all_missing_ranges: whether these are all.
    :param duplicated: the first duplicated records, as ``topic[partition]@offset``.
    :param different: the first records that differ, in the same form.
    """

    ranges: tuple[AuditCounts, ...]
    missing_ranges: tuple[OffsetRange, ...] = ()
    all_missing_ranges: bool = True
    duplicated: tuple[str, ...] = ()
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobReport:
    """The job's report of what it did. The task succeeds only if the report matches the plan.

    :param delivery_key: of what the whole plan delivers, see ``core.runs.run_protocol``.
    :param target_ids: id of each target topic, from the claim to the end of the job.
    :param failure: None if the job finished; see :meth:`error`.
    :param target_ranges: where the written records are, without those of ``JobRequest.proved_targets``: from the first
        to the last one of a partition. Records of other writers may lie between them.
    :param target_ends: the end of each target partition when all was written; of a stream, nothing.
    :param segments: which offsets of the target hold which of the source; None if it was not asked for, or is not known
        of all records.
    :param batches_passed: record batches of the source that this driver passed on as they were.
    :param bytes_written: of keys and values that this driver wrote, or of batches that it passed on; without rejected
        records. What a failed attempt of a Spark task wrote is not in it.
    :param records_outside_window: of the records that this driver read, those whose time is outside of the window.
    :param delivered_before: records that earlier tries had delivered and this one therefore left out.
    :param committed_before: offsets of the source that earlier tries had committed. Compaction may have removed their
        records since, so that nobody counts them again.
    :param duplicates: records of this run that the target has more than once, if the job checked it.
    :param may_have_duplicates: records may be in the target more than once, and no header tells which.
    :param leaves_mark: the mark of the run stays that of another plan, whose progress goes on to count.
    :param failed_tasks: of a job that writes at least once, Spark tasks that failed, or were lost and ran again.
    :param progress_groups: the consumer groups that hold the progress of this run's tasks.
    :param batches: of a stream, in order; those without records are left out.
    :param audit: what an audit found; None for a copy.
    :param ui_url: address of the Spark UI while the job ran, or None.
    :param warnings: problems that did not stop the job.
    :param seconds: from the driver's start to the end of the write.
    """

    run_id: str
    plan_digest: str
    ranges: tuple[RangeReport, ...]
    target_topics: tuple[str, ...]
    application_id: str
    spark_version: str
    seconds: float
    delivery_key: str = ""
    target_ids: Mapping[str, str] = field(default_factory=dict)
    failure: Fault | None = None
    target_ranges: tuple[OffsetRange, ...] = ()
    target_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    segments: tuple[Segment, ...] | None = None
    batches_passed: int = 0
    bytes_written: int = 0
    records_outside_window: int = 0
    delivered_before: int = 0
    committed_before: int = 0
    duplicates: int = 0
    may_have_duplicates: bool = False
    leaves_mark: bool = False
    failed_tasks: int = 0
    progress_groups: tuple[str, ...] = ()
    batches: tuple[BatchReport, ...] = ()
    audit: AuditReport | None = None
    ui_url: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def records_read(self) -> int:
        return sum(r.records_read for r in self.ranges)

    @property
    def records_written(self) -> int:
        return sum(r.records_written for r in self.ranges)

    @property
    def records_rejected(self) -> int:
        return sum(r.records_rejected for r in self.ranges)

    def error(self, secrets: Iterable[Mapping[str, str]]) -> KafkaSparkError | None:
        """The failure that the job reports, to be raised; None if it finished.

        :param secrets: options of the job's logins. The driver has left out those that it knew.
        """
        if self.failure is None:
            return None
        return self.failure.error(secrets, f"The Spark job failed (application {self.application_id}): ")

    def to_json(self) -> str:
        return json.dumps(encode(self, PROTOCOL_VERSION), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JobReport:
        """:raises ProtocolError: if it is no report of this version."""
        return decode_text(cls, text, version=PROTOCOL_VERSION, remedy=REMEDY)
