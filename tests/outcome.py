"""A pytest plugin: where a run spent its time, what failed in it, and what a test that hung was waiting for."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.rings import LONG_RING, QUICK_RING, WHOLE_RING, ring_of

#: The file that gets the failures of a run, as JSON.
OUTCOME_VARIABLE = "TESTS_OUTCOME"
_SLOWEST, _RING = 10, "ring"


def pytest_configure(config: pytest.Config) -> None:
    # A process of pytest-xdist reports to the one that started it.
    if not hasattr(config, "workerinput"):
        in_groups = config.getoption("dist", "no") == "loadgroup"
        config.pluginmanager.register(_Outcome(config, in_groups=in_groups), "outcome")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A report's keywords have the names of folders too, such as ``spark``."""
    item.user_properties.append((_RING, ring_of({mark.name for mark in item.iter_markers()})))


@pytest.hookimpl(hookwrapper=True)
def pytest_timeout_set_timer(settings: Any) -> Iterator[None]:
    """A test that reaches its time limit prints its child processes, as pytest-timeout prints the stacks of threads."""
    yield
    if settings.timeout and settings.method == "signal":
        at_limit: Any = signal.getsignal(signal.SIGALRM)

        def with_children(*arguments: Any) -> None:
            sys.stderr.write(f"Child processes at the time limit:\n{_children()}\n")
            at_limit(*arguments)

        signal.signal(signal.SIGALRM, with_children)


def _children() -> str:
    lines = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            command = process.cmdline()
            lines.append(f"{process.pid} {process.status()} {' '.join(command)[:300]}")
            if command and Path(command[0]).name == "java":
                # A JVM writes the stacks of its threads to its output, and runs on.
                process.send_signal(signal.SIGQUIT)
    return "\n".join(lines) or "none"


class _Outcome:
    """What the reports of one run say.

    :param in_groups: pytest-xdist appends ``@GROUP`` to the name of a test that has a group.
    """

    def __init__(self, config: pytest.Config, *, in_groups: bool) -> None:
        self._config = config
        self._in_groups = in_groups
        self.seconds_of_files: Counter[str] = Counter()
        self.seconds_of_rings: Counter[str] = Counter()
        self.tests_of_rings: Counter[str] = Counter()
        self.failures: dict[str, dict[str, str]] = {}

    def _terminal(self) -> pytest.TerminalReporter:
        found = self._config.pluginmanager.get_plugin("terminalreporter")
        assert found is not None
        return found  # type: ignore[no-any-return]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A report of a process that died has none.
        ring = str(dict(report.user_properties).get(_RING, WHOLE_RING))
        self.seconds_of_files[report.nodeid.partition("::")[0]] += report.duration
        self.seconds_of_rings[ring] += report.duration
        self.tests_of_rings[ring] += report.when == "call"
        if report.failed:
            has_group = self._in_groups and "xdist_group" in report.keywords
            name = report.nodeid.rpartition("@")[0] if has_group else report.nodeid
            if name not in self.failures:
                # A run that is interrupted has no summary.
                self._terminal().ensure_newline()
                self._terminal().write_line(f"FAILED {name}")
            first = self.failures.setdefault(name, {"ring": ring, "text": ""})
            first["text"] += f"{report.when} of {name}\n{report.longreprtext}\n"
            first["text"] += "".join(f"--- {title}\n{text}\n" for title, text in report.sections)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if path := os.environ.get(OUTCOME_VARIABLE):
            Path(path).write_text(json.dumps(self.failures))
        if sum(self.tests_of_rings.values()) < _SLOWEST:
            return
        terminalreporter.write_sep("=", "seconds of tests, in all processes")
        for file, seconds in self.seconds_of_files.most_common(_SLOWEST):
            terminalreporter.write_line(f"{seconds:8.1f}  {file}")
        for ring in (QUICK_RING, WHOLE_RING, LONG_RING):
            if count := self.tests_of_rings[ring]:
                terminalreporter.write_line(f"{self.seconds_of_rings[ring]:8.1f}  {count} tests of the {ring} ring")
