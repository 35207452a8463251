"""What the worker asks of the driver. No I/O."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.topics.bounds import TimeWindow
from airflow_provider_kafka_spark.core.wire.codec import FROM_MINUS_ONE, decode_text, encode
from airflow_provider_kafka_spark.core.wire.protocol.version import PROTOCOL_VERSION, REMEDY


@dataclass(frozen=True, slots=True)
class Transform:
    """What happens to a record between source and target.

    :param where: an SQL predicate over the source columns; None keeps all.
    :param columns: SQL expressions for ``key``, ``value``, ``headers``, ``partition``; a column that is left out is
        unchanged.
    :param topic: the one target topic, or None.
    :param topic_expr: SQL expression for the target topic, or None.
    :param topic_map: the target of each source topic that is read, or empty.
    :param keys: of the records that are copied, see ``core.records.record_filter``; None for all.
    :param headers: name and values of headers, of which a record must have each; empty for all.
    :param reject_when: an SQL expression; a record for which it is true, or text, is rejected.
    :param dead_letter_topic: where rejected records go; None if nothing is rejected.
    :param schema_id_map: see ``core.records.schema_ids``; empty if no id is rewritten.
    :param preserve_partition: write to the source partition's number.
    :param include_headers: keep the source's headers.
    :param provenance: what tells where the record came from.
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
    provenance: Trace = Trace.HEADERS
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
    :param instance: by which the run is found at the target's brokers, see ``core.runs.run_identity``.
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
    :param reader: who reads the records, see ``core.copies.batch_path``; None for the default.
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
    reader: str | None = None
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
        return decode_text(cls, text, version=PROTOCOL_VERSION, remedy=REMEDY)
