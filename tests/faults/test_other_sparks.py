"""Executors and drivers that are killed, on other Sparks than that of the tests: nothing is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.faults.cases import Brokers, Case, Delivery, Fault, Kind, Layout, Master
from tests.faults.drivers import Start
from tests.faults.injections import INJECTIONS
from tests.faults.scene import Scene
from tests.faults.slow_copy import new_copy
from tests.services.other_spark import OTHER_SPARKS, spark_home_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1800)]

_CASES = (
    Case(
        Fault.EXECUTOR_KILLED,
        Kind.REPLAY,
        Layout.MANY_RANGES,
        Delivery.EXACTLY_ONCE,
        Master.EXECUTORS,
        Brokers.ONE,
    ),
    Case(
        Fault.JVM_KILLED,
        Kind.STREAM,
        Layout.IN_ORDER,
        Delivery.EXACTLY_ONCE,
        Master.LOCAL,
        Brokers.ONE,
    ),
)


@pytest.mark.parametrize("version", OTHER_SPARKS)
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.fault.name)
def test_a_fault(
    version: str,
    case: Case,
    frail_broker: KafkaBroker,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(spark_home_of(version)))
    copy = new_copy(case, frail_broker, record_property)
    chance = random.Random(f"{version}-{case}")

    INJECTIONS[case.fault](Scene(case, frail_broker, copy, start, chance, tmp_path / "checkpoint"))
