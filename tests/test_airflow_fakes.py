"""The fakes at Airflow's border take nothing that Airflow's own would not, and have nothing that it has not."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRun
from airflow.sdk.definitions.context import Context
from airflow.sdk.execution_time.context import AssetStateStoreAccessor, AssetStateStoreAccessors, TaskStateStoreAccessor
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from pydantic import TypeAdapter

from tests.airflow_fakes import AssetStateStore, TaskInstance, TaskStateStore, Try, task_context

_FAKES = [
    pytest.param(TaskStateStore, TaskStateStoreAccessor, id="task-state-store"),
    # A watcher has that of one asset, a task one for all of its assets.
    pytest.param(AssetStateStore, AssetStateStoreAccessor, id="asset-state-store"),
    pytest.param(AssetStateStore, AssetStateStoreAccessors, id="asset-state-stores"),
    pytest.param(TaskInstance, RuntimeTaskInstance, id="task-instance"),
]


def methods(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if inspect.isfunction(member) and name[0] != "_"}


@pytest.mark.parametrize(("fake", "real"), _FAKES)
def test_methods(fake: type, real: type) -> None:
    """Whatever call a fake takes, Airflow's own class takes: names, kinds and defaults of parameters, and whether it is
    awaited.
    """
    assert methods(fake)
    for name, method in methods(fake).items():
        own = getattr(real, name)
        assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(own), name
        ours, airflows = (inspect.signature(m).parameters for m in (method, own))
        assert list(ours) == list(airflows)[: len(ours)], name
        for parameter, of_airflow in zip(ours.values(), airflows.values(), strict=False):
            assert (parameter.kind, parameter.default) == (of_airflow.kind, of_airflow.default), (name, parameter.name)
        more = list(airflows.values())[len(ours) :]
        assert all(p.default is not p.empty for p in more), name


@pytest.mark.parametrize("fake", [TaskInstance(), Try()], ids=["task-instance", "try"])
def test_fields_of_a_task_instance(fake: TaskInstance) -> None:
    """Each is Airflow's, and has a value that it takes; ``pushed`` is what the tests look at."""
    fields = {name: value for name, value in vars(fake).items() if name != "pushed"}
    assert set(fields) >= {"dag_id", "task_id", "run_id", "map_index"}
    for name, value in fields.items():
        TypeAdapter(RuntimeTaskInstance.model_fields[name].annotation).validate_python(value, strict=True)


def test_the_context() -> None:
    """Every entry is one of Airflow's, and the DAG run has what Airflow's has."""
    context = task_context()
    assert set(context) <= set(Context.__annotations__)
    for name, value in vars(context["dag_run"]).items():
        TypeAdapter(DagRun.model_fields[name].annotation).validate_python(value, strict=True)


@pytest.mark.parametrize("value", [None, object(), b"bytes", {"when": Context}])
def test_what_no_state_store_takes(value: object) -> None:
    """Airflow stores JSON, and no null."""
    for store in (TaskStateStore(), AssetStateStore()):
        with pytest.raises((TypeError, ValueError)):
            store.set("key", value)
