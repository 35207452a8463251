"""The command ``coverage`` on a real API of Airflow, with the runs that the page's tests have."""

from __future__ import annotations

import json

import pytest
import requests

from airflow_provider_kafka_spark import coverage
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.state.ledger_api import LedgerApi
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
    # Two of others. One without an extra is of a function that copied nothing.
    assert found["skipped_entries"] == 2
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


def test_the_result_of_a_run_is_read_for_an_audit(airflow_api: AirflowApi) -> None:
    """As it was returned, and not as text."""
    token, result = airflow_api.token("ada"), {"version": 1, "ranges": [{"topic": "calls", "records_read": 3}]}
    run = ("function_copy", "manual__killed", "copy_by_function")
    path = "/api/v2/dags/{}/dagRuns/{}/taskInstances/{}/xcomEntries".format(*run)
    made = {"key": "return_value", "value": result, "map_index": -1}
    answer = requests.post(
        f"{airflow_api.url}{path}", json=made, headers={"Authorization": f"Bearer {token}"}, timeout=30
    )
    assert answer.ok, answer.text
    api = LedgerApi(airflow_api.url, token)

    assert api.result(*run) == result
    with pytest.raises(InvalidInputError, match="it has none of function_copy / manual__killed / other"):
        api.result(*run[:2], "other")
