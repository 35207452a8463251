"""Read the checkpoint of a stream, at a location that worker and driver both reach. Only the driver writes there."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from airflow.sdk import ObjectStoragePath

from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import (
    CheckpointError,
    CheckpointInUseError,
    CheckpointMissingError,
    KafkaSparkError,
    ProtocolError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.secrets import TAKE_OUT, secrets_in_url
from airflow_provider_kafka_spark.core.streams.batch_notes import NOTES_FOLDER, BatchNote
from airflow_provider_kafka_spark.core.streams.checkpoint import (
    GENERATION_PREFIX,
    LARGEST_FILE,
    LOCK_NAME,
    MANIFEST_NAME,
    STALE_SECONDS,
    SUBMISSION_NAME,
    Batch,
    Checkpoint,
    LatestSubmission,
    Lock,
    StreamManifest,
    batch_numbers,
    check_commit,
    check_metadata,
    parse_initial,
)
from airflow_provider_kafka_spark.submission.remote_path import (
    UnsuitableFileError,
    hadoop_uri,
    read_text,
    shared_path,
)

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
#: More than a root. With a scheme, a host is required too, since the worker has no default file system.
_LOCATION = re.compile(r"(/+|file:/(//)?|(?!file:)[a-z][a-z0-9+.-]*://)[^/].*", re.DOTALL)
_GENERATION = re.compile(rf"{GENERATION_PREFIX}(0|[1-9][0-9]{{0,8}})")
#: Spark's own files in a checkpoint's folder.
_SPARKS_OWN = frozenset({"metadata", "offsets", "commits", "sources"})
_FOLDERS = ("offsets", "commits", "sources", "sources/0")


def finished_offsets(location: str) -> Mapping[TopicPartition, int]:
    """The finished offsets of the stream with this checkpoint: one of this package, or any checkpoint of a Spark stream
    with one Kafka source.

    :raises CheckpointMissingError: if there is none.
    :raises CheckpointError: if it is damaged or out of reach.
    """
    return _existing(location).finished


def read_checkpoint(location: str) -> Position | KafkaSparkError:
    """Where a stream stands, or why that is unknown."""
    try:
        checkpoint = _existing(location)
    except KafkaSparkError as error:
        return error
    return Position(checkpoint.finished, {} if checkpoint.manifest is None else checkpoint.manifest.topic_ids)


def _existing(location: str) -> Checkpoint:
    checkpoint = CheckpointFolder(location).read()
    if checkpoint is None:
        raise CheckpointMissingError(
            f"There must be a checkpoint at {location!r}, with a folder '{GENERATION_PREFIX}0' or Spark's own "
            "'offsets'; there is none. Correct the location, or run the stream first. A sensor before the stream's "
            f"first run takes {{'checkpoint_location': {location!r}, 'if_missing': 'earliest'}}."
        )
    return checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """The folder that ``checkpoint_location`` names.

    It has a folder for each generation, ``generation-0`` and so on, with the manifest and Spark's own files; the number
    of the latest submission; and a lock while a run uses it.

    :param location: an absolute path, or a URI that Hadoop's file systems and Airflow's ``ObjectStoragePath`` both
        reach.
    :raises CheckpointError: if it is neither, or has a password.
    """

    location: str

    def __post_init__(self) -> None:
        location = self.location
        if not isinstance(location, str) or not _LOCATION.fullmatch(location.strip()):
            raise CheckpointError(
                "checkpoint_location must be an absolute path or a URI, such as '/data/checkpoints/orders' or "
                f"'s3a://bucket/checkpoints/orders'; got {location!r}."
            )
        if secrets_in_url(location):
            raise CheckpointError(f"checkpoint_location must have no password. {TAKE_OUT}")
        object.__setattr__(self, "location", location.strip().rstrip("/"))

    @property
    def is_local(self) -> bool:
        return isinstance(self._path, Path)

    @property
    def lock_uri(self) -> str:
        return f"{hadoop_uri(self.location)}/{LOCK_NAME}"

    @property
    def submission_uri(self) -> str:
        return f"{hadoop_uri(self.location)}/{SUBMISSION_NAME}"

    def generation_uri(self, number: int) -> str:
        return f"{hadoop_uri(self.location)}/{GENERATION_PREFIX}{number}"

    def check_writable(self) -> None:
        """Check on this machine's disk what would fail later on the driver.

        :raises CheckpointError: if the folder, or the one it would be made in, cannot be written.
        """
        path = self._path
        if not isinstance(path, Path):
            return
        with self._reached():
            existing = next(folder for folder in (path, *path.parents) if folder.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise CheckpointError(
                f"checkpoint_location {self.location!r} must be a folder that can be written; {str(existing)!r} "
                f"{'cannot be written by this user' if existing.is_dir() else 'is no folder'}. Correct its "
                "permissions, or name another."
            )

    def read(self) -> Checkpoint | None:
        """The newest generation, or a checkpoint of Spark alone; None if there is nothing.

        :raises CheckpointError: if a file is damaged or cannot be read.
        """
        with self._reached():
            names = _names(self._path)
            numbers = [int(found[1]) for found in map(_GENERATION.fullmatch, names) if found is not None]
            for number in sorted(numbers, reverse=True):
                folder = self._path / f"{GENERATION_PREFIX}{number}"
                _refuse_link(folder)
                text = _text(folder / MANIFEST_NAME)
                if text is not None:
                    return _read_generation(
                        folder,
                        number,
                        StreamManifest.from_json(text, f"{folder.name}/{MANIFEST_NAME} in {self.location}"),
                    )
                # The manifest is written first. If it is missing, the generation is empty or the manifest is lost; an
                # older generation would copy the same records again.
                if _names(folder) & _SPARKS_OWN:
                    raise CheckpointError(
                        f"The checkpoint {folder} must have the file {MANIFEST_NAME} beside Spark's own; it is "
                        "missing. Restore it from a backup, or name another checkpoint_location and give "
                        "starting_offsets."
                    )
            return _read_generation(self._path, 0, None) if {"offsets", "metadata"} & names else None

    def latest_submission(self) -> int:
        """Number of the latest submission whose driver used the checkpoint; 0 if that is not known.

        :raises CheckpointError: if the file is damaged or cannot be read.
        """
        with self._reached():
            text = _text(self._path / SUBMISSION_NAME)
        name = f"{SUBMISSION_NAME} in {self.location}"
        return 0 if text is None else LatestSubmission.from_json(text, name).number

    def notes(self, generation: int, numbers: range) -> dict[int, BatchNote]:
        """What stands beside these batches. A note that is damaged, or too large, counts as absent.

        :raises CheckpointError: if one cannot be read.
        """
        folder = self._path / f"{GENERATION_PREFIX}{generation}" / NOTES_FOLDER
        _refuse_link(folder)
        found = {}
        with self._reached():
            for number in sorted(n for n in _numbers(folder) if n in numbers):
                try:
                    found[number] = BatchNote.from_json(_text(folder / str(number)) or "")
                except (ProtocolError, UnsuitableFileError) as error:
                    log.warning("The note of batch %s tells nothing: %s", number, error)
        return found

    def stale_lock(self) -> str | None:
        """Check whether another run uses the checkpoint: an active run changes its lock every few seconds.

        :return: the text of a lock whose owner is gone, or None if there is none.
        :raises CheckpointInUseError: if its owner is active.
        """
        seen = self._lock_text()
        if seen is None:
            return None
        log.info(
            "The checkpoint has a lock of another run; watching for %.0f s whether its owner lives.", STALE_SECONDS
        )
        deadline = time.monotonic() + STALE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            text = self._lock_text()
            if text is None:
                return None
            if text != seen:
                owner = Lock.parse(text) or Lock.parse(seen)
                raise CheckpointInUseError(
                    f"Only one run may use a checkpoint at a time; {self.location!r} is in use by "
                    f"{owner or 'another run'}. Set max_active_runs=1 for the DAG (or max_active_tis_per_dag=1 for "
                    "the task), or give each task a checkpoint_location of its own."
                )
        log.warning("The run that locked the checkpoint is gone (%s); its lock is taken over.", Lock.parse(seen))
        return seen

    @property
    def _path(self) -> Path | ObjectStoragePath:
        return shared_path(self.location)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        # A storage whose provider is missing is an ImportError or a ValueError.
        except (OSError, ImportError, ValueError) as error:
            raise CheckpointError(
                f"The checkpoint at {self.location!r} must be readable by the worker, through Airflow's "
                f"ObjectStoragePath where it is a URI; got {error!r}. Correct its permissions, or install the "
                "provider of that storage."
            ) from error

    def _lock_text(self) -> str | None:
        with self._reached():
            try:
                return _text(self._path / LOCK_NAME)
            except UnsuitableFileError:
                raise
            except OSError:
                # Object stores may fail a read during a write.
                return ""


def _read_generation(folder: Path | ObjectStoragePath, number: int, manifest: StreamManifest | None) -> Checkpoint:
    where = f"of {folder}"
    for part in _FOLDERS:
        _refuse_link(folder / part)
    metadata = _text(folder / "metadata")
    if metadata is not None:
        check_metadata(metadata, f"metadata {where}")
    initial = _text(folder / "sources" / "0" / "0")
    # In this order: otherwise a running stream may commit one batch and start the next one between the two reads.
    offsets, commits = _numbers(folder / "offsets"), _numbers(folder / "commits")
    committed = uncommitted = None
    if commits:
        last = max(commits)
        check_commit(_text(folder / "commits" / str(last)) or "", f"commits/{last} {where}")
        committed = _whole(folder, _read_batch(folder, last), offsets & commits, manifest)
    if offsets and (not commits or max(offsets) > max(commits)):
        uncommitted = _read_batch(folder, max(offsets))
        if uncommitted.number != max(commits, default=-1) + 1:
            raise CheckpointError(
                f"The checkpoint {where} must have a commit for every batch but the last; batch {uncommitted.number} "
                f"follows {f'the committed batch {max(commits)}' if commits else 'no committed batch'}. Files are "
                "missing; restore them."
            )
    if offsets and max(offsets) > 0 and max(offsets) - 1 not in offsets:
        # Spark reads the last two when it resumes.
        raise CheckpointError(
            f"The checkpoint file offsets/{max(offsets) - 1} {where} is missing, and offsets/{max(offsets)} is there. "
            "Restore it from a backup."
        )
    return Checkpoint(
        number,
        manifest,
        committed,
        uncommitted,
        parse_initial(initial, f"sources/0/0 {where}") if initial is not None else None,
    )


def _whole(
    folder: Path | ObjectStoragePath, last: Batch, committed: Collection[int], manifest: StreamManifest | None
) -> Batch:
    """The last batch, with the ends that older ones have of partitions that it lacks. Spark's driver takes a partition
    for deleted that the broker which it asks does not know yet, and leaves it out: the stream stands there as before.

    :param committed: the batches whose files are there.
    """
    known = set[TopicPartition]() if manifest is None else {*manifest.starting, *manifest.reached.offsets}
    for number in sorted(set(committed) - {last.number}, reverse=True):
        if known <= last.ends.keys():
            break
        last = replace(last, ends={**_read_batch(folder, number).ends, **last.ends})
    return last


def _read_batch(folder: Path | ObjectStoragePath, number: int) -> Batch:
    text = _text(folder / "offsets" / str(number))
    if text is None:
        raise CheckpointError(
            f"The checkpoint file offsets/{number} of {folder} is missing, and commits/{number} is there. Restore it "
            "from a backup."
        )
    return Batch.parse(text, number, f"offsets/{number} of {folder}")


def _refuse_link(folder: Path | ObjectStoragePath) -> None:
    """Who can make one in a shared folder would decide in which folder of the driver's user Spark writes."""
    if isinstance(folder, Path) and folder.is_symlink():
        raise CheckpointError(
            f"The folders inside a checkpoint must be folders; {str(folder)!r} is a link. Move what it refers to here."
        )


def _names(folder: Path | ObjectStoragePath) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _numbers(folder: Path | ObjectStoragePath) -> set[int]:
    return batch_numbers(_names(folder))


def _text(path: Path | ObjectStoragePath) -> str | None:
    try:
        return read_text(path, LARGEST_FILE)
    except FileNotFoundError:
        return None
