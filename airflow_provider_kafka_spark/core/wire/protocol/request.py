"""What the worker asks of the driver. No I/O."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, ClassVar

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.topics.bounds import TimeWindow
from airflow_provider_kafka_spark.core.wire.codec import FROM_MINUS_ONE, decode, decode_text, encode
from airflow_provider_kafka_spark.core.wire.protocol.submission import EarlierDelivery, History, Submission
from airflow_provider_kafka_spark.core.wire.protocol.version import PROTOCOL_VERSION, REMEDY

#: The fields of a transformation that say to which topics records go.
ROUTES = frozenset({"topic", "topic_expr", "topic_map", "dead_letter_topic"})
#: Those that leave records out: by what they have, and by their time.
FILTERS, WINDOW = ("where", "keys", "headers"), ("window_start_ms", "window_end_ms")


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

    @classmethod
    def form(cls) -> tuple[str, ...]:
        """The fields that decide how a record looks in the target, and in which partition it is: neither which records
        are copied, nor to which topics.
        """
        return tuple(f.name for f in fields(cls) if f.name not in {*ROUTES, *FILTERS, *WINDOW, "reject_when"})

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
    def sql(self) -> dict[str, str]:
        """The author's expressions by the name of the parameter."""
        found = {
            "where": self.where,
            **{f"columns[{name!r}]": sql for name, sql in self.columns.items()},
            "target_topic_expr": self.topic_expr,
            "reject_when": self.reject_when,
        }
        return {name: sql for name, sql in found.items() if sql is not None}

    @property
    def filters(self) -> dict[str, Any]:
        """What leaves records out, by name: :data:`FILTERS` and :data:`WINDOW`, as far as they are given."""
        found = {name: getattr(self, name) for name in (*FILTERS, *WINDOW)}
        return {name: value for name, value in found.items() if value is not None and value != {}}

    @property
    def has_filter(self) -> bool:
        """Whether an expression, a key or a header decides which records are copied."""
        return not self.filters.keys().isdisjoint(FILTERS)

    @property
    def drops_records(self) -> bool:
        return bool(self.filters)


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
class How:
    """How a copy is carried out, whatever it copies. Fields have the names of parameters, except for ``pace``, which
    four of them make.

    :param fail_on_data_loss: offsets that are gone are an error.
    :param reader: who reads the records, see ``core.copies.batch_path``; None for the default.
    :param preserve_order: many spans of one Kafka partition are read by one task, one after the other.
    :param pace: how fast the job may write; None for no limit.
    """

    fail_on_data_loss: bool = True
    reader: str | None = None
    preserve_order: bool = True
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The checkpoint of a stream, and how it is used.

    :param stream_id: goes into the provenance header of what the stream writes.
    :param planned: from where the stream stands to the end of the log at planning time.
    :param source: the option that says what is subscribed to, for Spark's source.
    :param starting_offsets: Spark's JSON; counts only until Spark has written its own.
    :param checkpoint: folder of the generation, as URI.
    :param manifest: of the generation, as JSON text.
    :param last_batch: number of the last batch that had started when the worker read the checkpoint, -1 for none. A
        different number means that another run was active meanwhile.
    :param unfinished_batch: number of the batch that ``StreamJob.ranges`` finish first, or None.
    :param unfinished_checkpoint: folder of the generation that it belongs to, as URI.
    :param lock: file that a run holds while it uses the checkpoint, as URI.
    :param latest_submission: file with the number of the latest submission that used the checkpoint, as URI.
    :param stale_lock: text of a lock that may be taken over because its owner is gone.
    :param owner: the task's run, for the lock and for the notes of batches.
    :param max_offsets_per_trigger: of one micro-batch, over all partitions; None for no limit.
    """

    stream_id: str
    planned: OffsetRanges
    source: Mapping[str, str]
    starting_offsets: str
    checkpoint: str
    manifest: str
    last_batch: int = field(metadata=FROM_MINUS_ONE)
    lock: str
    latest_submission: str
    owner: str
    stale_lock: str | None = None
    unfinished_batch: int | None = None
    unfinished_checkpoint: str | None = None
    max_offsets_per_trigger: int | None = None

    @property
    def first_batch(self) -> int:
        """Number of the first batch of this generation that the run commits."""
        if self.unfinished_batch is None:
            return self.last_batch + 1
        return self.unfinished_batch if self.unfinished_checkpoint == self.checkpoint else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request to a job: a :class:`CopyJob`, a :class:`StreamJob` or an :class:`AuditJob`. Here is what all have.

    :param run_id: goes into the provenance header; the same for all tries. Of an audit, that of the past copy.
    :param plan_digest: of the plan that the ranges come from; the report repeats it.
    :param ranges: what must be read of the source.
    :param spans: what each Spark partition reads; together they cover all ranges, and perhaps gaps between them.
    :param transform: how each record is changed.
    :param source_options: Spark options of the source, with the login. **Secret.**
    :param sink_options: Spark options of the sink, with the login. **Secret.**
    :param source_ids: id of each source topic, as far as brokers return it.
    :param report_uri: where the report goes: a local path, or any URI that Hadoop's file systems reach.
    :param progress_seconds: seconds between two lines of progress.
    :param title: of the task, for Spark's page.
    :param proceed_file: on the driver's machine; the worker makes it when it has recorded the application, and the job
        writes nothing before. None in cluster mode.
    :param owner_pid: process on the driver's own machine whose death ends the job, or None in cluster mode. A worker
        that was killed cannot stop its job, and its task's retry would write beside it.
    :param event_token: random value by which the worker knows the driver's own events in its output. **Secret.**
    :param report_key: of the MAC by which the worker knows the job's report. **Secret.**
    """

    #: The module in ``jobs`` that runs it.
    job: ClassVar[str]

    run_id: str
    plan_digest: str
    ranges: OffsetRanges
    spans: tuple[OffsetRange, ...]
    transform: Transform
    source_options: Mapping[str, str] = field(repr=False)
    sink_options: Mapping[str, str] = field(repr=False)
    source_ids: Mapping[str, str] = field(default_factory=dict)
    report_uri: str = ""
    progress_seconds: float = 5.0
    title: str = ""
    proceed_file: str | None = None
    owner_pid: int | None = None
    event_token: str = field(default="", repr=False)
    report_key: str = field(default="", repr=False)

    @property
    def planned_source(self) -> OffsetRanges:
        """What is read of the source, as far as it is known before the job."""
        return self.ranges

    @property
    def planned_offsets(self) -> int:
        """Offsets to be read at most, or for a stream at least."""
        return sum(span.size for span in self.spans)

    def to_json(self) -> str:
        return json.dumps({"job": self.job, **encode(self, PROTOCOL_VERSION)}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> JobRequest:
        """:raises ProtocolError: if it is no request of this version."""
        content = decode_text(dict[str, Any], text, name="A request", remedy=REMEDY)
        kinds: dict[str, type[JobRequest]] = {kind.job: kind for kind in (CopyJob, StreamJob, AuditJob)}
        kind = kinds.get(str(content.get("job")))
        if kind is not None:
            del content["job"]
        # One of another version has no kind, and is refused for its version first.
        return decode(kind or CopyJob, content, version=PROTOCOL_VERSION, remedy=REMEDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob(JobRequest):
    """Copy exactly the ranges.

    :param instance: by which the run is found at the target's brokers, see ``core.runs.run_identity``.
    :param submission: this one.
    :param history: what the worker knows of the run before it.
    :param delivery: ``exactly_once`` or ``at_least_once``.
    :param delivery_parts: what decides which records are written and to where, by name, as far as the worker knows it.
    :param how: how it is carried out.
    :param window: of the plan; records of other times are counted, and copied.
    :param forbidden_targets: topics that are being read and that ``topic_expr`` must not lead to.
    """

    job: ClassVar[str] = "batch"
    #: Whether it copies the batches of a stream, whose progress is that of all of them.
    is_of_stream: ClassVar[bool] = False

    instance: str
    submission: Submission
    history: History = field(default_factory=History)
    delivery: str = EXACTLY_ONCE
    delivery_parts: Mapping[str, str] = field(default_factory=dict)
    how: How = field(default_factory=How)
    window: TimeWindow | None = None
    forbidden_targets: tuple[str, ...] = ()

    @property
    def earlier(self) -> EarlierDelivery:
        """What was delivered before the task was cleared, with an empty key if nothing was."""
        return EarlierDelivery() if self.history.earlier is None else self.history.earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob(CopyJob):
    """Finish the batch whose ranges these are, if there is one, and copy what has arrived since, batch by batch."""

    job: ClassVar[str] = "available_now"
    is_of_stream: ClassVar[bool] = True

    stream: StreamRequest

    @property
    def planned_source(self) -> OffsetRanges:
        return self.stream.planned

    @property
    def planned_offsets(self) -> int:
        return self.stream.planned.total


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditJob(JobRequest):
    """Compare source and target of a past copy. Nothing is written.

    :param run_ids: of the past runs, as their provenance headers have them.
    :param target_ranges: what is read of the target.
    :param compares: compare fingerprints of the records, which nothing has changed.
    :param may_have_aged: source partitions, as ``topic:partition``, whose records may have aged out of the target:
        what is not there is unknown.
    :param segments: where the target has records that no header tells of.
    """

    job: ClassVar[str] = "audit"

    run_ids: tuple[str, ...]
    target_ranges: OffsetRanges
    compares: bool
    may_have_aged: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()

    @property
    def planned_offsets(self) -> int:
        return sum(span.size for span in (*self.spans, *self.target_ranges))
