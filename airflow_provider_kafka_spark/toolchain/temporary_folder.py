"""Folders for the files of a job or a JVM: only this user can read them, and they are removed with their process."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JobFolderError

_PREFIX = "airflow-kafka-spark-"
_OWNED = re.compile(rf"{_PREFIX}(?P<pid>[0-9]{{1,9}})-(?P<started>[0-9]+)-.*", re.DOTALL)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that only this user can read, which is always removed afterwards.

    The folder of a killed worker is removed by the next one.

    :raises JobFolderError: if it cannot be created.
    """
    remove_stale_folders()
    # The name has the owner, so that it is never without one.
    with named_if_unwritable():
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{_started(os.getpid())}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def named_if_unwritable() -> Iterator[None]:
    """:raises JobFolderError: for what the system says of a file that cannot be written."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise JobFolderError(
            f"The worker's temporary folder must take the files of a job, some MB in mode 0600; got {error}. Nothing "
            "was written to Kafka. Free space there, or set TMPDIR to another folder, such as '/var/tmp'; a retry "
            "submits the job."
        ) from error


def remove_stale_folders() -> list[Path]:
    """Remove the folders of this user's processes that have ended. What other users put beside them has no effect.

    :return: the removed folders.
    """
    try:
        found = list(Path(tempfile.gettempdir()).iterdir())
    except OSError:
        return []
    removed = []
    for folder in found:
        owner = _OWNED.fullmatch(folder.name)
        if owner is None:
            continue
        try:
            status = folder.lstat()
            # The owner comes first: others choose their names.
            if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
                continue
            if _started(int(owner["pid"])) != owner["started"]:
                shutil.rmtree(folder)
                removed.append(folder)
        except OSError:
            # Another process removes it at the same time, or /proc does not show the process.
            continue
    return removed


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot, since process ids are reused; empty if there is none.

    :raises OSError: if the system does not show the process.
    """
    try:
        # The second field, the command, is in brackets and may contain any byte.
        state, *more = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode("ascii", "replace").split()
        # A dead process may stay a zombie for a long time.
        return "" if state in "ZX" else more[18]
    except (FileNotFoundError, ProcessLookupError):
        return ""
