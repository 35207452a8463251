"""Drivers that are killed while they pass record batches on: the next try of the stream has all of them."""

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


@pytest.mark.parametrize("delivery", [Delivery.BATCHES, Delivery.BATCHES_AT_LEAST_ONCE], ids=lambda value: value.name)
def test_a_stream_whose_driver_is_killed(
    delivery: Delivery,
    frail_broker: KafkaBroker,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
) -> None:
    """In the middle of a transaction, of any of its batches."""
    case = Case(Fault.DRIVER_KILLED, Kind.STREAM, Layout.IN_ORDER, delivery, Master.LOCAL, Brokers.ONE)
    copy = new_copy(case, frail_broker, record_property)

    INJECTIONS[case.fault](
        Scene(case, frail_broker, copy, start, random.Random(delivery.value), tmp_path / "checkpoint")
    )
