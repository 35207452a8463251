"""End all processes of a group."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psutil

#: Airflow kills a task 5 s after it has asked it to end (``WatchedSubprocess.kill``), and nobody would be left then to
#: end a driver that does not listen.
_GRACE_SECONDS = 3.0


def end_group(group: int) -> None:
    """Ask every process of a group to end, and kill the remaining ones after 3 s.

    :param group: id of the group, which is that of the process that leads it.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _is_alive(group) or not _signal(group, number):
            return
        deadline = time.monotonic() + _GRACE_SECONDS
        while _is_alive(group) and time.monotonic() < deadline:
            time.sleep(0.05)


def _signal(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # Gone, or the id now belongs to another user's process.
        return False
    return True


def _is_alive(group: int) -> bool:
    """Whether the group has a member that is not a zombie: spark-submit's shell leaves one, which may not be reaped in
    a container.
    """
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False
