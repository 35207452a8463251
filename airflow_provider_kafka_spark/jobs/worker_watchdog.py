"""What a driver knows of the worker that submitted it: whether it is ready, and whether it is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JobFailedError

_CHECK_SECONDS = 1.0
_PROCEED_CHECK_SECONDS = 0.01
#: Longer than Airflow tries to reach its API server.
_MAX_WAIT_SECONDS = 600.0
#: How long a JVM may take to end by itself.
_JVM_SECONDS = 10.0
#: What spark-submit sets for the Python that it starts.
_STARTED_BY_JVM = "PYSPARK_GATEWAY_PORT"
#: What `timeout` and shells report for a process that was ended by SIGTERM.
_EXIT_CODE_ORPHANED = 143


def end_with_owner(pid: int, *, proc: Path = Path("/proc")) -> None:
    """End this driver when the process that submitted it has died, so that the task's retry does not write beside it.

    Its JVM ends first: without Python it would write on for seconds.

    :param pid: of a process on this machine.
    :param proc: the folder of process information, if the system has one.
    """
    stat = proc / str(pid) / "stat"
    jvm = os.getppid() if _STARTED_BY_JVM in os.environ else None
    arguments = pid, stat, _started(pid, stat), jvm
    threading.Thread(target=_watch, args=arguments, name="end-with-owner", daemon=True).start()


def wait_for_owner(proceed_file: Path) -> None:
    """Return when the worker has made this file: by then Airflow has recorded the application.

    :raises JobFailedError: if that takes more than ten minutes.
    """
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while not proceed_file.exists():
        if time.monotonic() > deadline:
            raise JobFailedError(
                f"The worker must read the start of the job in its output and record it within "
                f"{_MAX_WAIT_SECONDS:g} s; it did not. Nothing was written. "
                "Check that spark-submit passes on the driver's standard output."
            )
        time.sleep(_PROCEED_CHECK_SECONDS)


def _watch(pid: int, stat: Path, started: str | None, jvm: int | None) -> None:
    while _lives(pid, stat, started):
        time.sleep(_CHECK_SECONDS)
    try:
        # Nobody may be there to read it.
        with suppress(OSError):
            sys.stderr.write(f"The worker process {pid} that submitted this job is gone, so the job ends.\n")
        if jvm is not None:
            _end_parent(jvm)
    finally:
        # sys.exit would end this thread alone.
        os._exit(_EXIT_CODE_ORPHANED)


def _end_parent(pid: int) -> None:
    """End the process that started this one, by force if it takes too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _JVM_SECONDS
        with suppress(ProcessLookupError):
            # A process without a parent gets another one, so this is not another process with the number.
            if os.getppid() == pid:
                os.kill(pid, number)
        while os.getppid() == pid and time.monotonic() < deadline:
            time.sleep(_PROCEED_CHECK_SECONDS)


def _lives(pid: int, stat: Path, started: str | None) -> bool:
    """Whether the process with this number is still the one that was started then."""
    now = _started(pid, stat)
    if started is None or now is None:
        return False
    return now == started or not now or not started


def _started(pid: int, stat: Path) -> str | None:
    """When a process was started, in clock ticks since boot, as numbers of processes are used again; empty where the
    system does not tell, None for a dead one.
    """
    try:
        # The second field, the command, is in brackets and may hold anything.
        state, *more = stat.read_bytes().rpartition(b")")[2].decode().split()
        # A dead process stays a zombie until its parent takes notice of it.
        return None if state in ("Z", "X", "x") else more[18]
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
