"""The versioned JSON that the Airflow worker and the Spark driver exchange: one request, and one report in return.

A driver that runs other code than the worker must not guess, so both sides refuse another version. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from airflow_provider_kafka_spark.core.bounds import TimeWindow
from airflow_provider_kafka_spark.core.codec import FROM_MINUS_ONE, decode_text, encode
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.fault import Fault
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.parameters import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.segments import Segment

PROTOCOL_VERSION = 13
_REMEDY = (
    "Worker and driver must run the same version of airflow-provider-kafka-spark: let the operator send its own code, "
    "and remove copies installed on the cluster."
)


@dataclass(frozen=True, slots=True)
class Transform:
    """What happens to a record between source and target.

    :param where: an SQL predicate over the source columns; None keeps all.
    :param columns: SQL expressions for ``key``, ``value``, ``headers``, ``partition``; a column that is left out is
        unchanged.
    :param topic: the one target topic, or None.
    :param topic_expr: SQL expression for the target topic, or None.
    :param topic_map: the target of each source topic that is read, or empty.
    :param keys: of the records that are copied, see ``core.record_filter``; None for all.
    :param headers: name and values of headers, of which a record must have each; empty for all.
    :param reject_when: an SQL expression; a record for which it is true, or text, is rejected.
    :param dead_letter_topic: where rejected records go; None if nothing is rejected.
    :param schema_id_map: see ``core.schema_ids``; empty if no id is rewritten.
    :param preserve_partition: write to the source partition's number.
    :param include_headers: keep the source's headers.
    :param provenance: ``"headers"`` adds a header that says where the record came from, ``"segments"`` maps offsets in
        the report; None does neither.
    :param preserve_timestamps: keep the record's timestamp.
    :param window_start_ms: drop records with an older timestamp, in ms; None drops none.
    :param window_end_ms: drop records with this timestamp or a later one, in ms.
    """

    where: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    topic: str | None = None
    topic_expr: str | None = None
    preserve_partition: bool = False
    include_headers: bool = True
    provenance: str | None = "headers"
    preserve_timestamps: bool = True
    window_start_ms: int | None = None
    window_end_ms: int | None = None
    topic_map: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[Any, ...] | None = None
    headers: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reject_when: str | None = None
    dead_letter_topic: str | None = None
    schema_id_map: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of_topics(self, topics: Collection[str]) -> Transform:
        """With the part of the map that concerns these source topics."""
        return replace(self, topic_map={t: name for t, name in self.topic_map.items() if t in topics})

    def target_of(self, topic: str) -> str:
        """The target of a source topic, where no expression decides."""
        return self.topic or self.topic_map[topic]

    @property
    def targets(self) -> tuple[str, ...]:
        """Every topic that is written to; empty if ``topic_expr`` decides."""
        names = self.topic_map.values() if self.topic is None else (self.topic,)
        dead = () if self.dead_letter_topic is None or self.topic_expr is not None else (self.dead_letter_topic,)
        return tuple(sorted({*names, *dead}))

    @property
    def has_provenance_headers(self) -> bool:
        """Whether each record of the target says where it came from."""
        return self.provenance == "headers"

    @property
    def has_filter(self) -> bool:
        """Whether an expression, a key or a header decides which records are copied."""
        return self.where is not None or self.keys is not None or bool(self.headers)

    @property
    def drops_records(self) -> bool:
        return self.has_filter or self.window_start_ms is not None or self.window_end_ms is not None


@dataclass(frozen=True, slots=True)
class PauseWhileLag:
    """Nothing is sent while a consumer group is too far behind on the target.

    :param group_id: on the target's cluster.
    :param max_lag: in offsets, of all partitions together that the group consumes.
    :param max_pause_seconds: a longer pause ends the job.
    """

    group_id: str
    max_lag: int
    max_pause_seconds: float

    def is_paused(self, lag: int, *, was_paused: bool) -> bool:
        """A pause ends below 80 % of the limit, so that it does not begin again at once.

        >>> pause = PauseWhileLag("billing", 100, 3600.0)
        >>> pause.is_paused(101, was_paused=False), pause.is_paused(81, was_paused=True)
        (True, True)
        >>> pause.is_paused(100, was_paused=False), pause.is_paused(80, was_paused=True)
        (False, False)
        """
        return lag > (self.max_lag * 4 // 5 if was_paused else self.max_lag)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job may write, over all of its Spark tasks.

    :param records_per_second: None for no limit.
    :param bytes_per_second: of keys and values; None for no limit.
    :param pause: None for none.
    """

    records_per_second: int | None = None
    bytes_per_second: int | None = None
    pause: PauseWhileLag | None = None

    def seconds(self, records: int) -> float:
        """How long so many records take at least."""
        return 0.0 if self.records_per_second is None else records / self.records_per_second

    def describe(self, records: int) -> str:
        """A line for the log.

        >>> Pace(2_000).describe(60_000)
        'Pace: at most 2,000 records/s, so 0:00:30 or more.'
        """
        limits = {"records/s": self.records_per_second, "bytes/s": self.bytes_per_second}
        given = " and ".join(f"{limit:,} {unit}" for unit, limit in limits.items() if limit is not None)
        duration = timedelta(seconds=round(self.seconds(records)))
        parts = [f"at most {given}"] if given else []
        parts += [f"so {duration} or more"] if duration else []
        if self.pause is not None:
            parts.append(f"paused while group {self.pause.group_id!r} lags by more than {self.pause.max_lag:,}")
        return f"Pace: {', '.join(parts)}."


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The additional fields for a stream: the checkpoint, and how it is used.

    :param stream_id: goes into the provenance header of what the stream writes.
    :param planned: from where the stream stands to the end of the log at planning time, as
        ``topic:partition:from:until``.
    :param source: the option that says what is subscribed to, for Spark's source.
    :param starting_offsets: Spark's JSON; counts only until Spark has written its own.
    :param checkpoint: folder of the generation, as URI.
    :param record: the generation's manifest, as JSON text.
    :param last_batch: number of the last batch that had started when the worker read the checkpoint, -1 for none. A
        different number means that another run was active meanwhile.
    :param unfinished_batch: number of the batch that ``JobRequest.ranges`` finish first, or None.
    :param unfinished_checkpoint: folder of the generation that it belongs to, as URI.
    :param lock: file that a run holds while it uses the checkpoint, as URI.
    :param latest_submission: file with the number of the latest submission that used the checkpoint, as URI.
    :param stale_lock: text of a lock that may be taken over because its owner is gone.
    :param owner: the task's run, for the lock.
    :param max_offsets_per_trigger: of one micro-batch, over all partitions; None for no limit.
    """

    stream_id: str
    planned: tuple[str, ...]
    source: Mapping[str, str]
    starting_offsets: str
    checkpoint: str
    record: str
    last_batch: int = field(metadata=FROM_MINUS_ONE)
    lock: str
    latest_submission: str
    owner: str
    stale_lock: str | None = None
    unfinished_batch: int | None = None
    unfinished_checkpoint: str | None = None
    max_offsets_per_trigger: int | None = None

    @property
    def planned_ranges(self) -> OffsetRanges:
        return OffsetRanges.parse(self.planned)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The additional fields for an audit of a past copy. Nothing is written.

    :param run_ids: of the past runs, as their provenance headers have them.
    :param target_ranges: what is read of the target, as ``topic:partition:from:until``.
    :param compares: compare fingerprints of the records, which nothing has changed.
    :param may_have_aged: source partitions, as ``topic:partition``, whose records may have aged out of the target:
        what is not there is unknown.
    :param segments: where the target has records that no header tells of.
    """

    run_ids: tuple[str, ...]
    target_ranges: tuple[str, ...]
    compares: bool
    may_have_aged: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request to the job.

    :param run_id: goes into the provenance header; the same for all tries.
    :param instance: by which the run is found at the target's brokers, see ``core.run_identity``.
    :param submission: number of this submission, which only grows. It is no time.
    :param submitted_at_ms: when the worker made this submission, in ms since 1970, by its clock.
    :param plan_digest: of the plan that the ranges come from; the report repeats it.
    :param ranges: what must be read, as ``topic:partition:from:until``.
    :param spans: what each Spark partition reads; together they cover all ranges, and perhaps gaps between them.
    :param source_options: Spark options of the source, with the login. **Secret.**
    :param sink_options: Spark options of the sink, with the login. **Secret.**
    :param report_uri: where the report goes: a local path, or any URI that Hadoop's file systems reach.
    :param preserve_order: many spans of one Kafka partition are read by one task, one after the other.
    :param delivery: ``exactly_once`` or ``at_least_once``.
    :param delivery_parts: what decides which records are written and to where, by name, as far as the worker knows it.
    :param goes_on: this is a batch of a stream.
    :param source_ids: id of each source topic, as far as brokers return it.
    :param window: of the plan; records of other times are counted, and copied.
    :param is_retry: an earlier try of this run may have delivered records.
    :param former_run_ids: of runs of the same task instance, whose marks count wherever they are.
    :param adopts_run: the worker may not know the run's id: it is that of the mark at the brokers, if there is one.
    :param is_first_submission: the worker has never submitted a job under this ``run_id``.
    :param untrusted_until: progress that was committed under this submission number or a lower one does not count.
    :param proved_key: the delivery key of a delivery that the worker has proved, or empty.
    :param proved_until: number of the latest submission that ``proved_ranges`` is of; 0 without them.
    :param proved_ranges: what was read and delivered before the task was cleared, by the worker's own proof; only where
        no header tells it.
    :param proved_segments: where these records are; None if that is not known.
    :param proved_repeats: what was proved may be in the target more than once.
    :param audit_from: where to look for earlier deliveries: for each target topic and partition, its end before the
        run's first submission, or before the first one since the task was cleared after its delivery.
    :param audit_within: where to look in front of that: all that the target got while tries of this run wrote, before
        the clear.
    :param proved_targets: the part of that which has what was delivered before the clear, by the worker's own proof.
    :param audit_since_ms: the same by time, in ms since 1970, where ``topic_expr`` decides on the target.
    :param forbidden_targets: topics that are being read and that ``topic_expr`` must not lead to.
    :param progress_seconds: seconds between two lines of progress.
    :param proceed_file: on the driver's machine; the worker makes it when it has recorded the application, and the job
        writes nothing before. None in cluster mode.
    :param pace: how fast it may write; None for no limit.
    :param stream: the additional fields for a stream; None for a bounded copy.
    :param audit: the additional fields for an audit; None for a copy.
    :param report_key: of the MAC by which the worker knows the job's report. **Secret.**
    :param title: of the task, for Spark's page.
    :param event_token: random value by which the worker knows the driver's own events in its output. **Secret.**
    :param owner_pid: process on the driver's own machine whose death ends the job, or None in cluster mode. A worker
        that was killed cannot stop its job, and its task's retry would write beside it.
    """

    run_id: str
    instance: str
    submission: int
    plan_digest: str
    ranges: tuple[str, ...]
    spans: tuple[OffsetRange, ...]
    transform: Transform
    source_options: Mapping[str, str] = field(repr=False)
    sink_options: Mapping[str, str] = field(repr=False)
    report_uri: str
    fail_on_data_loss: bool = True
    preserve_order: bool = True
    delivery: str = EXACTLY_ONCE
    delivery_parts: Mapping[str, str] = field(default_factory=dict)
    goes_on: bool = False
    source_ids: Mapping[str, str] = field(default_factory=dict)
    window: TimeWindow | None = None
    is_retry: bool = False
    former_run_ids: tuple[str, ...] = ()
    adopts_run: bool = False
    is_first_submission: bool = False
    submitted_at_ms: int = 0
    untrusted_until: int = 0
    proved_key: str = ""
    proved_until: int = 0
    proved_ranges: tuple[str, ...] = ()
    proved_segments: tuple[Segment, ...] | None = None
    proved_repeats: bool = False
    proved_targets: tuple[str, ...] = ()
    title: str = ""
    audit_from: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    audit_within: tuple[str, ...] = ()
    audit_since_ms: int | None = None
    forbidden_targets: tuple[str, ...] = ()
    progress_seconds: float = 5.0
    owner_pid: int | None = None
    proceed_file: str | None = None
    pace: Pace | None = None
    stream: StreamRequest | None = None
    audit: AuditRequest | None = None
    event_token: str = field(default="", repr=False)
    report_key: str = field(default="", repr=False)

    @property
    def offset_ranges(self) -> OffsetRanges:
        return OffsetRanges.parse(self.ranges)

    @property
    def planned_offsets(self) -> int:
        """Offsets to be read at most, or for a stream at least."""
        if self.stream is not None:
            return self.stream.planned_ranges.total
        of_target = () if self.audit is None else OffsetRanges.parse(self.audit.target_ranges)
        return sum(span.size for span in (*self.spans, *of_target))

    def to_json(self) -> str:
        return json.dumps(encode(self, PROTOCOL_VERSION), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JobRequest:
        """:raises ProtocolError: if it is no request of this version."""
        return decode_text(cls, text, version=PROTOCOL_VERSION, remedy=_REMEDY)


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
    :param doubled: records that the target has more than once.
    :param missing: selected records of the source that the target does not have.
    :param filtered: records of the source that are not selected, and that the target does not have.
    :param unknown: selected records of the source that the target does not have, and may have had.
    :param extra: copies beyond the first.
    :param different: delivered records of which a copy differs from the source.
    :param not_compared: delivered records that the source does not have any more.
    """

    offset_range: OffsetRange
    once: int = 0
    doubled: int = 0
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
    :param doubled: the first doubled records, as ``topic[partition]@offset``.
    :param different: the first records that differ, in the same form.
    """

    ranges: tuple[AuditCounts, ...]
    missing_ranges: tuple[OffsetRange, ...] = ()
    all_missing_ranges: bool = True
    doubled: tuple[str, ...] = ()
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobReport:
    """The job's report of what it did. The task succeeds only if the report matches the plan.

    :param delivery_key: of what the whole plan delivers, see ``core.run_protocol``.
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
    :param failed_tasks: Spark tasks that failed, or were lost and ran again, while the job succeeded.
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
        return decode_text(cls, text, version=PROTOCOL_VERSION, remedy=_REMEDY)
