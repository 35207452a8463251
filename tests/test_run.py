"""Promises of the command that runs a ring: what fails once is named, and what fails twice is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rings import QUICK_RING, WHOLE_RING
from tests.waiting import until

pytestmark = pytest.mark.process

_ROOT = Path(__file__).parents[1]
_CONFIGURATION = """\
[pytest]
addopts = -p tests.outcome -p no:cacheprovider -p timeout -p xdist
markers =
    broker: needs a service
    long: of the long ring
    spark: needs a service
    airflow: needs a service
    packaging: needs a service
    kubernetes: needs a service
    process: needs a service
    fault: of the long ring
"""
#: A shell starts what runs in the background with SIGINT ignored.
_IN_BACKGROUND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
runpy.run_module("tests.run", run_name="__main__", alter_sys=True)
"""
_FAILS_ONCE = """
@pytest.mark.{marker}
def test_{name}(tmp_path):
    mark = Path(__file__).with_name("{name}")
    is_first, _ = not mark.exists(), mark.touch()
    assert not is_first, "the first time"
"""


@dataclass(frozen=True)
class Run:
    """A folder with tests, and how a run of them has ended."""

    folder: Path

    def of(self, body: str, processes: str = "") -> tuple[int, str]:
        """The exit code and the output of a run of these tests."""
        (self.folder / "pytest.ini").write_text(_CONFIGURATION)
        (self.folder / "test_it.py").write_text(f"from pathlib import Path\nimport pytest\n{body}")
        environment = _environment(AIRFLOW__KAFKA_SPARK__CACHE_FOLDER=str(self.folder), PROCESSES=processes)
        command = [sys.executable, "-m", "tests.run", WHOLE_RING]
        ended = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return ended.returncode, ended.stdout + ended.stderr


def _environment(**more: str) -> dict[str, str]:
    """Without the plugins that no test here needs, each of which takes time to be imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PROCESSES": "", **more}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_what_passes_alone_is_named_and_kept(run: Run) -> None:
    """Also of processes side by side."""
    group = "pytestmark = pytest.mark.xdist_group('of one')\ndef test_good(): pass\n"
    code, output = run.of(group + _FAILS_ONCE.format(name="late", marker="broker"), processes="2")

    assert code == 0, output
    assert output.splitlines()[-1] == "FLAKY test_it.py::test_late"
    (kept,) = (run.folder / "flakes").iterdir()
    assert "the first time" in kept.read_text()
    assert "2 passed" not in output.rpartition("Again")[2], "only what failed runs again"


@pytest.mark.parametrize(
    ("names", "body", "is_tried"),
    [
        pytest.param({"of_quick": "filterwarnings('error')"}, "", False, id="quick"),
        pytest.param(dict.fromkeys("abcd", "broker"), "", False, id="four"),
        pytest.param({"late": "broker"}, "@pytest.mark.broker\ndef test_bad(): assert False\n", True, id="bad"),
    ],
)
def test_some_are_no_flakes(run: Run, names: dict[str, str], body: str, is_tried: bool) -> None:
    """Those of the quick ring, many, and what fails again."""
    once = "".join(_FAILS_ONCE.format(name=name, marker=marker) for name, marker in names.items())
    code, output = run.of(body + once)

    assert (code, "Again" in output, "\nFLAKY" in output) == (1, is_tried, False), output


def test_a_test_that_hangs_ends_with_its_stacks_and_child_processes(run: Run) -> None:
    code, output = run.of(
        """
import subprocess, sys, time
@pytest.mark.timeout(2)
def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)  # the child"])
    try:
        time.sleep(60)
    finally:
        child.kill()
"""
    )
    assert code == 1
    assert "Timeout (>2.0s)" in output
    assert "# the child" in output.partition("Child processes at the time limit:")[2].partition("Stack")[0]


def test_an_interrupted_run_ends_its_tests(tmp_path: Path) -> None:
    """And those clean up; no process goes on with the next test."""
    (tmp_path / "pytest.ini").write_text(_CONFIGURATION)
    (tmp_path / "test_it.py").write_text(
        """
import time, pathlib, pytest
pytestmark = pytest.mark.xdist_group("of one")
def test_waits():
    pathlib.Path("started").touch()
    try:
        time.sleep(60)
    finally:
        pathlib.Path("cleaned").touch()
def test_next():
    pathlib.Path("gone on").touch()
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_BACKGROUND, QUICK_RING], cwd=tmp_path, env=_environment(PROCESSES="2")
    )
    until((tmp_path / "started").exists)
    process.terminate()

    assert process.wait(60) == 130
    assert (tmp_path / "cleaned").exists()
    assert not (tmp_path / "gone on").exists()
