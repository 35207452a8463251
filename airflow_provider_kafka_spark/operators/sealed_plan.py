"""Whether a plan is as a task of this DAG run has returned it, for who approves it and for the task that copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.copies.approved_plan import ApprovedPlan, SealedPlan
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.state.seal import is_sealed, seal


def checked_plan(plan: Any, ti: Any) -> dict[str, Any]:
    """A plan, if nobody has changed it. Whoever may trigger a DAG may write its XComs.

    In a template of the task that approves it needs ``user_defined_macros={"checked_plan": checked_plan}`` of the DAG.

    :param plan: the result of a task of this DAG run with ``plan_only=True``, or its JSON text.
    :param ti: the running task instance.
    :return: the whole result.
    :raises InvalidInputError: if it is no plan, or one of another DAG run, or was changed.
    """
    found = opened_plan(plan, ti)
    return SealedPlan.of(found.content, str(found.seal))


def opened_plan(plan: Any, ti: Any) -> SealedPlan:
    """As :func:`checked_plan`, parsed."""
    found = ApprovedPlan.parse(plan)
    if not is_sealed(found.seal, _to_be_sealed(found.content, ti)):
        raise InvalidInputError(
            "plan must be a plan as a task of this DAG run has returned it. This one is of another run, or it was "
            "changed, as by Airflow's API or by the task that approves, or [kafka_spark] state_key is another one than "
            "then. Nothing was copied. Make a new plan, and have it approved."
        )
    return found


def sealed_plan(result: Mapping[str, Any], ti: Any) -> dict[str, Any]:
    """The result of a task that has planned, with the seal that :func:`checked_plan` asks for."""
    return SealedPlan.of(result, seal(_to_be_sealed(result, ti)))


def _to_be_sealed(result: Mapping[str, Any], ti: Any) -> list[Any]:
    return ["plan", ti.dag_id, ti.run_id, result]
