"""Processes that are killed while a copy runs: nothing is lost or duplicated. In short an executor, in both deliveries;
in full also the driver with its open transactions, other Sparks, and batches that are passed on.
"""

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

OWN = None
EXACTLY_ONCE = Delivery.EXACTLY_ONCE
_ON_EXECUTORS = Case(
    Fault.EXECUTOR_KILLED, Kind.REPLAY, Layout.MANY_RANGES, EXACTLY_ONCE, Master.EXECUTORS, Brokers.ONE
)


def _of_stream(fault: Fault, delivery: Delivery = EXACTLY_ONCE) -> Case:
    return Case(fault, Kind.STREAM, Layout.IN_ORDER, delivery, Master.LOCAL, Brokers.ONE)


#: The job fails, and the retry writes only what is missing.
_AT_LEAST_ONCE = _ON_EXECUTORS._replace(kind=Kind.COPY, layout=Layout.IN_ORDER, delivery=Delivery.AT_LEAST_ONCE)
#: Each Spark task has ten pieces.
_OF_BUNDLES = _ON_EXECUTORS._replace(layout=Layout.BUNDLES)
_SHORT = ((OWN, _ON_EXECUTORS), (OWN, _OF_BUNDLES))
_LONG = (
    (OWN, _AT_LEAST_ONCE),
    (OWN, _of_stream(Fault.DRIVER_KILLED, Delivery.BATCHES)),
    (OWN, _of_stream(Fault.DRIVER_KILLED, Delivery.BATCHES_AT_LEAST_ONCE)),
    *((version, _ON_EXECUTORS) for version in OTHER_SPARKS),
    *((version, _of_stream(Fault.JVM_KILLED)) for version in OTHER_SPARKS),
)


def _name(value: object) -> str:
    return f"{value.fault.name}-{value.delivery.name}" if isinstance(value, Case) else str(value or "own")


@pytest.mark.parametrize(
    ("version", "case"), [*_SHORT, *(pytest.param(*case, marks=pytest.mark.long) for case in _LONG)], ids=_name
)
def test_a_process_is_killed(
    version: str | None,
    case: Case,
    frail_broker: KafkaBroker,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version is not OWN:
        monkeypatch.setenv("SPARK_HOME", str(spark_home_of(version)))
    copy = new_copy(case, frail_broker, record_property)
    chance = random.Random(f"{version}-{case}")

    INJECTIONS[case.fault](Scene(case, frail_broker, copy, start, chance, tmp_path / "checkpoint"))
