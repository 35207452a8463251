"""What the one who approves a plan needs first, as far as this task knows it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from airflow_provider_kafka_spark.core.copies.approved_plan import PlanOrigin
from airflow_provider_kafka_spark.core.copies.decision import ApprovalFacts, copied_before
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.copies.verification import result_of_plan
from airflow_provider_kafka_spark.core.shown_text import item, markdown_item
from airflow_provider_kafka_spark.operators.asset_events import COPIES, newest
from airflow_provider_kafka_spark.operators.task_try import TaskTry

log = logging.getLogger(__name__)


def result_to_approve(
    task_try: TaskTry, planned: PlannedCopy, origin: PlanOrigin, inlets: Collection[Any]
) -> dict[str, Any]:
    """The result of a task that has planned, with all that the one who approves it reads.

    :param origin: what the plan was made with.
    :param inlets: of the task; with the ledger's asset ``COPIES`` among them, its newest events are read.
    """
    plan = planned.plan
    result = result_of_plan(plan, planned.run_id, planned.transform, planned.how.pace)
    pace = "none" if planned.how.pace is None else planned.how.pace.describe(plan.planned_records)
    first = approval_facts(task_try, plan, inlets).items(plan)
    parts = [
        *(markdown_item(name, text) for name, text in first),
        origin.markdown(),
        markdown_item("Pace", pace.removeprefix("Pace: ")),
        "",
        plan.markdown(),
        markdown_item("How records are read", planned.path),
    ]
    texts = [*(item(name, text) for name, text in first), result["text"], planned.path, origin.describe()]
    return {**result, "text": "\n".join(texts), "markdown": "\n".join(parts), "plan": origin.to_json()}


def show_warnings(result: dict[str, Any], warnings: Sequence[str]) -> None:
    """Add warnings to what the one who approves reads, who otherwise takes the SQL for right."""
    for name, as_item in (("text", item), ("markdown", markdown_item)):
        if name in result:
            result[name] = "\n".join((result[name], *(as_item("Warning", warning) for warning in warnings)))


def approval_facts(task_try: TaskTry, plan: ReplayPlan, inlets: Collection[Any]) -> ApprovalFacts:
    source, target = (hook.config.bootstrap_servers for hook in (task_try.source, task_try.sink))
    return ApprovalFacts(
        records=task_try.parameters.selection,
        brokers=(source, target),
        asked_by=getattr(task_try.context.get("dag_run"), "triggering_user_name", None) or "",
        copied_before=_copied_before(task_try, plan) if COPIES in inlets else None,
    )


def _copied_before(task_try: TaskTry, plan: ReplayPlan) -> int | None:
    try:
        return copied_before(plan, newest(task_try.context["inlet_events"][COPIES]))
    except Exception as error:  # noqa: BLE001 - a plan is no worse without it
        log.warning("What was copied before is not known, since the ledger could not be read: %r", error)
        return None
