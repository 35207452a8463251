"""Asset events in Airflow's own database: only a delivery triggers DAGs that are scheduled by an outlet."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from airflow_provider_kafka_spark.core.ledger import Delivery
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns
from tests.e2e.shop import Shop

EVENTS = """
SELECT source_task_id, name, uri, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id
WHERE source_dag_id = 'outlets'
"""


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.airflow
def test_only_a_delivery_makes_an_event(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """Also where an outlet is an alias, which stands for the topic, a reference, an unknown one, or no asset at all."""
    left = dag_runs.run("outlets", airflow_home.logs / "outlets.log")

    with closing(sqlite3.connect(airflow_home.database)) as database:
        events = [(task, name, uri, json.loads(extra)) for task, name, uri, extra in database.execute(EVENTS)]
    result = left["tasks"]["copy"]["-1"]["xcom"]["return_value"]
    in_kafka = f"kafka://{shop.broker.bootstrap_servers}/orders_replay"
    assert sorted((task, name, uri) for task, name, uri, _ in events) == [
        ("copy", "copied", "copied"),
        ("copy", in_kafka, in_kafka),
        ("copy", COPIES.name, COPIES.uri),
        ("copy", "planned", "planned"),
    ]
    for *_, extra in events:
        assert (extra["run_id"], extra["records_written"]) == (result["run_id"], 10)
        assert (extra["offset_ranges"], extra["target_ranges"]) == (["orders:0:0:10"], result["target_ranges"])
        assert Delivery.parse(extra) is not None
    assert "AssetNameRef(name='unknown') gets no asset event" in (airflow_home.logs / "outlets.log").read_text()
