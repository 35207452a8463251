"""Run work that Ctrl-C ends at any moment, with all its processes. The module has few imports, to be ready early."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import psutil

from airflow_provider_kafka_spark.testing.owned_process import stop_starting

#: Longer than the grace of an :class:`~airflow_provider_kafka_spark.testing.owned_process.OwnedProcess`.
_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.05
_STARTED_SECONDS = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable:
    """Runs work in a thread, while the main thread only waits for its end or for a signal.

    From its creation, SIGINT, SIGTERM and SIGHUP end all child processes and then this one, with 128 plus the signal's
    number. The work need not handle it: a signal is not an exception that a callback, a destructor or a clean-up could
    swallow.

    .. warning:: Only children are ended. They must end their own children, as an
    :class:`~airflow_provider_kafka_spark.testing.owned_process.OwnedProcess` does.

    :param name: starts the log line about the stop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._signal: int | None = None
        self._failure: BaseException | None = None
        self._code = 0
        self._printing = threading.Lock()
        self._ending = False
        sys.addaudithook(self._before)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def run(self, work: Callable[[], int], clean_up: Callable[[], None]) -> int:
        """Return the work's exit code; after a signal it does not return, and the process ends.

        :param work: called in a separate thread. Its exceptions are raised here.
        :param clean_up: always called at the end, when no child is left.
        """
        thread = threading.Thread(target=self._work, args=(work,), name="work", daemon=True)
        thread.start()
        while thread.is_alive() and self._signal is None:
            thread.join(_POLL_SECONDS)
        if self._signal is not None:
            self._end(self._signal, clean_up)
        clean_up()
        if self._failure is not None:
            raise self._failure
        return self._code

    def emit(self, text: str = "") -> None:
        """Print. While the process is being stopped, the work ends here."""
        if self._signal is not None and threading.current_thread() is not threading.main_thread():
            threading.Event().wait()
        with self._printing:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = self._signal or number

    def _before(self, event: str, _arguments: object) -> None:
        """Python's audit hook: other threads start no processes while all are being ended."""
        if event == "subprocess.Popen" and self._ending and threading.current_thread() is not threading.main_thread():
            threading.Event().wait()

    def _work(self, work: Callable[[], int]) -> None:
        try:
            self._code = work()
        except BaseException as failure:  # noqa: BLE001 - carried to the main thread, which raises it
            self._failure = failure

    def _end(self, number: int, clean_up: Callable[[], None]) -> None:
        stop_starting()
        self._ending = True
        # Processes that passed the hook before are children by now.
        time.sleep(_STARTED_SECONDS)
        end_children(_PATIENCE_SECONDS)
        clean_up()
        sys.stderr.write(f"{self._name}: stopped by {signal.Signals(number).name}; no process is left.\n")
        sys.stderr.flush()
        # The work's thread may be at any point; it must not run or print further.
        os._exit(128 + number)


def end_children(patience: float) -> None:
    """Ask every child process to end, and end it after ``patience`` seconds. Returns when there is none."""
    deadline = time.monotonic() + patience
    asked: set[int] = set()
    while children := _running_children():
        late = time.monotonic() > deadline
        for child in children:
            if late or child not in asked:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(child)
        time.sleep(_POLL_SECONDS)


def _running_children() -> list[int]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found
