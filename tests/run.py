"""Run one ring of the tests: ``python -m tests.run whole [arguments of pytest]``.

What fails is run once more at the end, alone. A test that passes then is named on the last lines as ``FLAKY``, with its
first failure kept in a file, and does not fail the run: it shows a fault of the product or of the test that somebody
has to find. More than three such tests are a failure, and so is any of the quick ring, where nothing depends on time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_kafka_spark.toolchain.settings import cache_folder
from tests.outcome import OUTCOME_VARIABLE
from tests.rings import EXPRESSIONS, QUICK_RING

MOST_FLAKY = 3
#: An interrupted run ends its services.
_END_SECONDS = 60
_TESTS_FAILED = 1

#: Of each failed test, by its name: its ring and the text of its failure.
Failures = Mapping[str, Mapping[str, str]]


def main(argv: Sequence[str]) -> int:
    """Run a ring.

    :param argv: the ring, and arguments of pytest.
    :return: pytest's exit code; 0 also if every failed test has passed when it ran alone.
    """
    if not argv or argv[0] not in EXPRESSIONS:
        print(f"usage: python -m tests.run {{{','.join(EXPRESSIONS)}}} [arguments of pytest]", file=sys.stderr)  # noqa: T201
        return 2
    processes = os.environ.get("PROCESSES", "")
    if processes and argv[0] == QUICK_RING:
        # Its tests wait for nothing: more processes than cores would only import everything once more.
        processes = str(min(int(processes), os.cpu_count() or 1))
    side_by_side = [f"--numprocesses={processes}", "--dist=loadgroup", "--no-loadscope-reorder"] if processes else []
    # As by Ctrl-C, which a shell makes those ignore that run in its background, and with them what they start.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    code, failures = _pytest([*side_by_side, "-m", EXPRESSIONS[argv[0]], *argv[1:]])
    if code != _TESTS_FAILED or not failures:
        return code
    if reason := _why_not_flaky(failures):
        _say(f"{len(failures)} failed. {reason}")
        return code
    _say(f"Again, each alone, what failed: {', '.join(failures)}")
    # The directories that the arguments name do not count here; options such as a configuration file do.
    options = [argument for argument in argv[1:] if argument.startswith("-")]
    code, _ = _pytest([*options, *failures])
    if code == 0:
        file = _keep(failures)
        _say(f"The first failures are in {file}: each is a fault until it is shown to be none.")
        for name in failures:
            _say(f"FLAKY {name}")
    return code


def _why_not_flaky(failures: Failures) -> str:
    """The reason why the failures are not tried again; empty if they are."""
    quick = [name for name, failure in failures.items() if failure["ring"] == QUICK_RING]
    if quick:
        return f"A test of the quick ring depends on nothing that varies: {', '.join(quick)}"
    return f"More than {MOST_FLAKY} are no flakes." if len(failures) > MOST_FLAKY else ""


def _pytest(arguments: Sequence[str]) -> tuple[int, Failures]:
    """Run pytest; its exit code, and what failed."""
    with tempfile.TemporaryDirectory(prefix="tests-outcome-") as folder:
        outcome = Path(folder) / "outcome.json"
        environment = {**os.environ, OUTCOME_VARIABLE: str(outcome)}
        process = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], env=environment)
        try:
            code = process.wait()
        except BaseException:
            # It then ends what its tests have started.
            process.send_signal(signal.SIGINT)
            process.wait(_END_SECONDS)
            raise
        finally:
            process.kill()
        return code, json.loads(outcome.read_text()) if outcome.exists() else {}


def _keep(failures: Failures) -> Path:
    """Write the texts of first failures to a file of their own."""
    folder = (cache_folder() or Path(tempfile.gettempdir())) / "flakes"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}.txt"
    file.write_text("\n\n".join(failure["text"] for failure in failures.values()))
    return file


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what the command prints


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
