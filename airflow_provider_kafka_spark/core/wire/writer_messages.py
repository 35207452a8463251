"""What the driver and the writer say to each other, as versioned JSON. No I/O.

The Java classes ``Settings``, ``Piece``, ``TaskReport`` and ``WriteFailure`` in ``jobs/writer`` are the other side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_kafka_spark.core.offsets.pieces import Piece
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.records.dead_letters import REASON_HEADER
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode
from airflow_provider_kafka_spark.core.wire.protocol import Transform

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """The mark that a run has while this job may write for it.

    :param group: whose committed offset has the mark as its metadata.
    :param topic: for whose first partition that is committed.
    :param number: of the submission.
    :param token: of the driver.
    """

    group: str
    topic: str
    number: int
    token: str


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the progress of one piece is committed: any offset is taken for a partition that exists.

    The offset is the end of what is done in the source. The metadata is the piece's name, a line break, and where the
    piece wrote.
    """

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SharedPace:
    """The pace of a job, which its Spark tasks share in equal parts.

    :param group: whose committed offset is the number of tasks that run.
    :param records_per_second: of all tasks; None for no limit.
    :param bytes_per_second: of all tasks; None for no limit.
    :param tasks: how many run, until the group says it.
    """

    group: str
    records_per_second: int | None
    bytes_per_second: int | None
    tasks: int


@dataclass(frozen=True, slots=True)
class Batches:
    """How record batches are read.

    :param consumer: settings of the consumer, without the prefix ``kafka.``; secrets are references.
    :param passes_on: whether batches are passed on as they are; otherwise all records are rewritten as bytes.
    :param max_bytes: the largest batch that every target takes.
    :param wait_ms: how long one wait for the source is at most.
    :param least_bytes: the records of a smaller batch are put together with others.
    :param max_record_bytes: a larger record is an error, whatever would become of it.
    """

    consumer: Mapping[str, str] = field(repr=False)
    passes_on: bool
    max_bytes: int
    wait_ms: int
    least_bytes: int
    max_record_bytes: int


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """What all Spark tasks of a job are to do.

    :param run_id: value of the provenance header, with the source record.
    :param provenance_header: its name; None for no header.
    :param transform: how each record is changed. What needs SQL is done by then: rows say whether they are selected,
        and have the columns ``target_topic`` with a topic expression, and ``_rejected`` where records are rejected.
    :param target_ids: id of each target topic, as far as it is known; compared before each commit.
    :param columns: names of the rows' columns; None if the input is Kafka's own records.
    :param counted_from_ms: older records are counted, and copied.
    :param counted_until_ms: records of this time or later are counted, and copied.
    :param delivery_timeout_ms: how long to wait for acknowledgements after a flush.
    :param stall_timeout_ms: how long the source may give nothing.
    :param commit_records: records of one transaction at most.
    :param commit_ms: how long a transaction is open at most, while records arrive.
    :param owner: None if no mark could be written.
    :param id_prefix: transactional ids are this and the name of a task's first piece; None for at least once.
    :param delivered: an earlier try delivered everything: records are only read and counted.
    :param pace: None for no limit.
    :param producer: settings of the producer, without the prefix ``kafka.``; secrets are references.
    :param dead_letter_source_header: name of the header of a rejected record with run and source record.
    :param dead_letter_reason_header: name of its header with the reason.
    :param segments: whether offsets of the source are mapped to those of the target.
    :param batches: None if Spark's source reads the records.
    """

    run_id: str
    provenance_header: str | None
    transform: Transform
    target_ids: Mapping[str, str]
    columns: tuple[str, ...] | None
    delivery_timeout_ms: int
    stall_timeout_ms: int
    commit_records: int
    commit_ms: int
    owner: Owner | None
    id_prefix: str | None
    delivered: bool
    pace: SharedPace | None
    producer: Mapping[str, str] = field(repr=False)
    dead_letter_source_header: str = PROVENANCE_HEADER
    dead_letter_reason_header: str = REASON_HEADER
    segments: bool = False
    batches: Batches | None = None
    counted_from_ms: int | None = None
    counted_until_ms: int | None = None

    def to_json(self) -> str:
        return json.dumps(encode(self, _VERSION))


@dataclass(frozen=True, slots=True)
class TargetSpan:
    """The first and the last offset of what one Spark task wrote to a partition."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of one piece.

    :param piece: its name.
    :param ranges: for each planned range: its index, and how many records were read, written, filtered, already
        committed and rejected. Those that were already committed count as written or rejected.
    :param targets: where the records are, those of earlier attempts included.
    :param targets_unknown: whether it is unknown where earlier attempts wrote.
    :param resumed_at: source offset at which this attempt went on; None if it began at the first one.
    :param changed: how many records this attempt sent that no Kafka client can write as they were.
    :param first_changed: the first of these, such as ``orders[0]@123``.
    :param outside: how many records this attempt read whose time is outside of the window; a batch has its largest one.
    :param batches_passed: how many batches this attempt passed on as they were.
    :param bytes_written: of keys and values that this attempt wrote, or of batches that it passed on; without rejected
        records.
    :param segments: for each run of consecutive offsets its first and its end in the source, and its first in the
        target's partition of the same number; those of earlier attempts included. Empty if they were not asked for.
    :param segments_unknown: whether those of earlier attempts are not known.
    :param records_as_bytes: how many records of other batches this attempt rewrote as bytes.
    """

    piece: str
    ranges: tuple[tuple[int, ...], ...]
    targets: tuple[TargetSpan, ...]
    targets_unknown: bool
    resumed_at: int | None
    changed: int = 0
    first_changed: str | None = None
    batches_passed: int = 0
    bytes_written: int = 0
    records_as_bytes: int = 0
    segments: tuple[tuple[int, ...], ...] = ()
    segments_unknown: bool = False
    outside: int = 0

    @classmethod
    def from_json(cls, text: str) -> TaskReport:
        """:raises ProtocolError: if it is no report of this version."""
        return decode_text(cls, text, version=_VERSION, name="The report of a Spark task")


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """How one Spark task failed.

    :param code: of the error, one of those in ``WriteFailure.java``; None if ``reason`` says which it is.
    :param message: what happened, and with a code what to do.
    :param record: the source record, such as ``orders[0]@123``; None if the failure is of no single record.
    :param record_bytes: of its key and value.
    :param target: the topic it was to go to.
    :param reason: the client's error with its causes; empty if there is none.
    :param permanent: whether every attempt would fail so.
    """

    code: str | None
    message: str
    record: str | None
    record_bytes: int
    target: str | None
    reason: str
    permanent: bool

    @classmethod
    def from_json(cls, text: str) -> TaskFailure:
        """:raises ProtocolError: if it is no failure of this version."""
        return decode_text(cls, text, version=_VERSION, name="The failure of a Spark task")


def task_text(pieces: Sequence[Piece], slots: Mapping[str, Slot]) -> str:
    """The pieces that a Spark task copies one after the other, a line for each.

    :param slots: by the name of the piece, as far as there are any.
    """
    return "\n".join(piece_text(piece, slots.get(piece.name)) for piece in pieces)


def piece_text(piece: Piece, slot: Slot | None) -> str:
    """A piece of the plan for the Spark task that copies it.

    :param slot: where its progress is committed; None for at least once, and where nothing is written.
    """
    return json.dumps(
        {
            "version": _VERSION,
            "name": piece.name,
            "topic": piece.topic,
            "partition": piece.partition,
            "ranges": [[part.from_offset, part.until_offset, part.index] for part in piece.parts],
            "until": piece.until_offset,
            "slot": None if slot is None else encode(slot),
        }
    )
