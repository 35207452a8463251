"""DAGs of the README and of the documentation by ``dag.test()`` with a broker and Spark.

What only this proves: that what a reader copies runs as it is printed, what OpenLineage and the provider's own
``SparkSubmitOperator`` make of it, and what asset events and the ledger are in Airflow's own database.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.core.ledger.entry import Delivery
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from tests.e2e.conftest import GETTING_STARTED, NEW_ORDERS, printed_dag, produce_orders
from tests.e2e.shop import Shop
from tests.services.dag_runs import DagRuns

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]


def _result(left: dict[str, Any], task: str) -> dict[str, Any]:
    value: dict[str, Any] = left["tasks"][task]["-1"]["xcom"]["return_value"]
    return value


@pytest.mark.long
def test_the_printed_dag_runs_as_printed(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """It is short, and copies what it says, with the keys in its result that the first page of the documentation shows.
    Another DAG audits the newest result of its task. OpenLineage gets topics, ranges and records.
    """
    assert len(printed_dag().strip().splitlines()) <= 20
    result = _result(dag_runs.run("replay_last_night", airflow_home.logs / "readme.log"), "replay")
    audit = _result(dag_runs.run("audit_of_another_dag", airflow_home.logs / "audit_of_another_dag.log"), "audit")
    with pytest.raises(LocalServiceError, match=r"AuditInputError: .* must name a task that has returned a result"):
        dag_runs.run("audit_of_nothing", airflow_home.logs / "audit_of_nothing.log")

    asked = [("orders", 0, 100, 200), ("orders", 1, 0, 50)]
    assert [(r["topic"], r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]] == asked
    printed = re.search(r"```json\n(.+?)```", GETTING_STARTED.read_text(), re.DOTALL)
    assert printed is not None
    of_ranges = {"topic", "partition", "from_offset", "until_offset"}
    assert set(re.findall(r'"(\w+)": ', printed[1])) - set(result) == of_ranges
    kept = {("orders", r.partition, r.offset) for r in shop.orders}
    copied = [r for r in shop.broker.consume("orders_replay") if result["run_id"].encode() in (r.headers[-1][1] or b"")]
    wanted = kept & {(topic, p, offset) for topic, p, start, end in asked for offset in range(start, end)}
    assert len(copied) == result["records_written"] == len(wanted)
    assert (audit["run_ids"], audit["once"], audit["state"]) == ([result["run_id"]], len(wanted), "complete")

    (event,) = (
        e
        for e in map(json.loads, (airflow_home.logs / "lineage.json").read_text().splitlines())
        if e["eventType"] == "COMPLETE" and e["job"]["name"].startswith("replay_last_night.")
    )
    namespace = f"kafka://{shop.broker.bootstrap_servers.split(',')[0]}"
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == (namespace, "orders")
    assert (written["namespace"], written["name"]) == (namespace, "orders_replay")
    partitions = read["inputFacets"]["subset"]["inputCondition"]["partitions"]
    assert [p["dimensions"] for p in partitions] == [
        {name: r[name] for name in ("partition", "from_offset", "until_offset")} for r in result["ranges"]
    ]
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (result["records_written"], result["bytes_written"])
    assert statistics["size"] > 0


@pytest.mark.long
def test_a_stream_goes_on_where_the_run_before_stopped(
    shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns
) -> None:
    """The first run copies everything, the second what came; lag monitors see how far it is."""
    before, all_orders = len(shop.broker.consume("orders_copy")), len(shop.orders)
    results = []
    for number in range(2):
        if number == 1:
            produce_orders(shop)
        left = dag_runs.run("hourly_catch_up", airflow_home.logs / f"hourly_catch_up_{number}.log")
        results.append(_result(left, "catch_up")["records_written"])
    assert results == [all_orders, NEW_ORDERS]
    assert len(shop.broker.consume("orders_copy")) == before + all_orders + NEW_ORDERS
    ends = {number: end for number, (_, end) in shop.broker.offsets("orders").items()}
    assert shop.broker.committed("copy-of-orders", "orders") == ends


@pytest.mark.long
def test_another_operator_runs_the_job(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """``docs/how-to/run-by-another-operator.md``: it copies, proves it, and nothing of the job is left."""
    left = dag_runs.run("run_by_spark_submit", airflow_home.logs / "run_by_spark_submit.log")

    result = _result(left, "copy")
    assert (result["records_read"], result["records_written"]) == (len(shop.orders), len(shop.orders))
    assert sum(int(r["until_offset"]) - int(r["from_offset"]) for r in result["ranges"]) == len(shop.orders)
    assert list((airflow_home.scratch / "jobs").glob("*/*")) == []


@pytest.mark.long
def test_a_retry_of_a_mapped_task_has_the_first_parameters(airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """In a mapped group, whose item is of another task, and with an item of its own that is a template."""
    tasks = dag_runs.run("mapped_retries", airflow_home.logs / "mapped_retries.log")["tasks"]

    def copied(task: str) -> list[list[str]]:
        results = [tasks[task][index]["xcom"]["return_value"] for index in ("0", "1")]
        return [[f"{r['partition']}:{r['from_offset']}:{r['until_offset']}" for r in x["ranges"]] for x in results]

    assert copied("group.copy") == [["0:0:10", "1:0:11"], ["0:100:110", "1:0:11"]]
    assert copied("copy") == [["1:100:111"], ["1:200:211"]]


EVENTS = """
SELECT source_task_id, name, uri, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id
WHERE source_dag_id = 'outlets'
"""


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


@pytest.mark.long
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


@pytest.mark.long
def test_an_unknown_dag_is_named_and_a_failed_run_does_not_affect_the_next(
    airflow_home: AirflowHome, dag_runs: DagRuns
) -> None:
    for dag_id, says in (("no_such_dag", "There is no DAG 'no_such_dag'"), ("fails", "ZeroDivisionError")):
        with pytest.raises(LocalServiceError, match=f"{dag_id!r} must succeed; got exit code 1.*") as raised:
            dag_runs.run(dag_id, airflow_home.logs / f"{dag_id}.log")
        assert says in str(raised.value)
    assert dag_runs.run("plans", airflow_home.logs / "plans.log")["state"] == "success"


def test_outside_of_with_nothing_runs(airflow_home: AirflowHome) -> None:
    with pytest.raises(LocalServiceError, match="DagRuns must run"):
        DagRuns(airflow_home).run("plans", airflow_home.logs / "none.log")
