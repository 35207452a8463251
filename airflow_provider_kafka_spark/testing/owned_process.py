"""A child process that cannot outlive the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing import supervisor
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer

#: Held while a process is being started, and permanently by :func:`stop_starting`.
_starting = threading.Lock()
_SUSPEND_SECONDS = 10.0


def stop_starting() -> None:
    """Prevent other threads from starting an :class:`OwnedProcess`, when this process is about to end.

    It waits for a start in progress, so that its process can be found and ended; a later start waits forever.
    """
    _starting.acquire()


class OwnedProcess(ManagedServer):
    """One command with all its children, which ends by :meth:`stop`, or at the latest when this process ends.

    This also holds after SIGKILL: a small supervising process notices it within a fraction of a second. Ctrl-C reaches
    neither the supervisor nor the command, because they are in their own sessions. The owner reacts to it, and when the
    owner ends, the command ends.

    .. warning:: It belongs to the process that called :meth:`start`. One forked from it must not call :meth:`stop`.

    :param command: program and arguments
    :param log: the file for its output, appended to; the folder must exist
    :param name: for error messages, the program's name by default
    :param env: the whole environment of the command, this process's own by default
    :param cwd: the folder to start it in
    :param grace: seconds between asking the command to end and ending it
    :param remove_if_orphaned: a folder to remove if this process dies without having called :meth:`stop`
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace: float = 10.0,
        remove_if_orphaned: Path | None = None,
    ) -> None:
        self.command = list(command)
        self.log = log
        self.name = name or Path(command[0]).name
        self.env = env
        self.cwd = cwd
        self.grace = grace
        self.remove_if_orphaned = remove_if_orphaned
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def returncode(self) -> int | None:
        """The command's exit code, 128 plus the signal that ended it, or None while it runs or was never started."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """Whether the command was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the command and return at once.

        :raises LocalServiceError: it runs already, or could not be started at all
        """
        if self.running:
            raise self._already_running(self.name)
        arguments = [str(os.getpid()), str(self.grace), str(self.remove_if_orphaned or ""), *self.command]
        try:
            with self.log.open("ab") as log, _starting:
                self._process = subprocess.Popen(
                    # -I and -S: neither the user's environment nor site-packages can break or slow the supervisor.
                    [sys.executable, "-I", "-S", supervisor.__file__, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=None if self.env is None else dict(self.env),
                    cwd=self.cwd,
                    start_new_session=True,
                )
        except OSError as error:
            raise LocalServiceError(
                f"{self.name} must start, with its log at {self.log}; got {error}. Check that the folders exist and "
                "may be written."
            ) from error

    def stop(self) -> None:
        """End the command and all its children. Returns when they are gone; calling it again does nothing.

        :raises LocalServiceError: the system did not let it end within ``grace`` and some seconds
        """
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the command and all its children by SIGKILL, as a crash would. Returns when they are gone.

        :raises LocalServiceError: as :meth:`stop`
        """
        # The supervisor's signal for SIGKILL; a real SIGKILL would end only the supervisor.
        self._end(signal.SIGUSR1)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The command and all its children stand still inside ``with``, as on a machine that hangs. It may be killed
        there.

        :raises LocalServiceError: it does not run, or the system did not suspend it in time
        """
        if self._process is None or not self.running:
            raise self._not_running()
        command = psutil.Process(self._process.pid).children(recursive=True)
        try:
            for process in command:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            self._wait_until_suspended(command)
            yield
        finally:
            for process in command:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def _wait_until_suspended(self, command: Sequence[psutil.Process]) -> None:
        deadline = time.monotonic() + _SUSPEND_SECONDS
        for process in command:
            with suppress(psutil.NoSuchProcess):
                while process.status() != psutil.STATUS_STOPPED:
                    if time.monotonic() > deadline:
                        raise LocalServiceError(
                            f"{self.name} must stand still within {_SUSPEND_SECONDS:g} seconds; it is "
                            f"{process.status()}. Look at process {process.pid}."
                        )
                    time.sleep(0.01)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(number)
        # The supervisor ends everything after the grace time; the additional time is for a machine under load.
        patience = self.grace + 10.0
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired as error:
            raise LocalServiceError(
                f"{self.name} must end within {patience:g} seconds; it still runs. Look at process "
                f"{self._process.pid} and its child.\n{self.tail()}"
            ) from error

    def tail(self, lines: int = 40) -> str:
        """Return the last ``lines`` lines of the log, under a heading that names the file."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                # A line of a Java log is long, and its file may be very long.
                log.seek(max(0, log.tell() - lines * 500))
                text = log.read().decode(errors="replace")
        except OSError as error:
            return f"(no log of {self.name}: {error})"
        return f"The end of {self.log}:\n" + "\n".join(text.splitlines()[-lines:])
