"""A backfill through a real scheduler, API server and task supervisor."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.copy_proof import prove_copy, provenance_of
from tests.e2e.process_mark import ProcessMark
from tests.e2e.shop import Shop

DAG = "hourly_window_copy"
HOURS = 3
PER_HOUR = 1_000
_BACKFILL_SECONDS = 400.0
#: Airflow's commands one after the other in one process, each as one argument.
_COMMANDS = """
import sys
from airflow.cli.cli_parser import get_parser
for words in sys.argv[1:]:
    arguments = get_parser().parse_args(words.split())
    arguments.func(arguments)
"""


pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_every_record_of_three_backfilled_hours_lands_in_exactly_one_window(
    shop: Shop, airflow_home: AirflowHome, marked: ProcessMark
) -> None:
    """The same Airflow then has four tasks that end in one moment."""
    first = shop.end - timedelta(hours=5)
    _create_backfill(airflow_home, first)
    home = replace(airflow_home, settings={**airflow_home.settings, "AIRFLOW__CORE__PARALLELISM": "4"})
    with AirflowStandalone(home) as airflow:
        # Not before: a scheduler that is there first starts tasks for which there is no API server yet.
        unpause = [sys.executable, "-m", "airflow", "dags", "unpause", "--yes", DAG]
        airflow_home.run(unpause, airflow_home.logs / "dags-unpause.log", timeout=120)
        runs = _finished_runs(airflow)
        assert len(runs) == HOURS
        results = [_xcom(airflow, run, "return_value") for run in runs]
        entries = [airflow.get(f"dags/{DAG}/dagRuns/{run}/taskInstances/copy/xcomEntries") for run in runs]
        buttons = [airflow.get(f"dags/{DAG}/dagRuns/{run}/taskInstances/copy/links") for run in runs]
        found = airflow.get(f"assets/events?source_dag_id={DAG}")["asset_events"]
        # Those of the DAG's own outlet.
        events = {event["source_run_id"]: event["extra"] for event in found if event["name"] == "orders_copy"}
        airflow.post(f"dags/{DAG}/clearTaskInstances", {"dry_run": False, "dag_run_id": runs[0], "only_failed": False})
        assert _finished_runs(airflow) == runs
        cleared = _xcom(airflow, runs[0], "return_value")
        after = airflow.get(f"assets/events?source_dag_id={DAG}")["asset_events"]
        events_of_clear = [event["name"] for event in after if event["id"] not in {e["id"] for e in found}]
        _check_that_all_end_well_in_one_moment(airflow, shop)
    with closing(sqlite3.connect(airflow_home.database)) as database:
        kept = database.execute(
            "SELECT expires_at FROM task_state_store WHERE key = 'kafka_spark_run' AND run_id LIKE 'backfill%'"
        ).fetchall()
    assert kept == [(None,)] * HOURS
    assert marked.alive() == []

    # Every record is in exactly one window, by its headers alone.
    target = shop.broker.consume("orders_copy")
    ours = {result["run_id"] for result in results}
    origins = [p for p in map(provenance_of, target) if p is not None and p.run_id in ours]
    landed = [(p.topic, p.partition, p.offset) for p in origins]
    assert len(ours) == HOURS
    assert sorted(landed) == sorted(shop.of_hours(first, HOURS))
    assert len(landed) == HOURS * PER_HOUR

    # So is it after a clear, which finds all of its hour, and announces nothing twice: its event is for the ledger.
    assert (cleared["run_id"], cleared["delivered_before"]) == (results[0]["run_id"], PER_HOUR)
    assert events_of_clear == ["kafka_spark_copies"]
    assert cleared["target_ranges"] == results[0]["target_ranges"]

    for hour, (run, result, stored, button) in enumerate(zip(runs, results, entries, buttons, strict=True)):
        proofs = prove_copy(result, {"orders": shop.orders}, target)
        assert all(p.holds for p in proofs)
        window = shop.of_hours(first + timedelta(hours=hour), 1)
        assert {(p.topic, p.partition, p.offset) for p in origins if p.run_id == result["run_id"]} == set(window)
        _check_result(result)
        # The Spark UI has ended with the job.
        assert [entry["key"] for entry in stored["xcom_entries"]] == ["return_value"]
        assert button["extra_links"] == {"Spark application": None}
        expected = {
            "run_id": result["run_id"],
            "records_written": PER_HOUR,
            "offset_ranges": ["{topic}:{partition}:{from_offset}:{until_offset}".format(**r) for r in result["ranges"]],
            "target_ranges": result["target_ranges"],
        }
        assert {name: events[run][name] for name in expected} == expected


def _check_that_all_end_well_in_one_moment(airflow: AirflowStandalone, shop: Shop) -> None:
    """Airflow fails a task, whatever its retries, if another one makes the same asset known in the same moment."""
    airflow.post("dags/together/dagRuns", {"logical_date": None})
    assert len(_finished_runs(airflow, "together", "manual")) == 1

    events = airflow.get("assets/events?source_dag_id=together&order_by=source_map_index")["asset_events"]
    in_kafka = f"kafka://{shop.broker.bootstrap_servers}/together"
    for name in ("kafka_spark_copies", in_kafka):
        assert [event["source_map_index"] for event in events if event["name"] == name] == [0, 1, 2, 3]
    assert len(events) == 2 * 4
    # A run of the DAG that is scheduled by the topic is for those that were there when Airflow made it.
    (woken, *_) = _finished_runs(airflow, "after_together", "asset_triggered")
    announced = _xcom(airflow, woken, "return_value", "after_together", "announced")
    written = [event["extra"]["target_ranges"] for event in events if event["name"] == in_kafka]
    assert announced
    assert all([r] in written for r in announced)


def _check_result(result: dict[str, Any]) -> None:
    """The form of the XCom that the documentation promises."""
    counts = {name: result[name] for name in ("version", "records_read", "records_written", "duplicates", "missing")}
    assert counts == {
        "version": 1,
        "records_read": PER_HOUR,
        "records_written": PER_HOUR,
        "duplicates": 0,
        "missing": 0,
    }
    assert [set(r) for r in result["ranges"]] == [
        {"topic", "partition", "from_offset", "until_offset", "records_read", "records_written"}
    ] * 4
    assert result["target_topics"] == ["orders_copy"]
    assert result["application_id"].startswith("local-")
    assert result["spark_version"]
    assert result["seconds"] > 0


def _create_backfill(home: AirflowHome, first: datetime) -> None:
    """Ask for the hours before the scheduler runs.

    Airflow reads in a savepoint and then writes; if another of its parts writes in between, SQLite calls the database
    locked at once, however long one would wait.
    """
    start, end = (moment.isoformat() for moment in (first, first + timedelta(hours=HOURS - 1)))
    create = f"backfill create --dag-id {DAG} --from-date {start} --to-date {end} --max-active-runs 2"
    home.run(
        [sys.executable, "-c", _COMMANDS, "dags reserialize", create], home.logs / "backfill-create.log", timeout=240
    )


def _finished_runs(airflow: AirflowStandalone, dag: str = DAG, kind: str = "backfill") -> list[str]:
    """Wait for the runs of a DAG and return their ids, in the order of their dates."""
    deadline = time.monotonic() + _BACKFILL_SECONDS
    states: dict[str, str] = {}
    while time.monotonic() < deadline and not (states and set(states.values()) <= {"success", "failed"}):
        time.sleep(1.0)
        found = airflow.get(f"dags/{dag}/dagRuns?order_by=logical_date&run_type={kind}")["dag_runs"]
        states = {run["dag_run_id"]: run["state"] for run in found}
    assert set(states.values()) == {"success"}, f"{states}\n{_task_logs(airflow, dag)}\n{airflow.tail()}"
    return list(states)


def _xcom(airflow: AirflowStandalone, run: str, key: str, dag: str = DAG, task: str = "copy") -> Any:
    path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}?stringify=false"
    return airflow.get(path)["value"]


def _task_logs(airflow: AirflowStandalone, dag: str) -> str:
    logs = sorted(airflow.home.logs.glob(f"dag_id={dag}/*/*/*.log"))
    return "\n".join(f"The end of {log}:\n{log.read_text(errors='replace')[-3000:]}" for log in logs[-3:])
