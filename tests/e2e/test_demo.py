"""The demo as a stranger stops it. CI runs ``make demo`` to its end."""

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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "demo home"


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
    assert not (tmp_path / "callers").exists(), "the caller's Airflow"
    assert list(tmp_path.glob("tmp/*")) == [], "temporary files"


@contextmanager
def _demo(home: Path, mark: ProcessMark) -> Iterator[subprocess.Popen[str]]:
    temporary = home.parent / "tmp"
    temporary.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.demo", "--records", RECORDS, "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **mark.environment, "TMPDIR": str(temporary), "AIRFLOW_HOME": str(home.parent / "callers")},
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
