"""What the README prints, for real."""

from __future__ import annotations

import re

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns
from tests.e2e.conftest import GETTING_STARTED, printed_dag
from tests.e2e.shop import Shop


def test_the_printed_dag_is_short() -> None:
    """A DAG that a reader takes in at one glance."""
    assert len(printed_dag().strip().splitlines()) <= 20


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.airflow
def test_the_printed_dag_runs_as_printed(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """It copies what it says, with the keys in its result that the first page of the documentation shows."""
    left = dag_runs.run("replay_last_night", airflow_home.logs / "readme.log")

    result = left["tasks"]["replay"]["-1"]["xcom"]["return_value"]
    assert [(r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]] == [
        (0, 100, 200),
        (1, 0, 50),
    ]
    printed = re.search(r"```json\n(.+?)```", GETTING_STARTED.read_text(), re.DOTALL)
    assert printed is not None
    assert set(re.findall(r'"(\w+)": ', printed[1])) - set(result) == {
        "topic",
        "partition",
        "from_offset",
        "until_offset",
    }
    kept = {("orders", r.partition, r.offset): r for r in shop.orders}
    copied = [r for r in shop.broker.consume("orders_replay") if result["run_id"].encode() in (r.headers[-1][1] or b"")]
    assert (
        len(copied)
        == result["records_written"]
        == sum((("orders", p, o) in kept) for p, a, b in ((0, 100, 200), (1, 0, 50)) for o in range(a, b))
    )
