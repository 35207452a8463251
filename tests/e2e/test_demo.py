"""The demo as a stranger runs it, and as she stops it. CI runs ``make demo``; the long ring looks at its traces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process_mark import ProcessMark

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

RECORDS = "20000"
_STOP_SECONDS = 30.0
_DEMO_SECONDS = 600.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "demo home"


@pytest.mark.long
def test_the_demo_proves_both_copies_and_leaves_no_process(
    home: Path, tmp_path: Path, process_mark: ProcessMark
) -> None:
    callers = tmp_path / "callers-airflow"
    with _demo(home, process_mark, {"AIRFLOW_HOME": str(callers)}) as demo:
        output, errors = demo.communicate(timeout=_DEMO_SECONDS)

    assert demo.returncode == 0, output + errors
    assert errors == ""
    assert "PROVED: every planned record is in its target exactly once" in output
    assert output.count("The plan of run") == output.count("The report of run") == 2
    assert "WARN" not in output, "Spark's own log goes to the file"
    assert str(home / "logs") in output
    assert process_mark.alive() == []
    assert not callers.exists()
    assert list(tmp_path.glob("tmp/*")) == [], "temporary files"


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        pytest.param("starting a broker", signal.SIGINT, id="broker-starts"),
        pytest.param("== DAG", signal.SIGTERM, id="airflow-starts", marks=pytest.mark.long),
        pytest.param("Spark application", signal.SIGINT, id="spark-runs", marks=pytest.mark.long),
    ],
)
def test_a_stop_leaves_no_process_and_no_traceback(
    moment: str, number: signal.Signals, home: Path, tmp_path: Path, process_mark: ProcessMark
) -> None:
    with _demo(home, process_mark) as demo:
        _read_until(demo, moment)
        # Ctrl-C in a terminal: to the whole process group.
        os.killpg(demo.pid, number)
        output, errors = demo.communicate(timeout=_STOP_SECONDS)

    assert process_mark.alive() == []
    assert demo.returncode == 128 + number
    assert errors == f"demo: stopped by {number.name}; no process is left.\n"
    assert "Traceback" not in output
    assert list(tmp_path.glob("tmp/*")) == [], "temporary files"


@contextmanager
def _demo(home: Path, mark: ProcessMark, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    temporary = home.parent / "tmp"
    temporary.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.demo", "--records", RECORDS, "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **mark.environment, "TMPDIR": str(temporary), **(environment or {})},
        process_group=0,
    )
    try:
        yield demo
    finally:
        if demo.poll() is None:
            demo.terminate()
            demo.wait(_STOP_SECONDS)


def _read_until(demo: subprocess.Popen[str], text: str) -> None:
    """Read the demo's output up to a line with this text; the test's time-out bounds the wait."""
    assert demo.stdout is not None
    output = ""
    while text not in output:
        line = demo.stdout.readline()
        assert line, f"the demo ended before it said {text!r}:\n{output}"
        output += line
