"""A variable that Airflow did not answer for is not taken for one that is not there, and nothing is written over it.

Airflow's own client is asked, and the fake that other tests have in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import AirflowApiError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.state import variables
from airflow_provider_kafka_spark.state.deployment import KEY_VARIABLE, VARIABLE, deployment_name, state_key
from airflow_provider_kafka_spark.state.last_run import LastRunStore
from airflow_provider_kafka_spark.state.window_cuts import WindowCuts
from airflow_provider_kafka_spark.toolchain.settings import DEPLOYMENT, STATE_KEY
from tests.airflow_fakes import Variables, use_variables
from tests.execution_api import ExecutionApi

CONTEXT = {"ti": SimpleNamespace(dag_id="dag", task_id="task", run_id="run", map_index=-1)}
P = TopicPartition("orders", 0)


def airflows(monkeypatch: pytest.MonkeyPatch, stored: dict[str, str], gets: bool, lists: bool) -> dict[str, str]:
    api = ExecutionApi(stored).install(monkeypatch)
    monkeypatch.setattr(variables, "SETTLING_SECONDS", 0.0)
    broken = () if gets else tuple(f"variables/{name}" for name in stored)
    api.broken = broken if lists else (*broken, "variables/keys")
    return api.variables


def fakes(monkeypatch: pytest.MonkeyPatch, stored: dict[str, str], gets: bool, lists: bool) -> dict[str, str]:
    return use_variables(monkeypatch, Variables(stored, 0 if gets else 2, lists)).values


def cut() -> object:
    topic = TopicState("orders", "a", {0: PartitionState(0, 100, 100)}, {"cleanup.policy": "compact"})
    cluster = ClusterState("c", "kafka_default", 0, {"orders": topic}, {(P, 1000): 10})
    return WindowCuts(CONTEXT, "copy", "orders", lambda _: {}).decide(cluster, [P], [1000]).cuts[P, 1000]


READERS = {
    "deployment": (deployment_name, VARIABLE),
    "state-key": (state_key, KEY_VARIABLE),
    "last-run": (lambda: LastRunStore(CONTEXT, {}).load(), "kafka_spark_last_run:dag:task"),
    "cut": (cut, "kafka_spark_window_cut:dag:copy:6b93dcf0:1000"),
}


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the configuration has is in no variable."""
    for setting in (DEPLOYMENT, STATE_KEY):
        monkeypatch.delenv(setting.variable, raising=False)


@pytest.mark.parametrize("of", [airflows, fakes])
@pytest.mark.parametrize(
    ("stored", "gets", "lists", "answer"),
    [
        ({"orders": "5"}, True, True, "5"),
        # The list is asked only for what is not there.
        ({"orders": "5"}, True, False, "5"),
        ({"orders-eu": "5"}, True, True, None),
        ({"orders": "5"}, False, True, AirflowApiError),
        ({"orders": "5"}, False, False, AirflowApiError),
        ({"orders-eu": "5"}, True, False, AirflowApiError),
    ],
)
def test_one_that_was_not_answered_is_not_absent(
    monkeypatch: pytest.MonkeyPatch,
    of: Callable[..., Any],
    stored: dict[str, str],
    gets: bool,
    lists: bool,
    answer: Any,
) -> None:
    of(monkeypatch, stored, gets, lists)
    if answer is AirflowApiError:
        with pytest.raises(AirflowApiError, match="A retry asks again"):
            variables.read("orders")
    else:
        assert variables.read("orders") == answer


def test_one_that_another_task_makes_meanwhile_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As two tasks that begin at once in a new deployment: it is not there, and then it is listed."""
    use_variables(monkeypatch, Variables({"orders": "5"}, unanswered=1))
    assert variables.read("orders") == "5"


@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_written_over_what_was_not_answered(monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    read, name = READERS[reader]
    found = use_variables(monkeypatch, Variables({name: "as it was"}, unanswered=2))
    with pytest.raises(AirflowApiError, match=name):
        read()
    assert found.values == {name: "as it was"}
