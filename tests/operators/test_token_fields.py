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


@kinds
def test_ids_and_owner_are_shown(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """Under names that Airflow does not take for those of secrets; the parameters keep theirs. So are those of a
    sensor's whole result, and of a mapped task.
    """
    owner, context = "User:{{ who }}", {"first": _IDS[0], "who": "alice"}
    task: Any = kind(task_id="t", token_ids=["{{ first }}", _IDS[1]], token_owner=owner, **parameters)
    found = {"tokens": [{"token_id": name} for name in _IDS], "now_ms": 1}
    of_result: Any = kind(task_id="r", token_ids=found, token_owner=owner, **parameters)
    with DAG("d"):
        partial = kind.partial(task_id="m", token_owner=owner, **parameters)
        mapped = partial.expand(token_ids=[_IDS, []])
    unmapped: Any = mapped.unmap({"token_ids": _IDS})
    for each in (task, of_result):
        each.render_template_fields(context)
    # As the mapped operator renders it: by the fields of the class.
    unmapped._do_render_template_fields(unmapped, mapped.template_fields, context, mapped.get_template_env(), set())  # noqa: SLF001

    for each in (task, of_result, unmapped):
        # As a task runner sends them to Airflow's UI.
        shown = _serialize_rendered_fields(each)
        assert (shown["selected_ids"], shown["selected_owner"]) == (_IDS, _OWNER)
        assert not [name for name, value in shown.items() if "***" in str(value)]
        assert (each.token_ids, each.token_owner) == (_IDS, _OWNER)


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
