"""The drivers of these tests, and the table of the faults that were tried: what was lost, duplicated and healed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.faults.cases import Fault
from tests.faults.drivers import Driver, Start

_COLUMNS = ("fault", "times", "failed", "lost", "duplicated", "healed by", "kinds", "layouts", "deliveries", "masters")
_FAULTS = [fault.value for fault in Fault]

#: What one draw has told.
Draw = dict[str, str]


@pytest.fixture(scope="package")
def frail_broker() -> Iterator[KafkaBroker]:
    """One that may be killed."""
    # It comes back when its earlier session has ended.
    with KafkaBroker(properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}) as broker:
        yield broker


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Submit a request."""
    drivers: list[Driver] = []

    def started(request: JobRequest, master: str) -> Driver:
        drivers.append(Driver(request, tmp_path / f"try-{len(drivers)}", master))
        return drivers[-1].start()

    yield started
    for driver in drivers:
        driver.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it as Markdown, after a run in its long form."""
    draws = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            told = {name: str(value) for name, value in report.user_properties}
            if report.when == "call" and "fault" in told:
                draws.append({**told, "failed": str(int(outcome == "failed"))})
    if len(draws) <= len(_FAULTS):
        return
    terminalreporter.write_sep("=", f"{len(draws)} faults")
    for row in (_COLUMNS, ["---"] * len(_COLUMNS), *_rows(draws)):
        terminalreporter.write_line(f"| {' | '.join(row)} |")


def _rows(draws: Sequence[Draw]) -> Iterator[Sequence[str]]:
    ordered = sorted(draws, key=lambda draw: _FAULTS.index(draw["fault"]))
    for fault, group in groupby(ordered, key=lambda draw: draw["fault"]):
        of_fault = list(group)
        sums = [_sum(of_fault, name) for name in ("failed", "lost", "duplicated")]
        values = [_values(of_fault, name) for name in ("healed by", "kind", "layout", "delivery", "master")]
        yield [fault, str(len(of_fault)), *sums, *values]


def _sum(draws: Sequence[Draw], name: str) -> str:
    return str(sum(int(draw.get(name, 0)) for draw in draws))


def _values(draws: Sequence[Draw], name: str) -> str:
    """Each value and how often it occurred."""
    counts = Counter(draw[name] for draw in draws if name in draw)
    return ", ".join(f"{value} ({count})" for value, count in sorted(counts.items()))
