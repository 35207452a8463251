"""A plan that another task of this DAG run has made: whether it is as that task has returned it, and what it fixes for
the task that carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from airflow_provider_kafka_spark.core.copies.approved_plan import ApprovedPlan, SealedPlan
from airflow_provider_kafka_spark.core.copies.declaration import Decides, Declared
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.wire.codec import encode
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


def adopt(operator: object, declared: Sequence[Declared], approved: ApprovedPlan) -> None:
    """Give an operator the parameters of a plan.

    :param declared: of the operator.
    :raises InvalidInputError: if others were given to it.
    """
    defaults, by_name = defaults_of(type(operator)), {p.name: p for p in declared}
    selecting = [
        p.name
        for p in declared
        if p.decides is Decides.RECORDS and p.read(getattr(operator, p.name)) != p.read_default(defaults[p.name])
    ]
    if selecting:
        raise InvalidInputError(
            f"plan says which records are copied; {', '.join(selecting)} must not be given with it. Leave one of the "
            "two out."
        )
    fixed = approved.origin.parameters
    given = {name: encode(by_name[name].read(getattr(operator, name))) for name in fixed}
    otherwise = {name: encode(by_name[name].read_default(defaults[name])) for name in fixed}
    for name, value in approved.adopted(given, otherwise).items():
        setattr(operator, name, value)


def defaults_of(kind: type) -> dict[str, Any]:
    """The defaults of an operator's parameters."""
    return {
        name: parameter.default
        for base in reversed(kind.__mro__)
        if "__init__" in vars(base)
        for name, parameter in signature(base.__init__).parameters.items()  # type: ignore[misc]
        if parameter.default is not Parameter.empty
    }
