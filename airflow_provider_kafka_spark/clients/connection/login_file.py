"""Read files that a connection names, within bounds: who edits a connection may name any path of the worker."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: Bytes of a file.
_MAX_BYTES = 1 << 20
#: Entries of a folder of certificates, and bytes of all its files.
_MAX_ENTRIES, _MAX_BYTES_IN_ALL = 1_000, 8 << 20


def read_login_file(path: str | Path) -> bytes:
    """The content of a file of at most 1 MiB.

    :raises OSError: if it cannot be read, is larger, or is not a regular file.
    """
    # A named pipe would block, also one that has just replaced a file: so it is opened first, and then looked at.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > _MAX_BYTES:
        raise OSError(0, "is larger than 1 MiB")
    return content


def read_login_folder(folder: str) -> list[bytes]:
    """The contents of the regular files of a folder, in the order of their names.

    :raises OSError: without a file's name, if one cannot be read, or there are more than 1,000 files or 8 MiB.
    """
    paths = []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries, 1):
            if number > _MAX_ENTRIES:
                raise OSError(0, f"has more than {_MAX_ENTRIES:,} files")
            if entry.is_file():
                paths.append(entry.path)
    contents, left = [], _MAX_BYTES_IN_ALL
    for path in sorted(paths):
        try:
            content = read_login_file(path)
        except OSError as error:
            raise OSError(0, f"has a file that cannot be used: {error.strerror}") from None
        left -= len(content)
        if left < 0:
            raise OSError(0, "has more than 8 MiB")
        contents.append(content)
    return contents
