"""What past runs of a real Airflow have left uncovered: as a DAG replays it, and as the command lists it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns
from tests.e2e.shop import Shop


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.airflow
def test_what_no_window_has_copied_is_replayed_once(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """The second of three hours was never run. What other tests have copied is older than what the DAG looks at."""
    with closing(sqlite3.connect(airflow_home.database, timeout=60)) as database, database:
        database.execute("UPDATE asset_event SET timestamp = '2020-01-01 00:00:00.000000'")
    hours = [shop.end - timedelta(hours=ago) for ago in (12, 11, 10)]
    for hour in (hours[0], hours[2]):
        end = (hour + timedelta(hours=1)).isoformat()
        dag_runs.run("hourly_window_copy", airflow_home.logs / f"hourly-{hour:%H}.log", logical_date=end)

    replayed, again = (
        dag_runs.run("replay_gaps", airflow_home.logs / f"gaps-{number}.log")["tasks"]["replay"]["-1"]
        for number in range(2)
    )

    result = replayed["xcom"]["return_value"]
    ranges = [(r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]]
    found = {("orders", partition, n) for partition, start, end in ranges for n in range(start, end)}
    assert found == set(shop.of_hours(hours[1], 1))
    assert result["records_written"] == len(found)
    assert again["state"] == "skipped"
