"""The examples that the demo does not run, for real: ``dag.test()``, broker and Spark."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.copy_proof import prove_copy
from tests.e2e.shop import Shop

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]


def test_each_expanded_replay_copies_its_own_ranges(shop: Shop, airflow_home: AirflowHome) -> None:
    left = airflow_home.test_dag("replay_expanded", airflow_home.logs / "replay_expanded.log")

    results = [instance["xcom"]["return_value"] for _, instance in sorted(left["tasks"]["replay"].items())]
    target = shop.broker.consume("orders_replay")
    proofs = [prove_copy(result, {"orders": shop.orders}, target) for result in results]
    assert [[(str(p.source), p.expected) for p in proof] for proof in proofs] == [
        [("orders[0]", 10), ("orders[1]", 10)],
        [("orders[2]", 15)],
    ]
    assert all(p.holds for proof in proofs for p in proof)
    assert len({result["run_id"] for result in results}) == 2


def test_what_was_planned_and_approved_is_what_is_copied(shop: Shop, airflow_home: AirflowHome) -> None:
    left = airflow_home.test_dag("plan_before_copy", airflow_home.logs / "plan_before_copy.log")

    plan, copy = (left["tasks"][task]["-1"]["xcom"]["return_value"] for task in ("plan", "copy"))
    assert plan["planned_records"] == len(shop.orders)
    assert (copy["records_read"], copy["records_written"]) == (len(shop.orders), len(shop.orders))
    proofs = prove_copy(copy, {"orders": shop.orders}, shop.broker.consume("orders_copy"))
    assert len(proofs) == 4
    assert all(p.holds for p in proofs)


def test_a_stream_goes_on_where_the_run_before_stopped(shop: Shop, airflow_home: AirflowHome) -> None:
    """The first run copies everything, the second finds nothing new, and lag monitors see how far it is."""
    before = len(shop.broker.consume("orders_copy"))
    results = []
    for number in range(2):
        left = airflow_home.test_dag("hourly_catch_up", airflow_home.logs / f"hourly_catch_up_{number}.log")
        results.append(left["tasks"]["catch_up"]["-1"]["xcom"]["return_value"])
    assert [result["records_written"] for result in results] == [len(shop.orders), 0]
    assert len(shop.broker.consume("orders_copy")) == before + len(shop.orders)
    ends = {number: end for number, (_, end) in shop.broker.offsets("orders").items()}
    assert shop.broker.committed("copy-of-orders", "orders") == ends
