"""What a task remembers of its run between its tries, in Airflow's task state store.

A retry uses the plan of its first try; a retry of one that had delivered all, and failed after that, gets its result. A clear makes a new plan; if the run before it had not finished, what it
delivered is still known by its ``run_id`` and is not written again, unless it came from another source or by other expressions. A clear after a success is a wish to copy again: the run gets
a new ``run_id``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.plan import ReplayPlan, changes_of_origin, origin_of_transform, shortened
from airflow_provider_kafka_spark.core.protocol import Transform

_KEY = "kafka_spark_run"


@dataclass(frozen=True, slots=True)
class RunState:
    """One run of one task over one wish.

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
    clear_number: int
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
    """The state of this task instance, for one wish.

    :param context: of the running task.
    :param wish: what the author asked for, rendered. It is part of the key, since the store is keyed by map index, which an expanded list may shift.
    :param transform: what is to be made of each record.
    """

    def __init__(self, context: Mapping[str, Any], wish: Mapping[str, Any], transform: Transform) -> None:
        ti = context["ti"]
        text = json.dumps(wish, sort_keys=True, default=str)
        identity = [ti.dag_id, ti.task_id, ti.run_id, ti.map_index, text]
        self._store = context["task_state_store"]
        self._identity = json.dumps(identity)
        self._key = f"{_KEY}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self._transform = asdict(transform)
        clear_number = getattr(context.get("dag_run"), "clear_number", None)
        self._clear_number = clear_number or 0
        # A clear through the API with reset_dag_runs=false leaves clear_number as it is; every clear raises max_tries.
        self._attempt: list[Any] = [clear_number, getattr(ti, "max_tries", None), getattr(ti, "try_number", None)]

    def load(self) -> RunState:
        """The state to start this try from."""
        stored = self._store.get(self._key)
        if not isinstance(stored, dict):
            return self._fresh(0)
        generation, origin = int(stored["generation"]), stored.get("origin") or {}
        state = RunState(
            run_id=self._run_id(generation),
            generation=generation,
            clear_number=self._clear_number,
            target_ends={t: {int(p): end for p, end in ends.items()} for t, ends in stored["target_ends"].items()},
            submitted_at_ms=stored["submitted_at_ms"],
            application_id=stored["application_id"],
            origin=origin,
        )
        attempt = stored.get("attempt") or [None, None, None]
        if stored["finished"]:
            result = stored.get("result")
            if result is None or not self._is_retry_of(attempt):
                return self._fresh(generation + 1)
            changed = changes_of_origin(origin, origin_of_transform(self._transform))
            return state if changed else replace(state, result=_unpacked(result))
        # A clear wants a new plan; what was delivered before it stays delivered.
        if stored["plan"] is None or self._is_cleared_since(int(stored["clear_number"]), attempt):
            return state
        return replace(state, plan=ReplayPlan.from_dict(stored["plan"]))

    def for_plan(self, state: RunState, plan: ReplayPlan) -> tuple[RunState, ReplayPlan]:
        """The state to carry out this plan with; and the plan, with a warning if nothing that was delivered counts.

        What came from another source, or by other expressions, stands for nothing of this plan: taken for delivered, it would hide records of the same offsets.
        """
        origin = plan.origin(self._transform)
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

    def _is_retry_of(self, attempt: list[Any]) -> bool:
        """Whether Airflow by itself tries that attempt again. Where that is not certain, the run is one that somebody wants."""
        if None in attempt or None in self._attempt:
            return False
        return attempt[:2] == self._attempt[:2] and attempt[2] < self._attempt[2]

    def _is_cleared_since(self, clear_number: int, attempt: list[Any]) -> bool:
        tries = {attempt[1], self._attempt[1]} - {None}
        return clear_number != self._clear_number or len(tries) > 1

    def _fresh(self, generation: int) -> RunState:
        return RunState(self._run_id(generation), generation, self._clear_number)

    def _run_id(self, generation: int) -> str:
        return hashlib.sha256(f"{self._identity}#{generation}".encode()).hexdigest()[:16]

    def _save(self, state: RunState) -> RunState:
        ends = state.target_ends or {}
        self._store.set(
            self._key,
            {
                "generation": state.generation,
                "clear_number": state.clear_number,
                "attempt": self._attempt,
                "finished": state.result is not None,
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
