"""Run one command, and end it with all its processes as soon as the owner process is gone.

Run as a file by :class:`~airflow_provider_kafka_spark.testing.owned_process.OwnedProcess`, in a bare interpreter: it
imports the standard library only. Nothing else survives a SIGKILL of the owner to clean up after it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

_POLL_SECONDS = 0.1
_PR_SET_CHILD_SUBREAPER = 36


def main(argv: Sequence[str]) -> int:
    """Run ``argv``: the owner's process id, seconds of grace, a folder to remove if the owner dies or "", the command.

    Returns the command's exit code, or 128 plus the signal that ended it.
    """
    owner, grace, folder, command = int(argv[0]), float(argv[1]), argv[2], argv[3:]
    stop_requested = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop_requested
        stop_requested = True

    def kill(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop_requested, grace
        stop_requested, grace = True, 0.0

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGUSR1, kill)

    _adopt_orphans()
    # A separate session, so that the whole group can be ended without ending this process.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    # The parent's id, not a pipe: every process that the owner forks keeps a pipe's end open.
    while child.poll() is None and not stop_requested and os.getppid() == owner:
        time.sleep(_POLL_SECONDS)
    _end(child, grace)
    if folder and os.getppid() != owner:
        shutil.rmtree(folder, ignore_errors=True)
    code = child.returncode
    return 128 - code if code < 0 else code


def _adopt_orphans() -> None:
    """Become the parent of the command's orphans, if the system supports it (Linux).

    A process group is not enough: YARN, for example, starts each container in its own session.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    """Ask the child's process group to end. After ``grace`` seconds, kill what is left of it and of its descendants."""
    if grace and child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()
    # Each process that ends may leave further orphans.
    while orphans := _children():
        for orphan in orphans:
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(orphan, 0)


def _signal_group(group: int, number: signal.Signals) -> None:
    # The group is empty; macOS answers "not permitted" while the last process is a zombie.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _children() -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name stands in parentheses and may contain anything; state and parent follow the last one.
            parent = status.read_text(errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.append(int(status.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
