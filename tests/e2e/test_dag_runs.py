"""DAG runs in one process: one that cannot be run is named, and does not spoil the next."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns

pytestmark = [pytest.mark.broker, pytest.mark.airflow]


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
