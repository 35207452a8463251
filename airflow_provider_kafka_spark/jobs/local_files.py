"""Small files on the driver's own disks, in folders that other users may be able to write: no link is followed, no file
of another user is written, and what is written is readable by this user only.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_new(path: Path, text: str) -> None:
    """Write a new file with mode 0600, whatever the umask.

    :raises FileExistsError: if there is anything of that name, a link too.
    :raises OSError: if it cannot be written.
    """
    descriptor = os.open(path, _NEW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text.encode())


def write_whole(path: Path, text: str, *, replace: bool, makes_folder: bool = True) -> None:
    """Write a file whole or not at all. Nobody else knows its name before it is whole.

    :param replace: whether it takes the place of a file, or of a link, with that name.
    :param makes_folder: whether its folder is created if it does not exist.
    :raises FileExistsError: if there is one, and it is not to be replaced.
    :raises OSError: if it cannot be written.
    """
    if makes_folder:
        make_folder(path.parent)
    partial = path.with_name(partial_name(path.name))
    try:
        write_new(partial, text)
        if not replace and os.path.lexists(path):
            raise FileExistsError(f"{path} exists already")
        # It does not follow a link either.
        partial.rename(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def read(path: Path, largest: int) -> bytes | None:
    """The first bytes of a file, or None if there is none. It never waits for a writer.

    :param largest: how many bytes.
    :raises OSError: if it cannot be read, or is no regular file.
    """
    try:
        # Only what is there decides: a named pipe without a writer would block, and a link may lead anywhere.
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError("it must be a regular file; it is a link, a folder, a named pipe or a device")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it must be a regular file; it was replaced")
        return file.read(largest)


def make_folder(folder: Path) -> None:
    """Create a folder and the missing ones above it, which others cannot write, whatever the umask.

    :raises OSError: if it cannot be created.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o755)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is no folder") from None


def partial_name(name: str) -> str:
    """A name that nobody can guess, and that Spark does not take for one of its own files."""
    return f".{name}.{secrets.token_hex(8)}.partial"
