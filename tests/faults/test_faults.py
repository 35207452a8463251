"""Whatever goes wrong while a copy runs: when a try is green, each record is there once, as it was, in its order.

By default draws of the faults that ``test_killed.py`` does not try; ``make faults`` tries all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from tests.draws import SEED, draws
from tests.faults.cases import Brokers, draw
from tests.faults.drivers import Start
from tests.faults.injections import INJECTIONS
from tests.faults.scene import Scene
from tests.faults.slow_copy import new_copy

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.fault, pytest.mark.long, pytest.mark.timeout(1800)]

_SHORT = (0, 5, 7, 9, 10, 12, 13, 15)
NUMBERS = draws(0) or _SHORT


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number}-{draw(SEED, number).fault.name}")
def test_a_fault_drawn_by_the_seed(
    number: int,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    start: Start,
    tmp_path: Path,
) -> None:
    """A try that ends well has lost no record and duplicated none; every other one names its failure. At least once by
    batches, each try may have written a record.
    """
    case = draw(SEED, number)
    for name in ("fault", "kind", "layout", "delivery", "master", "brokers"):
        record_property(name, getattr(case, name).value)
    # One that no draw needs is not started.
    brokers: KafkaBroker | KafkaCluster = request.getfixturevalue(
        "frail_broker" if case.brokers is Brokers.ONE else "kafka_cluster"
    )
    copy = new_copy(case, brokers, record_property)
    chance = random.Random(f"{SEED}-{number}-chance")
    scene = Scene(case, brokers, copy, start, chance, tmp_path / "checkpoint")

    INJECTIONS[case.fault](scene)
