"""Which delegation tokens a task means is shown among its rendered fields: ids and owners are no secrets."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_provider_kafka_spark.operators.delegation_token import (
    ExpireDelegationTokensOperator,
    RenewDelegationTokensOperator,
)
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor

_KINDS = [
    pytest.param(RenewDelegationTokensOperator, {}, id="renew"),
    pytest.param(ExpireDelegationTokensOperator, {}, id="expire"),
    pytest.param(DelegationTokenExpirySensor, {"min_remaining": 60}, id="sensor"),
]
kinds = pytest.mark.parametrize(("kind", "parameters"), _KINDS)
_IDS, _OWNER = ["Fnb0YrRxQ8C0YjWbl0aMsA", "second-id"], "User:alice"


def _rendered(task: BaseOperator, **context: Any) -> dict[str, Any]:
    """As a task runner sends them to Airflow's UI."""
    task.render_template_fields(context)
    return _serialize_rendered_fields(task)


@kinds
def test_ids_and_owner_are_shown(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """Under names that Airflow does not take for those of secrets; the parameters keep theirs."""
    task: Any = kind(task_id="t", token_ids=["{{ first }}", _IDS[1]], token_owner="User:{{ who }}", **parameters)

    shown = _rendered(task, first=_IDS[0], who="alice")

    assert (shown["selected_ids"], shown["selected_owner"]) == (_IDS, _OWNER)
    assert not [name for name, value in shown.items() if "***" in str(value)]
    assert (task.token_ids, task.token_owner) == (_IDS, _OWNER)


@kinds
def test_a_sensors_whole_result_is_shown_as_ids(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """Airflow would mask what is under its key."""
    task: Any = kind(
        task_id="t", token_ids={"tokens": [{"token_id": name} for name in _IDS], "now_ms": 1}, **parameters
    )

    assert _rendered(task)["selected_ids"] == task.token_ids == _IDS


@kinds
def test_mapped_tasks_show_theirs(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    with DAG("d"):
        mapped = kind.partial(task_id="t", token_owner="User:{{ who }}", **parameters).expand(token_ids=[[_IDS[0]], []])
    task = mapped.unmap({"token_ids": [_IDS[0]]})

    # As the mapped operator renders it: by the fields of the class.
    task._do_render_template_fields(task, mapped.template_fields, {"who": "alice"}, mapped.get_template_env(), set())  # noqa: SLF001

    shown = _serialize_rendered_fields(task)
    assert (shown["selected_ids"], shown["selected_owner"]) == ([_IDS[0]], _OWNER)


@kinds
def test_a_task_whose_ids_come_from_another_waits_for_it(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """However they are given."""
    with DAG("d"):
        first = DelegationTokenExpirySensor(task_id="first", min_remaining=60)
        tasks: list[Any] = [kind(task_id="argument", token_ids=first.output, **parameters)]
        tasks.append(kind(task_id="attribute", **parameters))
        tasks[-1].token_ids = first.output
        partial = kind.partial(task_id="partial", token_ids=first.output, **parameters)
        tasks.append(partial.expand(conn_id=["a", "b"]))
        tasks.append(kind.partial(task_id="expand", **parameters).expand(token_ids=first.output))

    assert [task.upstream_task_ids for task in tasks] == [{"first"}] * 4
