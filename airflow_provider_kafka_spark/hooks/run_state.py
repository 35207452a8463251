"""What a task remembers of its run between its tries, in Airflow's task state store.

It belongs to the task instance (DAG run and map index), whatever its parameters render to. A retry carries out the
plan of its first try; a retry of one that had delivered all, and failed after that, returns its result. A clear makes a
new plan; if the run before it had not finished, what it delivered is still known by its ``run_id`` and is not written
again, unless it came from another source or by other expressions. A clear after a success copies again, under a new
``run_id``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.plan import ReplayPlan, changes_of_origin, shortened
from airflow_provider_kafka_spark.core.protocol import Transform

_RUN_KEY = "kafka_spark_run"
_REQUESTED_KEY = "kafka_spark_requested"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One try of a task instance, as Airflow counts them; None where it does not say."""

    clear_number: int | None
    max_tries: int | None
    try_number: int | None

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> _Attempt:
        ti = context["ti"]
        return cls(
            getattr(context.get("dag_run"), "clear_number", None),
            getattr(ti, "max_tries", None),
            getattr(ti, "try_number", None),
        )

    def is_cleared_since(self, earlier: _Attempt) -> bool:
        # A clear through the API with reset_dag_runs=false leaves clear_number as it is; every clear raises max_tries.
        tries = {earlier.max_tries, self.max_tries} - {None}
        return (earlier.clear_number or 0) != (self.clear_number or 0) or len(tries) > 1

    def is_retry_of(self, earlier: _Attempt) -> bool:
        """Whether Airflow by itself tries again. Where that is not certain, the run is one that somebody wants."""
        known = None not in (*astuple(earlier), *astuple(self))
        return known and not self.is_cleared_since(earlier) and (earlier.try_number or 0) < (self.try_number or 0)


