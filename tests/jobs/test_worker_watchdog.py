from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_kafka_spark.core.errors import JobFailedError
from airflow_provider_kafka_spark.jobs import worker_watchdog
from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner

pytestmark = pytest.mark.process


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def driver(worker: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[str]]:
    """A process that would run for a minute, unless it ends with its worker."""
    script = (
        "import sys, time\n"
        "from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner\n"
        "end_with_owner(int(sys.argv[1]))\n"
        "print(flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(worker.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    "is_waited_for", [pytest.param(True, id="gone"), pytest.param(False, id="zombie, as its parent does not wait")]
)
def test_a_job_ends_when_its_worker_is_dead(
    worker: subprocess.Popen[bytes], driver: subprocess.Popen[str], is_waited_for: bool
) -> None:
    """A driver whose worker was killed does not go on writing beside the retry."""
    assert driver.poll() is None

    worker.kill()
    if is_waited_for:
        worker.wait(timeout=10)

    assert driver.wait(timeout=30) == 143
    assert f"worker process {worker.pid}" in (driver.stderr.read() if driver.stderr else "")


@pytest.mark.parametrize("obeys", [True, False])
def test_the_jvm_ends_before_its_python_does(worker: subprocess.Popen[bytes], obeys: bool) -> None:
    """A Spark whose Python is gone writes on for seconds."""
    driver = (
        "import sys, time\n"
        "from airflow_provider_kafka_spark.jobs import worker_watchdog\n"
        "worker_watchdog._JVM_SECONDS = 0.5\n"
        "worker_watchdog.end_with_owner(int(sys.argv[1]))\n"
        "print(flush=True)\n"
        "time.sleep(60)\n"
    )
    jvm = (
        "import signal, subprocess, sys\n"
        f"signal.signal(signal.SIGTERM, signal.{'SIG_DFL' if obeys else 'SIG_IGN'})\n"
        "subprocess.run([sys.executable, *sys.argv[1:]])\n"
    )
    command = [sys.executable, "-c", jvm, "-c", driver, str(worker.pid)]
    environment = {**os.environ, "PYSPARK_GATEWAY_PORT": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()

        worker.kill()

        assert process.wait(timeout=30) == -(signal.SIGTERM if obeys else signal.SIGKILL)
        # The pipe is closed when Python has ended, too.
        assert process.stdout.read() == b""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Watch a process for which /proc (if there is one) returns these states and start times, one after the other, and
    return how often it was looked at until the job ended.
    """

    def run(pid: int, *states: tuple[str, int]) -> int:
        stat = tmp_path / str(pid) / "stat"
        looks = list(states)

        def next_look(_: float = 0) -> None:
            stat.unlink(missing_ok=True)
            if looks:
                state, started = looks.pop(0)
                stat.parent.mkdir(exist_ok=True)
                stat.write_text(f"{pid} (a) Z (b) {state} {' '.join(['0'] * 18)} {started} 0 0\n")

        def end(code: int) -> None:
            codes.append(code)
            ended.set()

        codes, ended = list[int](), threading.Event()
        # Not that of all of Python, by which other threads of the process sleep.
        monkeypatch.setattr(worker_watchdog, "time", SimpleNamespace(sleep=next_look, monotonic=time.monotonic))
        monkeypatch.setattr("os._exit", end)
        next_look()
        end_with_owner(pid, proc=tmp_path)
        assert ended.wait(30)
        assert codes == [143]
        return len(states) - len(looks)

    return run


@pytest.mark.parametrize(
    ("states", "looks"),
    [
        pytest.param([("S", 100), ("R", 100), ("S", 200), ("S", 200)], 3, id="number-used-again"),
        pytest.param([("S", 100), ("D", 100), ("Z", 100), ("Z", 100)], 3, id="zombie"),
        pytest.param([("S", 100), ("X", 100), ("X", 100)], 2, id="dead"),
        pytest.param([("Z", 100), ("Z", 100)], 1, id="dead-before-the-driver-began"),
    ],
)
def test_the_same_number_is_not_the_same_process(
    watch: Callable[..., int], states: list[tuple[str, int]], looks: int
) -> None:
    """What counts is the state, and when it was started; the command may hold anything."""
    assert watch(os.getpid(), *states) == looks


def test_without_proc_the_process_is_asked_for_by_its_number(
    worker: subprocess.Popen[bytes], watch: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on systems that have none, or hide the processes of others."""
    asked: list[int] = []
    kill = os.kill

    def counted(pid: int, number: int) -> None:
        asked.append(pid)
        if len(asked) == 3:
            # It ends with its input; kill() would come here.
            worker.communicate(timeout=30)
        if len(asked) == 2:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr("os.kill", counted)

    assert watch(worker.pid) == 0
    assert asked == [worker.pid] * 3


def test_a_driver_waits_for_its_worker(tmp_path: Path) -> None:
    """It goes on as soon as the file is there."""
    proceed = tmp_path / "proceed"
    waiting = threading.Thread(target=worker_watchdog.wait_for_owner, args=(proceed,))
    waiting.start()
    assert waiting.is_alive()

    proceed.touch()

    waiting.join(timeout=20)
    assert not waiting.is_alive()


def test_a_driver_whose_output_nobody_reads_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hang for ever."""
    monkeypatch.setattr(worker_watchdog, "_MAX_WAIT_SECONDS", 0.1)

    with pytest.raises(JobFailedError, match=r"Nothing was written.*standard output"):
        worker_watchdog.wait_for_owner(tmp_path / "proceed")
