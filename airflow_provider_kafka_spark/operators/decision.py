"""What the one who approves a plan needs first, as far as this task knows it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow_provider_kafka_spark.core.copies.decision import Decision, copied_before
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.attempt import Attempt

#: Events of the ledger that a plan reads, the newest.
_EVENTS = 1_000


def decision(attempt: Attempt, plan: ReplayPlan, inlets: Collection[Any]) -> Decision:
    """
    :param inlets: of the task; with the ledger's asset ``COPIES`` among them, its newest events are read.
    """
    events = attempt.context["inlet_events"][COPIES].ascending(False).limit(_EVENTS) if COPIES in inlets else None
    source, target = (hook.config.bootstrap_servers for hook in (attempt.source, attempt.sink))
    return Decision(
        records=attempt.parameters.records,
        brokers=(source, target),
        asked_by=getattr(attempt.context.get("dag_run"), "triggering_user_name", None) or "",
        copied_before=None if events is None else copied_before(plan, events),
    )
