"""The contents of a stream's checkpoint: its job, its progress, its uncommitted batch and its lock. No I/O.

Spark keeps a numbered file per micro-batch in ``offsets`` (written before the batch; exclusive ends) and in ``commits``
(written after it), and where it began in ``sources/0/0`` (``OffsetSeqLog``, ``CommitLog``,
``KafkaSourceInitialOffsetWriter``). So the offsets of the last *commit* are finished, and those of earlier ones in
partitions that it lacks; a batch in ``offsets`` without a commit may have written some of its records, or all, or none.

This package adds a manifest, ``stream.json``, with the job that the checkpoint belongs to. A reset starts a new
generation in another folder; the old folder stays. Beside the generations is the number of the latest submission.

The parameters of a stream are of three kinds:

- those of :class:`Binding` never change within a generation: they decide which records are copied, and to where;
- those of :class:`BatchForm` may change from run to run, and not within a batch: they decide how a record is written,
  or whether the progress of an uncommitted batch counts. The manifest has the form of all batches since the driver
  last wrote it, and where the targets ended before. It writes it after it has finished the uncommitted batch, and
  before Spark begins another one. So an uncommitted batch has the form of its manifest;
- all others may change at any time. Progress counts whatever they are, since the ``run_id`` stands for the binding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import CheckpointError, ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode

GENERATION_PREFIX = "generation-"
#: The manifest, in the folder of each generation.
MANIFEST_NAME = "stream.json"
LOCK_NAME = "lock.json"
#: Beside the generations: the number of the latest submission, see ``core.runs.run_protocol.next_number``.
SUBMISSION_NAME = "submission.json"
#: Maximum size of a file in bytes. Others may write to the folder, so larger files are not read.
LARGEST_FILE = 16 * 1024 * 1024
#: Seconds between two renewals of a lock.
BEAT_SECONDS = 2.0
#: A driver that cannot renew its lock for this many seconds ends itself. A JVM needs some seconds to end, before others
#: take the lock over.
LEASE_SECONDS = 20.0
#: A lock that did not change for this many seconds has no living owner.
STALE_SECONDS = 30.0
_LARGEST_BATCH = 2**63 - 1
_LONGEST_TEXT = 500
MANIFEST_VERSION = 3
_SUBMISSION_VERSION = 1
#: The supported version of Spark's log files (Spark 4.0 writes it).
_LOG_VERSION = "v1"
#: Others may write the file, so its contents in a message are limited to this many characters.
_LONGEST_REASON = 300
_STREAM_ID = re.compile(r"[0-9a-f]{16}")

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class LatestSubmission:
    """The file ``submission.json``: the number of the latest submission whose driver used the checkpoint."""

    number: int

    def to_json(self) -> str:
        """:meth:`from_json` reads it back."""
        return json.dumps(encode(self, _SUBMISSION_VERSION), sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> LatestSubmission:
        """:param name: of the file, for the message.
        :raises CheckpointError: if it is not whole, or of another version.
        """
        with _reading(name, text):
            return decode_text(cls, text, version=_SUBMISSION_VERSION)


@dataclass(frozen=True, slots=True)
class StreamManifest:
    """The manifest of one generation of a checkpoint: the file ``stream.json``.

    :param form: of an uncommitted batch, and of the batches that were begun last.
    :param stream_id: goes into the provenance header of every record; 16 hexadecimal digits.
    :param starting: where it began, for every partition there was.
    :param topic_ids: id of each source topic (KIP-516), if the broker returns it.
    :param reached: how far the source's logs reached when the manifest was last written. The stream may have read
        further since.
    :param reset_to: what ``reset_checkpoint_to`` said, or None for the first generation.
    :param reset_by: the DAG run that said it.
    :param target_ends: the end of each target partition, as far as known, before the run that last wrote the manifest:
        an uncommitted batch has written after it.
    :param target_ids: id of each target topic then, if the broker returns it.
    """

    binding: Binding
    form: BatchForm
    stream_id: str
    starting: Offsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    reached: LogEnds = field(default_factory=LogEnds)
    reset_to: str | None = None
    reset_by: str | None = None
    target_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _STREAM_ID.fullmatch(self.stream_id):
            raise CheckpointError(f"stream_id must be 16 hexadecimal digits; got {self.stream_id[:32]!r}.")

    def to_json(self) -> str:
        """:meth:`from_json` reads it back."""
        return json.dumps(encode(self, MANIFEST_VERSION), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> StreamManifest:
        """:param name: of the file, for the message.
        :raises CheckpointError: if it is not a complete manifest of this version.
        """
        with _reading(name, text):
            return decode_text(cls, text, version=MANIFEST_VERSION)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch, as ``offsets/N`` has it.

    :param ends: exclusive end of each partition.
    """

    number: int
    ends: Offsets

    @classmethod
    def parse(cls, text: str, number: int, name: str) -> Batch:
        """Read ``offsets/N``: a version, a line of metadata, a line of offsets for the one source.

        :raises CheckpointError: if it is cut off, of another version, or of a stream of several sources.
        """
        with _reading(name, text):
            version, *lines = text.rstrip("\n").split("\n")
            _check_log_version(version)
            if len(lines) != 2:
                raise ProtocolError(f"metadata and the offsets of one source are two lines; got {len(lines)}")
            decode_text(dict[str, Any], lines[0], name="metadata")
            return cls(number, _offsets(lines[1]))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One generation, as it was read.

    :param number: of the generation, from 0.
    :param manifest: None if the checkpoint is Spark's own, not written by this package.
    :param committed: the last batch that has a commit.
    :param uncommitted: the batch after it, without a commit.
    :param initial: where Spark began; None until its first start.
    """

    number: int
    manifest: StreamManifest | None
    committed: Batch | None = None
    uncommitted: Batch | None = None
    initial: Offsets | None = None

    @property
    def finished(self) -> Offsets:
        """End of the finished records of every partition; a partition that is not named is new."""
        starting: Offsets = self.initial or (self.manifest.starting if self.manifest is not None else {})
        return {**starting, **(self.committed.ends if self.committed is not None else {})}

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All that were read, or that the uncommitted batch is to read."""
        return frozenset(self.finished) | frozenset(() if self.uncommitted is None else self.uncommitted.ends)

    @property
    def uncommitted_ranges(self) -> OffsetRanges:
        """What the uncommitted batch reads; a partition that was new to it begins at 0."""
        if self.uncommitted is None:
            return OffsetRanges()
        return batch_ranges(self.finished, self.uncommitted.ends)


