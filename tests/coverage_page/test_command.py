"""The command ``coverage`` on a real API of Airflow, with the runs that the page's tests have."""

from __future__ import annotations

import json

import pytest

from airflow_provider_kafka_spark import coverage
from tests.coverage_page.airflow_api import AirflowApi

pytestmark = pytest.mark.airflow


@pytest.mark.long
def test_it_reads_events_and_the_states_of_tasks(
    airflow_api: AirflowApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_API_TOKEN", airflow_api.token("ada"))

    assert coverage.main(["calls", "--url", airflow_api.url, "--json"]) == 1

    found = json.loads(capsys.readouterr().out)
    (pair,) = found["pairs"]
    assert [(s["from_offset"], s["until_offset"], s["coverage"]) for s in pair["stretches"]] == [
        (0, 10, "covered"),
        (10, 30, "failed"),
    ]
    assert pair["ledger"][pair["failed"][0]["by"][0]]["dag_run_id"] == "manual__killed"
    # Two of others, and one of a topic that cannot be. One without an extra is of a function that copied nothing.
    assert found["skipped_entries"] == 3
    # The same function has called another operator.
    assert coverage.main(["others", "--url", airflow_api.url]) == 0


def test_a_user_and_a_password_log_in_and_one_without_rights_is_refused(
    airflow_api: AirflowApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AIRFLOW_API_TOKEN", raising=False)
    monkeypatch.setenv("AIRFLOW_API_USERNAME", "vera")
    monkeypatch.setenv("AIRFLOW_API_PASSWORD", "vera")
    assert coverage.main(["calls", "--window", "calls:0:0:10", "--url", airflow_api.url]) == 0

    monkeypatch.setenv("AIRFLOW_API_USERNAME", "nobody")
    monkeypatch.setenv("AIRFLOW_API_PASSWORD", "nobody")
    assert coverage.main(["calls", "--window", "calls:0:0:10", "--url", airflow_api.url]) == 3
    assert "refuses" in capsys.readouterr().err
