"""Folders and files from which code is loaded: other users must not be able to write or replace them."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from contextlib import suppress
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: As many as the system follows itself.
_MAX_LINKS = 40
_UMASK = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)
#: For processes whose files are nobody else's, whatever the umask of this one.
PRIVATE_UMASK = 0o077


def strict_umask() -> int:
    """The umask of this process, with the right to write taken from all others."""
    found = _UMASK.search(Path("/proc/self/status").read_text(errors="replace"))
    return (int(found[1], 8) if found else 0) | _WRITABLE_BY_OTHERS


def make_private(folder: Path) -> None:
    """Create a folder that only this user can read, whatever the umask, if it does not exist; missing parents too.

    :raises PermissionError: as :func:`check_private`.
    :raises OSError: if it cannot be created.
    """
    if not folder.parent.exists():
        make_private(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    check_private(folder)


def check_private(*folders: Path) -> None:
    """Check that folders belong to this user or root, that others cannot write them, and that others cannot replace
    them: :func:`check_trusted` holds. A missing folder passes.

    :raises PermissionError: saying what to do.
    """
    checked = set[Path]()
    for folder in folders:
        check_trusted(folder, checked)
        try:
            status = folder.stat()
        except FileNotFoundError:
            continue
        if status.st_mode & _WRITABLE_BY_OTHERS:
            raise _refusal(folder, status)


def check_trusted(path: Path, checked: set[Path] | None = None) -> None:
    """Check that no other user can put another file or folder in the place of this one: it, every folder above it and
    every link on the way belong to this user or root, and only they can write the folders.

    Of folders with the sticky bit, such as ``/tmp``, everybody may write, but only replace what is theirs. The group of
    root, and a group of this user alone, may write. A missing path passes.

    :param checked: paths that have passed, which are not looked at again.
    :raises PermissionError: saying what to do.
    """
    checked = set() if checked is None else checked
    left = list(reversed(path.absolute().parts))
    here, links = Path(left.pop()), 0
    _check(here, checked, is_last=not left)
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            continue
        here = here / name
        try:
            _check(here, checked, is_last=not left)
            target = here.readlink() if here.is_symlink() else None
        except FileNotFoundError:
            return
        if target is not None:
            links += 1
            if links > _MAX_LINKS:
                raise PermissionError(f"{path} must lead to a folder; it leads through more than {_MAX_LINKS} links")
            here = Path(target.anchor) if target.is_absolute() else here.parent
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _check(path: Path, checked: set[Path], *, is_last: bool) -> None:
    if path in checked:
        return
    status = path.lstat()
    if status.st_uid not in (os.geteuid(), 0):
        raise _refusal(path, status)
    # The mode of a link says nothing.
    if stat.S_ISLNK(status.st_mode) or not _is_open(status):
        checked.add(path)
    elif is_last or not status.st_mode & stat.S_ISVTX:
        raise _refusal(path, status)


def _is_open(status: os.stat_result) -> bool:
    mode = status.st_mode
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(status.st_gid)))


def _is_own_group(group: int) -> bool:
    """Whether nobody but this user and root gains from what the group may write."""
    if group == 0:
        return True
    try:
        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and user.pw_name == entry.gr_name and set(entry.gr_mem) <= {user.pw_name}


def _refusal(path: Path, status: os.stat_result) -> PermissionError:
    own = status.st_uid in (os.geteuid(), 0)
    command = f"chmod go-w {path}" if own else f"chown -h {os.geteuid()} {path}"
    return PermissionError(
        f"{path} must belong to this user or root and be writable by no other user, since code is loaded from there; "
        f"it belongs to user {status.st_uid} and has mode {stat.S_IMODE(status.st_mode):04o}. If you trust what is "
        f"there, run: {command}"
    )
