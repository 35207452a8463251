"""What a task remembers of its run between its tries, in Airflow's task state store.

A retry uses the plan of its first try. A clear makes a new plan; if the run before it had not finished, what it delivered is still known by its
``run_id`` and is not written again. A clear after a success is a wish to copy again: the run gets a new ``run_id``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.core.plan import ReplayPlan

_KEY = "kafka_spark_run"


@dataclass(frozen=True, slots=True)
class RunState:
    """One run of one task over one wish.

    :param run_id: goes into the provenance header of every record; 16 hexadecimal digits.
    :param plan: of the try before, or None if this one has to plan.
    :param target_ends: ends of the target's partitions before the run's first submission; empty if there was none.
    :param application_id: of the latest try that was seen to start.
    :param submitted_at_ms: when the run's first submission was about to start, in ms since 1970; None if there was none.
    """

    run_id: str
    generation: int
    clear_number: int
    plan: ReplayPlan | None = None
    target_ends: Mapping[str, Mapping[int, int]] | None = None
    submitted_at_ms: int | None = None
    finished: bool = False
    application_id: str | None = None

    @property
    def has_submitted(self) -> bool:
        """Whether an earlier try may have written records."""
        return self.submitted_at_ms is not None


class RunStateStore:
    """The state of this task instance, for one wish.

    :param context: of the running task.
    :param wish: what the author asked for, rendered. It is part of the key, since the store is keyed by map index, which an expanded list may shift.
    """

    def __init__(self, context: Mapping[str, Any], wish: Mapping[str, Any]) -> None:
        ti = context["ti"]
        text = json.dumps(wish, sort_keys=True, default=str)
        identity = [ti.dag_id, ti.task_id, ti.run_id, ti.map_index, text]
        self._store = context["task_state_store"]
        self._identity = json.dumps(identity)
        self._key = f"{_KEY}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self._clear_number = getattr(context.get("dag_run"), "clear_number", None) or 0

    def load(self) -> RunState:
        """The state to start this try from."""
        stored = self._store.get(self._key)
        if not isinstance(stored, dict):
            return self._fresh(0)
        generation = int(stored["generation"])
        if stored["finished"]:
            return self._fresh(generation + 1)
        plan = ReplayPlan.from_dict(stored["plan"]) if stored["plan"] is not None else None
        state = RunState(
            run_id=self._run_id(generation),
            generation=generation,
            clear_number=int(stored["clear_number"]),
            plan=plan,
            target_ends={t: {int(p): end for p, end in ends.items()} for t, ends in stored["target_ends"].items()},
            submitted_at_ms=stored["submitted_at_ms"],
            application_id=stored["application_id"],
        )
        # A clear wants a new plan; what was delivered before it stays delivered.
        return (
            state
            if state.clear_number == self._clear_number
            else replace(state, plan=None, clear_number=self._clear_number)
        )

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

    def finished(self, state: RunState) -> RunState:
        """Remember that all was delivered."""
        return self._save(replace(state, finished=True))

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
                "finished": state.finished,
                "plan": None if state.plan is None else state.plan.to_dict(),
                "target_ends": {t: {str(p): end for p, end in by.items()} for t, by in ends.items()},
                "submitted_at_ms": state.submitted_at_ms,
                "application_id": state.application_id,
            },
        )
        return state
