"""Stopping :mod:`airflow_provider_kafka_spark.testing.stoppable` while it starts processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process_mark import ProcessMark

pytestmark = pytest.mark.process

# Starts one process after the other, so that a signal comes in the middle of a start.
_STARTS = """
import subprocess
import sys
from pathlib import Path
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.stoppable import Stoppable

log = Path(sys.argv[1]) / "log"
stoppable = Stoppable("starts")

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]

def work():
    while True:
        if sys.argv[2] == "owned":
            OwnedProcess(SLEEP, log).start()
        else:
            subprocess.Popen(SLEEP)
        print("started", flush=True)

stoppable.run(work, lambda: None)
"""


@pytest.mark.parametrize("kind", ["owned", "bare"])
@pytest.mark.parametrize("starts", [1, 3])
def test_a_stop_in_the_middle_of_a_start_leaves_no_process(starts: int, kind: str, tmp_path: Path) -> None:
    mark = ProcessMark()
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(tmp_path), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **mark.environment},
    )
    assert process.stdout is not None
    for _ in range(starts):
        assert process.stdout.readline() == "started\n"
    process.terminate()
    _output, errors = process.communicate(timeout=60)
    assert mark.alive() == []
    assert errors == "starts: stopped by SIGTERM; no process is left.\n"
    assert process.returncode == 128 + signal.SIGTERM
