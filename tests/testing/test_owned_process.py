"""Promises of :mod:`airflow_provider_kafka_spark.testing.owned_process`, kept by real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from tests.waiting import until

pytestmark = pytest.mark.process

# Writes the ids of a child and of its own child, which left the group as a daemon does, and then waits.
_FAMILY = """
import os, subprocess, sys, time
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("pids", os.getpid(), away.pid, flush=True)
time.sleep(600)
"""
#: A shell starts what runs in the background with SIGINT ignored, and so are this process's children then.
_OWNER = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
folder = Path(sys.argv[1])
with OwnedProcess([sys.executable, "-c", sys.argv[2]], folder / "log", remove_if_orphaned=folder / "data"):
    time.sleep(600)
"""


def test_stop_ends_the_command_and_all_its_children(tmp_path: Path) -> None:
    """Nothing that the command started is left, not even what moved to a session of its own. The terminal's SIGINT goes
    to the foreground group, to which the command does not belong. A second start would leave the first command without
    an owner.
    """
    with OwnedProcess([sys.executable, "-c", _FAMILY], tmp_path / "log") as process:
        pids = _pids(tmp_path / "log")
        assert all(map(_exists, pids))
        assert os.getpgid(pids[0]) != os.getpgrp()
        assert os.getsid(pids[0]) != os.getsid(0)
        with pytest.raises(LocalServiceError, match=r"must be stopped .* it runs"):
            process.start()
    assert not any(map(_exists, pids))
    assert not process.running


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_nothing_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    """However the owner ends, the command and its children end, and the folder that was theirs is removed."""
    (tmp_path / "data").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path), _FAMILY], stderr=subprocess.DEVNULL)
    try:
        pids = _pids(tmp_path / "log")
        os.kill(owner.pid, number)
        owner.wait(20)
        until(lambda: not any(map(_exists, pids)), "the command is gone")
        if number != signal.SIGINT:  # which Python turns into an ordinary end of the with block
            until(lambda: not (tmp_path / "data").exists(), "the folder is gone")
    finally:
        owner.kill()
        owner.wait()


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    """Stopping is bounded, whatever the command does."""
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('pids 0 0', flush=True); time.sleep(600)"
    process = OwnedProcess([sys.executable, "-c", stubborn], tmp_path / "log", grace=0.5)
    process.start()
    _pids(tmp_path / "log")
    before = time.monotonic()
    process.stop()
    # The default grace is 10 s.
    assert 0.4 < time.monotonic() - before < 10
    assert process.returncode == 128 + signal.SIGKILL


def test_a_suspended_command_stands_still(tmp_path: Path) -> None:
    """With its children; afterwards it runs on. It can be killed: nothing is left that would wait to be resumed, and
    what does not run cannot be suspended.
    """
    process = OwnedProcess([sys.executable, "-c", _FAMILY], tmp_path / "log")
    with process:
        pids = _pids(tmp_path / "log")
        family = [psutil.Process(pid) for pid in pids]
        with process.suspended():
            assert {each.status() for each in family} == {psutil.STATUS_STOPPED}
        assert psutil.STATUS_STOPPED not in {each.status() for each in family}
        with process.suspended():
            process.kill()
            assert not any(map(_exists, pids))
    with pytest.raises(LocalServiceError, match="OwnedProcess must run"), process.suspended():
        pass


def test_the_exit_code_and_the_log_are_the_commands(tmp_path: Path) -> None:
    """The supervisor in between does not hide why the command ended. Standard output and error are both in the log,
    whose last lines a message can carry. A stop before any start, and a second one, does nothing.
    """
    code = "import sys; print('first'); print('second'); sys.stdout.flush(); print('third', file=sys.stderr); exit(7)"
    process = OwnedProcess([sys.executable, "-c", code], tmp_path / "log")
    process.stop()
    with process:
        until(lambda: not process.running, "the command ended")
    assert process.returncode == 7
    assert process.tail(2).splitlines()[1:] == ["second", "third"]
    assert str(tmp_path / "log") in process.tail(2)
    process.stop()


def test_a_log_that_cannot_be_written_is_a_named_error(tmp_path: Path) -> None:
    """The error for a failed start has the name and the path of the log."""
    with pytest.raises(LocalServiceError, match=r"thing must start, with its log at .*/missing/log"):
        OwnedProcess(["true"], tmp_path / "missing" / "log", name="thing").start()


def _pids(log: Path) -> list[int]:
    """Return the process ids that the command wrote into its log."""
    found: list[int] = []

    def read() -> bool:
        lines = log.read_text().splitlines() if log.exists() else []
        found[:] = [int(word) for line in lines if line.startswith("pids ") for word in line.split()[1:]]
        return bool(found)

    until(read, "the command wrote its process ids")
    return found


def _exists(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
