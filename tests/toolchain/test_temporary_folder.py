from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.toolchain.temporary_folder import remove_stale_folders, temporary_folder


def test_the_folder_is_gone_afterwards() -> None:
    """The folder goes with all that is in it, also after a failure."""
    folders = []

    def fail() -> None:
        with temporary_folder() as folder:
            folders.append(folder)
            (folder / "request.json").touch()
            (folder / "blocks").mkdir()
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert [folder.exists() for folder in folders] == [False]


def test_what_a_killed_worker_left_is_removed_by_the_next(temporary: Path) -> None:
    """A worker that is ended by SIGKILL removes nothing; the next job on the machine does it, with all that is in the
    folder. That of a living worker stays.
    """
    with worker() as (process, left):
        assert remove_stale_folders() == []
        process.kill()
        process.wait()
        assert (left / "request.json").exists()

        with temporary_folder() as folder:
            assert list(temporary.iterdir()) == [folder]


def test_a_dead_process_that_nobody_has_noticed_owns_nothing(temporary: Path) -> None:
    """In a container there may be nobody to do it."""
    with worker() as (process, left):
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert remove_stale_folders() == [left]


def test_another_process_of_the_same_number_owns_nothing(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are used again: a process that was started later is another one. Nothing is asked about another user's
    folder, which cannot fail a job, whatever process its name refers to.
    """
    with worker() as (process, folder):
        started = folder.name.removeprefix(f"airflow-kafka-spark-{process.pid}-").partition("-")[0]
        earlier = folder.with_name(f"airflow-kafka-spark-{process.pid}-{int(started) - 1}-abc")
        earlier.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
            patch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
            assert remove_stale_folders() == []

        assert remove_stale_folders() == [earlier]
        assert folder.exists()


@pytest.mark.parametrize("name", ["airflow-kafka-spark-notes", "airflow-kafka-spark-x-y-z", "kafka-spark-1-1-a"])
def test_what_is_not_ours_stays(temporary: Path, name: str) -> None:
    (temporary / name).mkdir()

    assert remove_stale_folders() == []
    assert (temporary / name).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the system shows no names of processes")
def test_a_process_may_have_any_name(temporary: Path) -> None:
    """Bytes that are no text, too: every user chooses the names of processes and of folders beside ours."""
    with worker(name=b"\xff\xfe) Z") as (process, folder):
        (temporary / f"airflow-kafka-spark-{process.pid}-{'9' * 200}").symlink_to("/")
        (temporary / f"airflow-kafka-spark-{'9' * 200}-1-abc").mkdir()
        Path(os.fsdecode(os.fsencode(temporary) + b"/airflow-kafka-spark-1-1-\xff\n")).write_text("no folder")

        assert remove_stale_folders() == []
        assert folder.exists()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def worker(name: bytes = b"worker") -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a job, and its folder."""
    program = (
        "from pathlib import Path\n"
        "if Path('/proc/self/comm').exists():\n"
        f"    Path('/proc/self/comm').write_bytes({name!r})\n"
        "from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'request.json').touch()\n"
        "    print(folder, flush=True)\n"
        "    input()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()
