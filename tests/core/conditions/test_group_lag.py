"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.group_lag`, on snapshots without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.group_lag import GroupLag
from airflow_provider_kafka_spark.core.errors import PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from tests.core.conditions.snapshots import NOW, snapshot, state

ORDERS_0 = TopicPartition("orders", 0)


def lag(held: BrokerSnapshot, **parameters: Any) -> ConditionResult:
    return GroupLag.parse(**{"topics": ["orders"], "group_id": "copy", **parameters}).check(held, NOW)


@pytest.mark.parametrize(
    ("max_lag", "per_partition", "met"),
    [(39, False, False), (40, False, True), (29, True, False), (30, True, True)],
)
def test_lag_is_judged_in_all_or_in_every_partition(max_lag: int, per_partition: bool, met: bool) -> None:
    held = snapshot({"orders": [state(0, 20), state(5, 35)]}, committed={"copy": {ORDERS_0: 10}})

    result = lag(held, max_lag=max_lag, per_partition=per_partition)

    assert result.met is met
    assert result.value == {"orders": {"0": 10, "1": 30}}


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        pytest.param(20, 0, id="at-the-end"),
        pytest.param(19, 0, id="behind-the-last-stable-offset"),
        pytest.param(2, 10, id="aged-out-counts-from-the-log-start"),
        pytest.param(12, 3, id="in-between"),
    ],
)
def test_lag_counts_what_can_be_read(committed: int, expected: int) -> None:
    held = snapshot({"orders": [state(5, 20, stable=15)]}, committed={"copy": {ORDERS_0: committed}})

    assert lag(held, max_lag=0).value == {"orders": {"0": expected}}


def test_a_commit_beyond_the_end_is_an_error() -> None:
    with pytest.raises(PlanError, match="recreated"):
        lag(snapshot({"orders": [state(0, 20)]}, committed={"copy": {ORDERS_0: 21}}), max_lag=0)
