"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.timestamp_reached`, on snapshots without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.timestamp_reached import TimestampReached
from tests.core.conditions.snapshots import NOW, snapshot, state

HOUR = NOW - 3_600_000


def reached(held: BrokerSnapshot, **parameters: Any) -> ConditionResult:
    return TimestampReached.parse(**{"topics": ["orders"], "timestamp": HOUR, **parameters}).check(held, NOW)


def test_a_timestamp_is_reached_when_every_partition_has_a_record_at_or_after_it() -> None:
    partitions = {"orders": [state(0, 20), state(0, 30)]}

    some = reached(snapshot(partitions, first_at={("orders", 0, HOUR): 15, ("orders", 1, HOUR): None}))
    assert not some.met
    assert "orders[1]" in some.text

    every = reached(snapshot(partitions, first_at={("orders", 0, HOUR): 15, ("orders", 1, HOUR): 0}))
    assert every.met
    assert every.value == {"orders": {"0": 15, "1": 0}}


@pytest.mark.parametrize(
    ("newest", "idle_after", "met"),
    [
        pytest.param(HOUR - 1, 3_600, True, id="older-than-the-moment-counts-from-the-moment"),
        pytest.param(HOUR - 1, 3_601, False, id="not-yet-since-the-moment"),
        pytest.param(None, 3_600, True, id="empty-counts-from-the-moment"),
        pytest.param(None, 3_601, False, id="empty-and-not-yet"),
        pytest.param(HOUR - 1, None, False, id="without-idle-after-it-is-waited-for"),
    ],
)
def test_an_idle_partition_counts_as_complete(newest: int | None, idle_after: int | None, met: bool) -> None:
    held = snapshot(
        {"orders": [state(0, 20), state(0, 30)]},
        first_at={("orders", 0, HOUR): 15, ("orders", 1, HOUR): None},
        newest={("orders", 0): NOW, ("orders", 1): newest},
    )

    result = reached(held, idle_after=idle_after)

    assert result.met is met
    if met:
        assert result.value == {"orders": {"0": 15, "1": 30}}
        (warning,) = result.warnings
        assert "orders[1]" in warning


def test_an_open_transaction_before_the_moment_is_waited_for() -> None:
    """What it holds may still become part of the window."""
    at = {("orders", 0, HOUR): 15}

    assert not reached(snapshot({"orders": [state(0, 20, stable=12)]}, first_at=at)).met
    assert reached(snapshot({"orders": [state(0, 20, stable=15)]}, first_at=at)).met
    assert reached(snapshot({"orders": [state(0, 20, stable=12)]}, first_at=at), isolation_level="read_uncommitted").met
    idle = snapshot(
        {"orders": [state(0, 20, stable=12)]}, first_at={("orders", 0, HOUR): None}, newest={("orders", 0): 0}
    )
    assert not reached(idle, idle_after=1).met
