"""An executor that is killed, with the tests' own Spark: the short rings prove it here only."""

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

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE], ids=lambda d: d.name)
def test_a_lost_executor(
    delivery: Delivery,
    frail_broker: KafkaBroker,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
) -> None:
    """Exactly once Spark runs the task again, at least once the job fails; nothing is lost or doubled."""
    case = Case(Fault.EXECUTOR_KILLED, Kind.COPY, Layout.IN_ORDER, delivery, Master.EXECUTORS, Brokers.ONE)
    copy = new_copy(case, frail_broker, record_property)

    INJECTIONS[case.fault](Scene(case, frail_broker, copy, start, random.Random(7), tmp_path / "checkpoint"))
