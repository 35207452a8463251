"""Asset events in Airflow's own database: only a delivery triggers DAGs that are scheduled by an outlet."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

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
    """Also where an outlet is an alias, a reference, an unknown one, or no asset at all."""
    left = dag_runs.run("outlets", airflow_home.logs / "outlets.log")

    with closing(sqlite3.connect(airflow_home.database)) as database:
        events = [(task, name, uri, json.loads(extra)) for task, name, uri, extra in database.execute(EVENTS)]
    result = left["tasks"]["copy"]["-1"]["xcom"]["return_value"]
    extra = {
        "run_id": result["run_id"],
        "records_written": 10,
        "offset_ranges": ["orders:0:0:10"],
        "target_ranges": result["target_ranges"],
    }
    in_kafka = f"kafka://{shop.broker.bootstrap_servers}/orders_replay"
    assert sorted(events, key=str) == [
        ("copy", "copied", "copied", extra),
        ("copy", in_kafka, in_kafka, extra),
        ("copy", "planned", "planned", extra),
    ]
    assert "AssetNameRef(name='unknown') gets no asset event" in (airflow_home.logs / "outlets.log").read_text()
