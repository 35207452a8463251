"""Folders from which code is loaded, which other users must not be able to write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Create a folder that only this user can read, whatever the umask, if it does not exist.

    :raises PermissionError: as :func:`check_private`.
    :raises OSError: if it cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        check_private(folder)


def check_private(folder: Path) -> None:
    """Check that a folder belongs to this user or root, and that others cannot write it. A missing folder passes.

    :raises PermissionError: saying what to do.
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), 0) or mode & _WRITABLE_BY_OTHERS:
        raise PermissionError(
            f"{folder} must belong to this user and be writable by no other user, since code is loaded from it; it "
            f"belongs to user {status.st_uid} and has mode {mode:04o}. If you trust what is in it, run: chmod go-w "
            f"{folder}"
        )
