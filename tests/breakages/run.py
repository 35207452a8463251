"""``python -m tests.breakages.run [names...]``: apply each breakage to a copy of the checkout, and run its tests there.

A breakage is caught if each of its tests fails while it is called. One whose tests cannot be collected or set up, or
that does not even compile, is broken itself. Exit code: 0 if all are caught, otherwise 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from airflow_provider_kafka_spark.toolchain.process_group import end_group
from tests.breakages.table import BREAKAGES, Breakage
from tests.rings import EXPRESSIONS, WHOLE_RING

_CHECKOUT = Path(__file__).parents[2]
#: What tests look at, and nothing that was built or fetched.
_PARTS = ("airflow_provider_kafka_spark", "tests", "dags", "docs", "benchmarks", ".ci", "Makefile", "README.md")
_FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "constraints.txt", "pyproject.toml", "setup.cfg", "setup.py")
#: In what a test failed by that the change itself is no code.
_NO_CODE = ("CompileException", "NameError", "SyntaxError", "ImportError", "ModuleNotFoundError")
_SECONDS = 600.0
_TAIL_LINES = 25


@dataclass(frozen=True)
class Outcome:
    """How the tests of one copy ended.

    :param failed: of the named tests, those that failed while they were called.
    :param passed: those of which nothing failed, and something passed.
    :param problem: why the run says nothing; empty if it does.
    """

    failed: tuple[str, ...]
    passed: tuple[str, ...]
    problem: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run, and print a line for each breakage.

    :return: the exit code.
    """
    options = _parse(argv)
    chosen = [b for b in BREAKAGES if not options.names or b.name in options.names]
    if unknown := sorted(set(options.names) - {b.name for b in chosen}):
        sys.stderr.write(f"A name must be of the table in table.py, such as {BREAKAGES[0].name}; got {unknown}.\n")
        return 2
    began, bad = time.monotonic(), list[str]()
    if options.also_unbroken:
        tests = tuple(dict.fromkeys(test for breakage in chosen for test in breakage.tests))
        _emit(f"Unbroken: {len(tests)} tests ... ", end="")
        with _copy() as folder:
            outcome = _run(folder, tests, _SECONDS * 10, stops_early=False)
        if outcome.problem or len(outcome.passed) < len(tests):
            others = ", ".join(sorted({*tests} - {*outcome.passed}))
            _emit(f"they must pass; not so {others}. {outcome.problem}")
            return 1
        _emit(f"they pass ({time.monotonic() - began:.0f} s)")
    for number, breakage in enumerate(chosen, start=1):
        started = time.monotonic()
        _emit(f"[{number}/{len(chosen)}] {breakage.name} ... ", end="")
        verdict, is_caught = _try(breakage)
        _emit(f"{verdict} ({time.monotonic() - started:.0f} s)")
        if not is_caught:
            bad.append(breakage.name)
    _emit(f"{len(chosen) - len(bad)} of {len(chosen)} are caught, in {time.monotonic() - began:.0f} s.")
    if bad:
        _emit(f"Not caught: {', '.join(bad)}")
    return 1 if bad else 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.breakages.run", description=__doc__)
    parser.add_argument("names", nargs="*", help="of breakages (default: all)")
    parser.add_argument("--also-unbroken", action="store_true", help="first run all their tests on unchanged code")
    return parser.parse_args(argv)


def _try(breakage: Breakage) -> tuple[str, bool]:
    """What became of a breakage, in words, and whether it is caught."""
    with _copy() as folder:
        broken = folder / breakage.file
        text = broken.read_text()
        if text.count(breakage.old) != 1:
            return "BROKEN: its file has the old text no longer, or more than once", False
        broken.write_text(text.replace(breakage.old, breakage.new))
        # The first of a test's cases that fails is enough.
        outcome = _run(folder, breakage.tests, _SECONDS, stops_early=len(breakage.tests) == 1)
    if outcome.problem:
        return f"BROKEN: {outcome.problem}", False
    if set(outcome.failed) != set(breakage.tests):
        return f"MISSED by {', '.join(sorted({*breakage.tests} - {*outcome.failed}))}", False
    return f"caught by {', '.join(outcome.failed)}", True


@contextmanager
def _copy() -> Iterator[Path]:
    """A copy of what tests need of the checkout; the environment and the cache are the checkout's own."""
    with tempfile.TemporaryDirectory(prefix="breakage-") as name:
        folder = Path(name)
        for part in _PARTS:
            if (_CHECKOUT / part).is_dir():
                shutil.copytree(_CHECKOUT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(_CHECKOUT / part, folder / part)
        for file in _FILES:
            shutil.copy(_CHECKOUT / file, folder / file)
        (folder / ".venv").symlink_to(_CHECKOUT / ".venv")
        yield folder


def _run(folder: Path, tests: Sequence[str], seconds: float, *, stops_early: bool) -> Outcome:
    """Run tests in a copy. Every Python that they start finds the package there first."""
    report = folder / "report.xml"
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
        "AIRFLOW__KAFKA_SPARK__CACHE_FOLDER": str(_CHECKOUT / ".cache"),
        "PATH": f"{_CHECKOUT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"]
    command += ["-m", EXPRESSIONS[WHOLE_RING], *(["--exitfirst"] if stops_early else []), *tests]
    with (folder / "output.txt").open("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return Outcome((), (), f"its tests did not end within {seconds:.0f} s")
        finally:
            # Also after Ctrl-C.
            end_group(process.pid)
            process.wait()
        output.seek(0)
        tail = "".join(output.readlines()[-_TAIL_LINES:])
    # 1: tests were collected and run, and some failed.
    if code not in (0, 1) or not report.is_file():
        return Outcome((), (), f"pytest ended with exit code {code}\n{tail}")
    return _read(report, tests)


def _read(report: Path, tests: Sequence[str]) -> Outcome:
    """What a report says of the named tests."""
    failed, passed, problems = dict[str, None](), dict[str, None](), list[str]()
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest has just written it
        name = f"{str(case.get('classname')).replace('.', '/')}.py::{case.get('name')}"
        test = next((test for test in tests if name == test or name.startswith(f"{test}[")), None)
        if test is None:
            problems.append(f"{name} was not asked for")
            continue
        failure, error = case.find("failure"), case.find("error")
        if error is not None:
            problems.append(f"{name}: {str(error.get('message'))[:300]}")
        elif failure is not None:
            text = f"{failure.get('message')} {failure.text}"
            if found := next((word for word in _NO_CODE if f"{word}:" in text), None):
                problems.append(f"{name} fails by a {found}: {str(failure.get('message'))[:300]}")
            failed[test] = None
        elif case.find("skipped") is None:
            passed[test] = None
    return Outcome(tuple(failed), tuple(test for test in passed if test not in failed), "; ".join(problems))


def _emit(text: str, end: str = "\n") -> None:
    sys.stdout.write(f"{text}{end}")
    sys.stdout.flush()


if __name__ == "__main__":
    # As Ctrl-C, so that what was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; everything that was started is stopped.")
