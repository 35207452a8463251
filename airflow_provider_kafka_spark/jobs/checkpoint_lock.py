"""One run at a time on a checkpoint: a file that is there, and changes, as long as its owner lives."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import CheckpointError, CheckpointInUseError
from airflow_provider_kafka_spark.core.streams.checkpoint import BEAT_SECONDS, LEASE_SECONDS, Lock
from airflow_provider_kafka_spark.jobs import hadoop_files

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext

_EXIT_CODE_LOST_LOCK = 75
_SETTLE_SECONDS = 1.0
LEASE_CHECK_SECONDS = 1.0


@dataclass(slots=True)
class _Lease:
    """Until when the lock is ours.

    :param renewed: when the last renewal that succeeded was begun, by the monotonic clock.
    """

    renewed: float


@contextmanager
def checkpoint_lock(spark: HasContext, uri: str, owner: str, stale: str | None) -> Iterator[None]:
    """Hold the lock.

    A driver that was suspended so long that another run took its lock ends itself at once when it wakes: nothing it
    still wrote would be accounted for. So does one that cannot renew its lock, before another run may take it.

    :param stale: text of a lock that may be taken over, because it was seen not to change.
    :raises CheckpointInUseError: if another run holds it.
    :raises CheckpointError: if it cannot be written.
    """
    lock = Lock(owner, spark.sparkContext.applicationId, 0)
    lease = _Lease(time.monotonic())
    try:
        if stale is not None and hadoop_files.read(spark, uri) == stale:
            hadoop_files.delete(spark, uri)
        taken = hadoop_files.create(spark, uri, lock.format())
        if taken and stale is not None:
            # Two that take the same lock over at once may each delete it once: whose file is left is seen after a
            # moment.
            time.sleep(_SETTLE_SECONDS)
            taken = _is_same(Lock.parse(hadoop_files.read(spark, uri) or ""), lock)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint_location must be a folder that the Spark driver can write; it cannot: {error}. Correct its "
            "permissions, or name another."
        ) from error
    if not taken:
        other = Lock.parse(hadoop_files.read(spark, uri) or "")
        raise CheckpointInUseError(
            f"Only one run may use a checkpoint at a time; {uri} is held by {other or 'another run'}. Set "
            "max_active_runs=1 for the DAG, or give each task a checkpoint_location of its own."
        )
    stop = threading.Event()
    beats = threading.Thread(target=_beat, args=(spark, uri, lock, lease, stop), name="checkpoint-lock", daemon=True)
    beats.start()
    # A thread of its own: a store that is away may hold a beat for minutes.
    threading.Thread(target=_end_with_lease, args=(uri, lease, stop), name="checkpoint-lease", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        beats.join(timeout=30)
        _release(spark, uri, lock)


def _beat(spark: HasContext, uri: str, lock: Lock, lease: _Lease, stop: threading.Event) -> None:
    beat = 0
    while not stop.wait(BEAT_SECONDS):
        beat += 1
        began = time.monotonic()
        try:
            seen = Lock.parse(hadoop_files.read(spark, uri) or "")
            if not _is_same(seen, lock):
                sys.stderr.write(f"The lock {uri} is now held by {seen}, so this job ends.\n")
                # Not sys.exit: only the whole process takes the JVM, and its tasks, with it.
                os._exit(_EXIT_CODE_LOST_LOCK)
            hadoop_files.overwrite(spark, uri, Lock(lock.owner, lock.application_id, beat).format())
            lease.renewed = began
        except Exception as error:  # noqa: BLE001 - PySpark has names of its own for failures of the JVM, and a lock that is not renewed is taken over
            # The store may be away for a moment.
            sys.stderr.write(f"The lock {uri} cannot be renewed: {error}\n")


def _end_with_lease(uri: str, lease: _Lease, stop: threading.Event) -> None:
    while not stop.wait(LEASE_CHECK_SECONDS):
        if time.monotonic() - lease.renewed > LEASE_SECONDS:
            sys.stderr.write(
                f"The lock {uri} could not be renewed for {LEASE_SECONDS:.0f} s, and another run may take it over "
                "soon, so this job ends.\n"
            )
            os._exit(_EXIT_CODE_LOST_LOCK)


def _release(spark: HasContext, uri: str, lock: Lock) -> None:
    """Delete the lock, unless another run has taken it over by now."""
    try:
        if _is_same(Lock.parse(hadoop_files.read(spark, uri) or ""), lock):
            hadoop_files.delete(spark, uri)
    except Exception as error:  # noqa: BLE001 - py4j has names of its own for a JVM that is gone
        # It must not hide how the run ended. Nobody renews the lock any more, so the next run takes it over.
        sys.stderr.write(f"The lock {uri} cannot be deleted: {error}\n")


def _is_same(seen: Lock | None, lock: Lock) -> bool:
    return seen is not None and (seen.owner, seen.application_id) == (lock.owner, lock.application_id)
