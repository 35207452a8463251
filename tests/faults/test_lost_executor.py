"""An executor that is killed while a copy runs at least once: the short rings prove it here only."""

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


def test_a_lost_executor(
    frail_broker: KafkaBroker,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
) -> None:
    """The job fails, and the retry writes only what is missing."""
    case = Case(
        Fault.EXECUTOR_KILLED, Kind.COPY, Layout.IN_ORDER, Delivery.AT_LEAST_ONCE, Master.EXECUTORS, Brokers.ONE
    )
    copy = new_copy(case, frail_broker, record_property)

    INJECTIONS[case.fault](Scene(case, frail_broker, copy, start, random.Random(7), tmp_path / "checkpoint"))
