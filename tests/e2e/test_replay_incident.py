"""The form of ``dags/replay_incident.py``, as a person fills it in and approves the plan: by Airflow's REST API."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.copy_proof import provenance_of
from tests.e2e.shop import Shop

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

DAG = "replay_incident"
WAIT_SECONDS = 240
#: As a person would take at least, and the scheduler of a busy machine.
_READING_SECONDS = 10.0


class Incident:
    """A run of the DAG."""

    def __init__(self, airflow: AirflowStandalone, **form: Any) -> None:
        self.airflow = airflow
        self.run_id = airflow.post(f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": form})["dag_run_id"]
        self._path = f"dags/{DAG}/dagRuns/{self.run_id}/taskInstances"

    def states(self) -> dict[str, str | None]:
        return {ti["task_id"]: ti["state"] for ti in self.airflow.get(self._path)["task_instances"]}

    def wait_for(self, task: str, *expected: str) -> str:
        deadline, states = time.monotonic() + WAIT_SECONDS, dict[str, str | None]()
        while time.monotonic() < deadline:
            states = self.states()
            found = states[task]
            if found in expected:
                return found
            assert "failed" not in states.values() or "failed" in expected, f"{states}\n{self.airflow.tail()}"
            time.sleep(1.0)
        raise AssertionError(f"{task} must become {expected}; {states}\n{self.airflow.tail()}")

    def question(self) -> str:
        """What the person sees."""
        self.wait_for("approve", "awaiting_input", "deferred")
        # Airflow 3.3.2 fails a task whose answer comes before its scheduler knows that the process has ended.
        time.sleep(_READING_SECONDS)
        body: str = self.airflow.get(f"{self._path}/approve/-1/hitlDetails")["body"]
        return body

    def answer(self, choice: str) -> None:
        self.airflow.patch(f"{self._path}/approve/-1/hitlDetails", {"chosen_options": [choice]})

    def result(self, task: str) -> dict[str, Any]:
        path = f"{self._path}/{task}/xcomEntries/return_value?stringify=false"
        value: dict[str, Any] = self.airflow.get(path)["value"]
        return value


def unpause(airflow: AirflowStandalone) -> None:
    """As soon as Airflow has read the DAG's file."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not airflow.get(f"dags?dag_id_pattern={DAG}")["dags"]:
        assert time.monotonic() < deadline, airflow.tail()
        time.sleep(1.0)
    airflow.patch(f"dags/{DAG}", {"is_paused": False})


@pytest.mark.timeout(900)
def test_a_form_a_plan_an_approval_and_exactly_that_replay(shop: Shop, airflow_home: AirflowHome) -> None:
    start = shop.end - timedelta(hours=3)
    window = {"start": start.isoformat(), "end": (start + timedelta(hours=1)).isoformat()}
    with AirflowStandalone(airflow_home) as airflow:
        unpause(airflow)
        by_window = Incident(airflow, **window, where="offset % 2 = 0", pace=5000)
        by_ranges = Incident(airflow, ranges=["orders:0:10:20", "orders:1:0:5"])
        rejected = Incident(airflow, **window)
        nothing = Incident(airflow, end=window["end"])
        seen = by_window.question()
        seen_ranges = by_ranges.question()
        rejected.question()
        assert nothing.wait_for("plan_window", "failed") == "failed"
        before = len(shop.broker.consume("orders_replay"))
        for incident, choice in ((by_window, "Approve"), (by_ranges, "Approve"), (rejected, "Reject")):
            incident.answer(choice)
        for incident in (by_window, by_ranges):
            incident.wait_for("audit", "success")
        rejected.wait_for("audit", "skipped")
        plan, of_window = by_window.result("plan_window"), by_window.result("replay")
        of_ranges = by_ranges.result("replay")
        audited = [incident.result("audit") for incident in (by_window, by_ranges)]

    records = shop.of_hours(start, 1)
    assert [result["once"] for result in audited] == [of_window["records_written"], 15]
    assert [result["state"] for result in audited] == ["complete"] * 2
    assert plan["markdown"] in seen
    assert f"{len(records):,}" in seen
    assert "- Pace: `at most 5,000 records/s" in seen
    assert "orders[0]" in seen_ranges
    assert of_window["records_read"] == len(records) == plan["planned_records"]
    assert of_window["records_written"] == sum(offset % 2 == 0 for _, _, offset in records)
    assert (of_ranges["records_written"], of_ranges["target_topics"]) == (15, ["orders_replay"])
    target = shop.broker.consume("orders_replay")
    assert len(target) - before == of_window["records_written"] + 15
    origins = [origin for origin in map(provenance_of, target) if origin and origin.run_id == of_window["run_id"]]
    assert {(o.topic, o.partition, o.offset) for o in origins} == {place for place in records if place[2] % 2 == 0}
