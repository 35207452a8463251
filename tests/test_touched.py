"""Promises of the parts of the long ring: each test of it is in one part, and a change finds its parts."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests import run, touched
from tests.touched import PARTS, changed_paths

_ROOT = Path(__file__).parents[1]


def test_every_file_with_long_tests_is_in_one_part() -> None:
    files = [file.relative_to(_ROOT).as_posix() for file in (_ROOT / "tests").rglob("test_*.py")]
    long = [f for f in files if "mark.long" in (text := (_ROOT / f).read_text()) or "mark.fault" in text]
    elsewhere = {"tests/promises/test_table.py", "tests/test_touched.py", "tests/test_run.py"}
    counts = {f: sum(f.startswith(t) for part in PARTS for t in part.tests) for f in long if f not in elsewhere}

    assert {f: count for f, count in counts.items() if count != 1} == {}


def test_every_part_has_tests_and_code_that_is_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.split()

    assert [t for part in PARTS for t in part.tests if not (_ROOT / t).exists()] == []
    assert [p for part in PARTS for p in part.code if not any(fnmatch(name, p) for name in listed)] == []
    assert [part.minutes for part in PARTS] == sorted(part.minutes for part in PARTS)


def test_what_a_change_touches_runs_within_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that fails makes the whole fail; one that is too long is named, and only files of a changed name run."""
    ran: list[list[str]] = []
    monkeypatch.setattr(
        touched, "changed_paths", lambda _: ["airflow_provider_kafka_spark/operators/job_token.py", "dags/a.py"]
    )
    monkeypatch.setattr(touched, "PARTS", [p for p in PARTS if p.name in ("jobs", "operators", "a real Airflow")])
    monkeypatch.setattr(run, "main", lambda arguments: ran.append(list(arguments)) or 1)

    assert touched.main(["--minutes", "60"]) == 1
    assert ran == [["long", "tests/e2e"], ["long", "tests/operators"]]
    ran.clear()
    assert touched.main(["--minutes", "14"]) == 1
    assert ran == [["long", "tests/operators/test_job_token.py"]]
    assert capsys.readouterr().out.count("NOT RUN") == 2


def test_a_change_is_what_was_committed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the last hours; without an earlier commit, everything."""
    monkeypatch.chdir(tmp_path)

    def commit(name: str, hour: int) -> None:
        Path(name).touch()
        for command in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", name]):
            moment = f"2026-11-20T{hour:02}:00:00Z"
            monkeypatch.setenv("GIT_COMMITTER_DATE", moment)
            subprocess.run(["git", *command], check=True)

    subprocess.run(["git", "init", "-q"], check=True)
    commit("first", 1)
    assert changed_paths(None) == ["first"]
    commit("second", 14)
    commit("third", 15)
    assert changed_paths(None) == ["second", "third"]
    assert changed_paths("HEAD~1") == ["third"]
