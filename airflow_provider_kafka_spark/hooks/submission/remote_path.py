"""Files that worker and driver share, as the worker reaches them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from airflow.sdk import ObjectStoragePath


def shared_path(uri: str) -> Path | ObjectStoragePath:
    """A path or a URI as Hadoop spells it, for the worker: on its own disk, or through Airflow's object storage."""
    local = re.sub(r"^file:(//)?(?=/)", "", uri)
    if "://" not in local:
        return Path(local)
    # Hadoop calls it s3a, Airflow's object storage s3.
    return ObjectStoragePath(re.sub(r"^s3[an]:", "s3:", local))


class UnsuitableFileError(OSError):
    """What is at a path is no regular file, or is larger than what is expected there."""


def read_text(path: Path | ObjectStoragePath, largest: int) -> str:
    """The text of a file that others may write: never waits for a writer, and never reads more than it should.

    Bytes that are not UTF-8 become U+FFFD.

    :param largest: size in bytes.
    :raises FileNotFoundError: if there is none.
    :raises UnsuitableFileError: if it is a named pipe, a device or a folder, or larger.
    :raises OSError: if it cannot be read.
    """
    if isinstance(path, Path):
        # A named pipe without a writer would block a plain open().
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnsuitableFileError(f"{path} must be a regular file; it is a folder, a named pipe or a device")
        file: BinaryIO = os.fdopen(descriptor, "rb")
    else:
        file = path.open("rb")  # type: ignore[no-untyped-call]
    with file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise UnsuitableFileError(f"{path} must have at most {largest:,} bytes; it has more")
    return content.decode(errors="replace")


def hadoop_uri(path_or_uri: str) -> str:
    """The same place for Hadoop, to which a path without a scheme would be one on its default file system."""
    return path_or_uri if "://" in path_or_uri or path_or_uri.startswith("file:") else f"file://{path_or_uri}"