class RequestStore:
    """What the first try of this task instance was asked for, as its parameters were rendered then."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self._store = context["task_state_store"]
        self._attempt = _Attempt.of(context)

    def load(self) -> dict[str, Any] | None:
        """Parameters by name; None if no try before this one submitted anything, or the task was cleared since."""
        stored = self._store.get(_REQUESTED_KEY)
        if not isinstance(stored, dict) or self._attempt.is_cleared_since(_Attempt(*stored["attempt"])):
            return None
        return dict(stored["requested"])

    def save(self, requested: Mapping[str, Any]) -> None:
        """Remember them, before anything is submitted.

        :param requested: plain JSON.
        """
        self._store.set(_REQUESTED_KEY, {"attempt": list(astuple(self._attempt)), "requested": dict(requested)})


@dataclass(frozen=True, slots=True)
class RunState:
    """One run of one task instance.

    :param run_id: goes into the provenance header of every record; 16 hexadecimal digits.
    :param plan: of the try before, or None if this one has to plan.
    :param target_ends: ends of the target's partitions before the run's first submission; empty if there was none.
    :param application_id: of the latest try that was seen to start.
    :param submitted_at_ms: when the run's first submission was about to start, in ms since 1970; None if there was none.
    :param origin: from what and by what its records come, over all submissions; see :meth:`~airflow_provider_kafka_spark.core.plan.ReplayPlan.origin`.
    :param result: of the try that delivered all, if this one is a retry of it.
    """

    run_id: str
    generation: int
    plan: ReplayPlan | None = None
    target_ends: Mapping[str, Mapping[int, int]] | None = None
    submitted_at_ms: int | None = None
    application_id: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    result: dict[str, Any] | None = None

    @property
    def has_submitted(self) -> bool:
        """Whether an earlier try may have written records."""
        return self.submitted_at_ms is not None


class RunStateStore:
    """The state of this task instance.

    :param context: of the running task.
    """

    def __init__(self, context: Mapping[str, Any]) -> None:
        ti = context["ti"]
        self._store = context["task_state_store"]
        self._identity = json.dumps([ti.dag_id, ti.task_id, ti.run_id, ti.map_index])
        self._attempt = _Attempt.of(context)

    def load(self) -> RunState:
        """The state to start this try from."""
        stored = self._store.get(_RUN_KEY)
        if not isinstance(stored, dict):
            return self._fresh(0)
        generation, attempt = int(stored["generation"]), _Attempt(*stored["attempt"])
        state = RunState(
            run_id=self._run_id(generation),
            generation=generation,
            target_ends={t: {int(p): end for p, end in ends.items()} for t, ends in stored["target_ends"].items()},
            submitted_at_ms=stored["submitted_at_ms"],
            application_id=stored["application_id"],
            origin=stored["origin"],
        )
        if stored["result"] is not None:
            if not self._attempt.is_retry_of(attempt):
                return self._fresh(generation + 1)
            return replace(state, result=_unpacked(stored["result"]))
        # A clear wants a new plan; what was delivered before it stays delivered.
        if stored["plan"] is None or self._attempt.is_cleared_since(attempt):
            return state
        return replace(state, plan=ReplayPlan.from_dict(stored["plan"]))

    def for_plan(self, state: RunState, plan: ReplayPlan, transform: Transform) -> tuple[RunState, ReplayPlan]:
        """The state to carry out this plan with; and the plan, with a warning if nothing that was delivered counts.

        What came from another source, or by other expressions, stands for nothing of this plan: taken for delivered, it would hide records of the same offsets.

        :param transform: what is to be made of each record.
        """
        origin = plan.origin(asdict(transform))
        changed = changes_of_origin(state.origin, origin)
        if not changed:
            return replace(state, origin={**state.origin, **origin}), plan
        # Its application is still to be waited for.
        fresh = replace(self._fresh(state.generation + 1), application_id=state.application_id, origin=origin)
        warning = (
            f"Changed since an earlier try of this run: {shortened(changed)}. So nothing that it delivered (run_id {state.run_id}) is taken for delivered: all is copied under a new run_id, "
            f"{fresh.run_id}, and what the target has of the earlier try stays there besides."
        )
        return fresh, replace(plan, warnings=(*plan.warnings, warning))

    def submitting(self, state: RunState, plan: ReplayPlan, now_ms: int) -> RunState:
        """Remember the plan, before anything is written."""
        return self._save(
            replace(
                state,
                plan=plan,
                target_ends=state.target_ends if state.has_submitted else plan.target_ends,
                submitted_at_ms=state.submitted_at_ms if state.has_submitted else now_ms,
            )
        )

    def started(self, state: RunState, application_id: str) -> RunState:
        """Remember the application, so that a retry can wait for its end."""
        return self._save(replace(state, application_id=application_id))

    def finished(self, state: RunState, result: dict[str, Any]) -> RunState:
        """Remember that all was delivered, and the result for a retry that has nothing else to do."""
        return self._save(replace(state, plan=None, target_ends=None, result=result))

    def _fresh(self, generation: int) -> RunState:
        return RunState(self._run_id(generation), generation)

    def _run_id(self, generation: int) -> str:
        return hashlib.sha256(f"{self._identity}#{generation}".encode()).hexdigest()[:16]

    def _save(self, state: RunState) -> RunState:
        ends = state.target_ends or {}
        self._store.set(
            _RUN_KEY,
            {
                "generation": state.generation,
                "attempt": list(astuple(self._attempt)),
                "plan": None if state.plan is None else state.plan.to_dict(),
                "target_ends": {t: {str(p): end for p, end in by.items()} for t, by in ends.items()},
                "submitted_at_ms": state.submitted_at_ms,
                "application_id": state.application_id,
                "origin": dict(state.origin),
                "result": None if state.result is None else _packed(state.result),
            },
        )
        return state


def _packed(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result may have thousands of ranges, and Airflow warns of values of more than 64 KiB: their keys are stored once."""
    ranges = result["ranges"]
    names = list(ranges[0]) if ranges else []
    return {**result, "ranges": [names, *([r[name] for name in names] for r in ranges)]}


def _unpacked(packed: Mapping[str, Any]) -> dict[str, Any]:
    names, *rows = packed["ranges"]
    return {**packed, "ranges": [dict(zip(names, row, strict=True)) for row in rows]}
