"""The drivers of these tests, and the table of the faults that were tried: what was lost, doubled, what healed it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.protocol import JobRequest
from tests.faults.drivers import Driver, Start

_LOST, _DOUBLED, _HEALED_BY = "lost", "doubled", "healed by"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an attempt of a request."""
    drivers: list[Driver] = []

    def started(request: JobRequest, *, executors: bool = False) -> Driver:
        drivers.append(Driver(request, tmp_path / f"try-{len(drivers)}", executors))
        return drivers[-1].start()

    yield started
    for driver in drivers:
        driver.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it as Markdown, after a run in its long form."""
    times, lost, doubled = Counter[str](), Counter[str](), Counter[str]()
    healed_by: dict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        properties = dict(report.user_properties)
        if report.when != "call" or _HEALED_BY not in properties:
            continue
        fault = report.location[2].partition("[")[0].removeprefix("test_").replace("_", " ")
        times[fault] += 1
        lost[fault] += int(str(properties[_LOST]))
        doubled[fault] += int(str(properties[_DOUBLED]))
        healed_by[fault].add(str(properties[_HEALED_BY]))
    if times.total() <= len(times):
        return
    terminalreporter.write_sep("=", f"{times.total()} faults")
    terminalreporter.write_line("| fault | times | lost | doubled | healed by |\n| --- | --- | --- | --- | --- |")
    for fault in times:
        healers = ", ".join(sorted(healed_by[fault]))
        terminalreporter.write_line(f"| {fault} | {times[fault]} | {lost[fault]} | {doubled[fault]} | {healers} |")
