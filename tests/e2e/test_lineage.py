"""What OpenLineage gets of a real run, by the file transport of Airflow's provider."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns
from tests.e2e.shop import Shop


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.airflow
def test_a_copy_has_its_topics_ranges_and_records(shop: Shop, airflow_home: AirflowHome, tmp_path: Path) -> None:
    events, hour = tmp_path / "events.json", shop.end - timedelta(hours=8)
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    settings = {**airflow_home.settings, "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
    with DagRuns(replace(airflow_home, settings=settings)) as runs:
        log, end = airflow_home.logs / "lineage.log", (hour + timedelta(hours=1)).isoformat()
        run = runs.run("hourly_window_copy", log, logical_date=end)

    (result,) = (task["-1"]["xcom"]["return_value"] for task in run["tasks"].values())
    (event,) = (
        e
        for e in map(json.loads, events.read_text().splitlines())
        if e["eventType"] == "COMPLETE" and e["job"]["name"].startswith("hourly_window_copy.")
    )
    server = shop.broker.bootstrap_servers.split(",")[0]
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == (f"kafka://{server}", "orders")
    assert (written["namespace"], written["name"]) == (f"kafka://{server}", "orders_copy")
    partitions = read["inputFacets"]["subset"]["inputCondition"]["partitions"]
    assert [p["dimensions"] for p in partitions] == [
        {name: r[name] for name in ("partition", "from_offset", "until_offset")} for r in result["ranges"]
    ]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == result["records_written"] > 0
    assert written["outputFacets"]["outputStatistics"]["size"] == result["bytes_written"] > 0
