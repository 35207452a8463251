"""Run those parts of the long ring whose code a change touched: ``python -m tests.touched [--minutes N]``.

CI runs it after the whole ring. Of a part that does not fit into the time, those files are run that are named after a
changed module, or changed themselves; and it is named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests import run
from tests.rings import LONG_RING

_PACKAGE = "airflow_provider_kafka_spark"
#: A change is what was committed since then, unless a commit is named.
_HOURS = 12


@dataclass(frozen=True)
class Part:
    """Some tests of the long ring.

    :param tests: files and folders.
    :param code: whose changes they are run for, as patterns of paths.
    :param minutes: that they take on two cores.
    """

    name: str
    tests: tuple[str, ...]
    code: tuple[str, ...]
    minutes: float

    def is_touched(self, paths: Iterable[str]) -> bool:
        return any(fnmatch(path, pattern) for path in paths for pattern in (*self.code, *(f"{t}*" for t in self.tests)))

    def files_named_after(self, paths: Iterable[str]) -> list[str]:
        """Its files of tests that have the name of a changed module, or were changed."""
        names = {Path(path).stem.removeprefix("test_") for path in paths}
        files = [file for root in map(Path, self.tests) for file in ([root] if root.is_file() else root.rglob("*.py"))]
        return sorted(str(f) for f in files if f.stem.startswith("test_") and f.stem.removeprefix("test_") in names)


#: In the order in which they are run: the shortest first, so that most fit.
PARTS = (
    Part("searches of the rules", ("tests/core", "tests/model"), (f"{_PACKAGE}/core/*", "docs/*/run-protocol.md"), 1),
    Part("hooks and sensors", ("tests/hooks", "tests/sensors"), (f"{_PACKAGE}/hooks/*", f"{_PACKAGE}/sensors/*"), 3),
    Part(
        "the page",
        ("tests/coverage_page",),
        (f"{_PACKAGE}/coverage_page/*", f"{_PACKAGE}/coverage.py", f"{_PACKAGE}/state/ledger_api.py"),
        3,
    ),
    Part("other Sparks", ("tests/other_sparks",), (f"{_PACKAGE}/jobs/*", f"{_PACKAGE}/toolchain/*"), 4),
    Part("jobs", ("tests/jobs",), (f"{_PACKAGE}/jobs/*",), 5),
    Part(
        "tools",
        (
            *("tests/testing", "tests/clients", "tests/toolchain", "tests/docs", "tests/test_prepare_command.py"),
            *("tests/test_provider.py", "tests/test_audit_command.py"),
        ),
        (f"{_PACKAGE}/testing/*", f"{_PACKAGE}/toolchain/*", f"{_PACKAGE}/clients/*", "docs/*", "setup.*"),
        8,
    ),
    Part("YARN", ("tests/yarn",), (f"{_PACKAGE}/submission/yarn*", f"{_PACKAGE}/triggers/spark_application.py"), 8),
    Part(
        "Kubernetes",
        ("tests/kubernetes",),
        (f"{_PACKAGE}/submission/kubernetes*", f"{_PACKAGE}/core/spark/driver_pod.py"),
        8,
    ),
    Part("faults", ("tests/faults",), (f"{_PACKAGE}/jobs/run_*.py", f"{_PACKAGE}/jobs/writer/*"), 8),
    Part("a real Airflow", ("tests/e2e",), ("dags/*", f"{_PACKAGE}/triggers/*", f"{_PACKAGE}/sensors/*"), 15),
    Part("operators", ("tests/operators",), (f"{_PACKAGE}/operators/*",), 30),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that a change touched.

    :return: 0 if none has failed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.touched", description=__doc__.splitlines()[0])
    parser.add_argument("--since", help=f"the commit before the change (default: the last one {_HOURS} hours earlier)")
    parser.add_argument("--minutes", type=float, default=3.0, help="time for all parts (default: 3)")
    options = parser.parse_args(argv)
    paths = changed_paths(options.since)
    left, code = options.minutes, 0
    for part in (part for part in PARTS if part.is_touched(paths)):
        runs: list[Sequence[str]] = [part.tests]
        if part.minutes > left:
            runs = [[file] for file in part.files_named_after(paths)]
            _say(
                f"NOT RUN {part.name}: it takes {part.minutes:g} minutes, and {left:.1f} are left. Run it: "
                f".venv/bin/python -m tests.run long {' '.join(part.tests)}"
            )
        for tests in runs:
            if left <= 0:
                break
            _say(f"Touched: {part.name} ({' '.join(tests)})")
            began = time.monotonic()
            found = run.main([LONG_RING, *tests])
            # A file of a changed name may have no long tests.
            code = max(code, 0 if found == pytest.ExitCode.NO_TESTS_COLLECTED else found)
            left -= (time.monotonic() - began) / 60
    return code


def changed_paths(since: str | None) -> list[str]:
    """The files that were changed since a commit; all if there is none."""
    if since is None:
        newest = _git("log", "-1", "--format=%ct")
        before = int(newest) - _HOURS * 3600
        since = _git("rev-list", "-1", f"--before={before}", "HEAD")
    return (_git("diff", "--name-only", since, "HEAD") if since else _git("ls-files")).splitlines()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what the command prints


if __name__ == "__main__":
    sys.exit(main())
