"""Which result of a task is the newest one, with what Airflow gives of other runs; and what is none of a copy."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_kafka_spark.core.audits.past_copy import parse_results
from airflow_provider_kafka_spark.core.errors import AuditInputError
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.operators.past_result import newest_result, task_named
from tests.core.audits.test_past_copy import result


@dataclass
class TaskInstance:
    """What Airflow's has, of a DAG ``own`` in its second run."""

    dag_id: str = "own"
    run_id: str = "scheduled__2026-11-21T00:00:00+00:00"
    xcoms: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)

    def xcom_pull(self, *, task_ids: str, dag_id: str, run_id: str, include_prior_dates: bool, map_indexes: int) -> Any:
        assert (include_prior_dates, map_indexes) == (True, -1)
        return self.xcoms.get((dag_id, task_ids, run_id))

    def get_task_states(self, dag_id: str, task_ids: list[str]) -> dict[str, Any]:
        (task_id,) = task_ids
        return self.states.get(f"{dag_id}|{task_id}", {})


@pytest.mark.parametrize("name", ["xcom_pull", "get_task_states"])
def test_the_fake_is_called_as_airflows_own(name: str) -> None:
    ours = set(inspect.signature(getattr(TaskInstance, name)).parameters)
    assert ours <= set(inspect.signature(getattr(RuntimeTaskInstance, name)).parameters) | {"self"}


def test_of_the_own_dag() -> None:
    """Airflow looks at earlier dates itself; the task may be in a group."""
    ti = TaskInstance(xcoms={("own", "group.copy", "scheduled__2026-11-21T00:00:00+00:00"): {"version": 1}})

    assert newest_result(ti, "own.group.copy") == {"version": 1}


def test_of_another_dag() -> None:
    """The latest run in which the task has succeeded, whatever kind of run it was."""
    runs = {
        "scheduled__2026-11-19T00:00:00+00:00": "success",
        "manual__2026-11-20T10:00:00+00:00": "success",
        "scheduled__2026-11-20T00:00:00+00:00": "success",
        "scheduled__2026-11-21T00:00:00+00:00": "failed",
        "by-hand": "success",
        # Who triggers a DAG chooses the id.
        "manual__2999-01-01T00:00:00+00:00": "success",
        "x__9999-12-31": "success",
        "x__2026-99-99T00:00:00+00:00": "success",
    }
    states = {run_id: {"copy": state} for run_id, state in runs.items()}
    xcoms = {("other.dag", "copy", "manual__2026-11-20T10:00:00+00:00"): {"version": 1}}

    assert newest_result(TaskInstance(xcoms=xcoms, states={"other.dag|copy": states}), "other.dag.copy")


@pytest.mark.parametrize("name", ["own.copy", "other.copy", "a.b.c", ".copy", "own."])
def test_where_airflow_gives_nothing_the_error_says_what_it_gives(name: str) -> None:
    states = {"other|copy": {"manual__2026": {"copy": "success"}}}
    with pytest.raises(AuditInputError, match=r"must name a task that has returned a result.*never those of mapped"):
        newest_result(TaskInstance(states=states), name)


@pytest.mark.parametrize("text", ["", "copy", "{}", '{"a.b": 1}', "a. b", "a.b?", "[1.5]"])
def test_other_text_names_no_task(text: str) -> None:
    assert task_named(text) is None


GOOD = result(["orders:0:0:10"])
OTHER_TARGET = result(["orders:1:0:10"], "b", evidence={"transform": Transform(topic="other")})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("no result", "of must be the result .*reading the JSON failed"),
        (7, "of must be the result .*got int"),
        ([], "at least one copy; got an empty list"),
        (["a"], "must be an object; got str"),
        ({**GOOD, "version": 2}, "must have version 1"),
        ({name: value for name, value in GOOD.items() if name != "evidence"}, "the key 'evidence'.*earlier version"),
        ({**GOOD, "state": "planned"}, "plan_only=True, which copied nothing"),
        ({**GOOD, "run_id": "../../x"}, "16 hexadecimal digits; got '../../x'"),
        ({**GOOD, "ranges": [{}]}, "as its task returned it"),
        ({**GOOD, "target_topics": ["a b"]}, "as its task returned it.*'a b'"),
        ({**GOOD, "evidence": {**GOOD["evidence"], "transform": {"where": 1}}}, "as its task.*unknown"),
        ({**GOOD, "evidence": {**GOOD["evidence"], "version": 9}}, "must be of version 2; got 9"),
        (result(["orders:0:0:10"], transform={"provenance": None}), "provenance=None"),
        (result(["orders:0:0:10"], transform={"provenance": "segments"}, records_written=10), "segments in its result"),
        ([GOOD, OTHER_TARGET], "must have the same target.*one by one"),
    ],
)
def test_what_is_no_result_of_a_copy(given: Any, says: str) -> None:
    with pytest.raises(AuditInputError, match=says):
        parse_results(given)