@dataclass(frozen=True, slots=True)
class Lock:
    """The run that uses a checkpoint.

    :param owner: the task's run, in words.
    :param application_id: of the Spark application that holds it.
    :param beat: counts up while the owner lives.
    """

    owner: str
    application_id: str
    beat: int

    def format(self) -> str:
        """One line of JSON; :meth:`parse` reads it back."""
        return json.dumps(encode(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Lock | None:
        """The lock, or None if the text is not a complete lock: it may be read while it is written."""
        try:
            return decode_text(cls, text)
        except ProtocolError:
            return None

    def __str__(self) -> str:
        # Others may write the file, and this goes into logs.
        text = f"{self.owner} (application {self.application_id})"
        return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST_TEXT])


def batch_numbers(names: Iterable[str]) -> set[int]:
    """The batches whose files have these names; other names, which Spark ignores too, are left out.

    >>> sorted(batch_numbers(["0", "10", ".0.crc", "9" * 20]))
    [0, 10]
    """
    return {int(name) for name in names if name.isascii() and name.isdigit() and int(name) <= _LARGEST_BATCH}


def batch_ranges(finished: Offsets, ends: Offsets) -> OffsetRanges:
    """What a batch reads that begins where others finished; empty ranges are left out."""
    return OffsetRanges(
        OffsetRange(p.topic, p.partition, finished.get(p, 0), end)
        for p, end in ends.items()
        if finished.get(p, 0) < end
    )


def parse_initial(text: str, name: str) -> Offsets:
    """Read ``sources/0/0``: a NUL byte (Spark 2.1 needs it, SPARK-19517), a version and the offsets.

    :raises CheckpointError: if it is cut off or of another version.
    """
    version, _, offsets = text.lstrip("\0").partition("\n")
    with _reading(name, text):
        _check_log_version(version)
        return _offsets(offsets)


def check_commit(text: str, name: str) -> None:
    """Spark reads ``commits/N`` when it goes on, and so would fail after it was started.

    :raises CheckpointError: if it is cut off.
    """
    version, _, metadata = text.partition("\n")
    with _reading(name, text):
        # With state it is of another version than the offsets are.
        if not re.fullmatch(r"v[0-9]+", version):
            raise ProtocolError(f"it must begin with a version such as {_LOG_VERSION!r}")
        decode_text(dict[str, Any], metadata, name="the metadata")


def check_metadata(text: str, name: str) -> None:
    """As :func:`check_commit`, of the file ``metadata``, which holds the id of Spark's query.

    :raises CheckpointError: if it is cut off.
    """
    with _reading(name, text):
        decode_text(dict[str, Any], text, name="it")


def commit_text() -> str:
    """What Spark writes into ``commits/N`` of a query that keeps no state (``CommitMetadata``)."""
    return f'{_LOG_VERSION}\n{{"nextBatchWatermarkMs":0}}'


def _offsets(text: str) -> Offsets:
    return decode_text(dict[TopicPartition, int], text, name="offsets")


def _check_log_version(version: str) -> None:
    if version.strip() != _LOG_VERSION:
        raise ProtocolError(f"it must begin with {_LOG_VERSION!r}; got {version[:20]!r}")


@contextmanager
def _reading(name: str, text: str) -> Iterator[None]:
    """Name the file in what is wrong with its text."""
    try:
        yield
    except ProtocolError as error:
        raise CheckpointError(
            f"The checkpoint file {name} must be whole; its {len(text):,} characters do not make sense: "
            f"{str(error)[:_LONGEST_REASON].rstrip('.')}. It is cut off, damaged, or written by a version of Spark or "
            "of airflow-provider-kafka-spark that is not known here. Restore it from a backup, or pass another "
            "checkpoint_location with starting_offsets (the results of former runs name them)."
        ) from error
