"""Files that worker and driver share, as the worker accesses them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from airflow.sdk import ObjectStoragePath


def shared_path(uri: str) -> Path | ObjectStoragePath:
    """The worker's path for a path or a Hadoop URI: on its own disk, or through Airflow's object storage."""
    local = re.sub(r"^file:(//)?(?=/)", "", uri)
    if "://" not in local:
        return Path(local)
    # Hadoop calls it s3a, Airflow's object storage s3.
    return ObjectStoragePath(re.sub(r"^s3[an]:", "s3:", local))


class UnsuitableFileError(OSError):
    """The file is not a regular file, or is larger than expected."""


def read_text(path: Path | ObjectStoragePath, largest: int, *, follow_link: bool = False) -> str:
    """The text of a file that others may write. It never waits for a writer, and never reads more than ``largest``.

    Bytes that are not UTF-8 become U+FFFD.

    :param largest: size in bytes.
    :param follow_link: whether the file may be a link on the worker's disk, for a path that the worker's own
        configuration names.
    :raises FileNotFoundError: if there is none.
    :raises UnsuitableFileError: if it is a link, a named pipe, a device or a folder, or larger.
    :raises OSError: if it cannot be read.
    """
    if isinstance(path, Path):
        if not follow_link and path.is_symlink():
            raise UnsuitableFileError(f"{path} must be a regular file; it is a link")
        # A named pipe without a writer would block a plain open().
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
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
    """The same place for Hadoop, which reads a path without a scheme on its default file system."""
    return path_or_uri if "://" in path_or_uri or path_or_uri.startswith("file:") else f"file://{path_or_uri}"
