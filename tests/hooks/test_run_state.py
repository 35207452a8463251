"""Promises of :mod:`airflow_provider_kafka_spark.hooks.run_state`: what a task remembers between its tries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.plan import ReplayPlan, Target
from airflow_provider_kafka_spark.hooks.run_state import RunState, RunStateStore
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context

WISH = {"offset_ranges": ["orders:0:0:10"], "target": [None, "copy", None]}


def plan_of(*ranges: str, target_end: int = 5) -> ReplayPlan:
    return ReplayPlan(
        source_cluster_id="cluster",
        target_cluster_id="cluster",
        target=Target("copy"),
        ranges=OffsetRanges.parse(ranges or ["orders:0:0:10"]),
        topic_ids={"orders": "id"},
        partition_counts={"orders": 1},
        target_ends={"copy": {0: target_end}},
        spark_partitions=1,
    )


PLAN = plan_of()


def load(store: TaskStateStore, wish: dict[str, Any] | None = None, **context: Any) -> tuple[RunStateStore, RunState]:
    """Start one try, as a worker that knows nothing but the store does."""
    opened = RunStateStore(task_context(store, **context), WISH if wish is None else wish)
    return opened, opened.load()


def submitted(store: TaskStateStore, plan: ReplayPlan = PLAN, now_ms: int = 1_000, **context: Any) -> RunState:
    """One try that came as far as the submission."""
    opened, state = load(store, **context)
    opened.submitting(state, plan, now_ms)
    return state


def test_a_first_try_knows_nothing() -> None:
    """There is no plan and no submission, and the run id is 16 hexadecimal digits."""
    _, state = load(TaskStateStore())

    assert (state.plan, state.target_ends, state.submitted_at_ms, state.has_submitted) == (None, None, None, False)
    assert len(state.run_id) == 16
    assert int(state.run_id, 16) >= 0


def test_a_retry_uses_the_plan_of_the_first_try() -> None:
    """Run id, plan, target ends and the time of the submission come back as they were stored."""
    store = TaskStateStore()
    first = submitted(store)

    _, retry = load(store)

    assert (retry.run_id, retry.plan, retry.target_ends) == (first.run_id, PLAN, PLAN.target_ends)
    assert (retry.submitted_at_ms, retry.has_submitted) == (1_000, True)


def test_a_second_submission_keeps_where_the_first_began() -> None:
    """What the target held before the first submission stays the start of the audit, however often it is submitted."""
    store = TaskStateStore()
    submitted(store, plan_of(target_end=5), now_ms=1_000)
    submitted(store, plan_of(target_end=99), now_ms=2_000)

    _, state = load(store)

    assert (state.target_ends, state.submitted_at_ms) == ({"copy": {0: 5}}, 1_000)


def test_a_retry_knows_the_application_of_the_try_before() -> None:
    """A try whose worker died leaves its application's id, so that the next one can wait for its end."""
    store = TaskStateStore()
    opened, state = load(store)
    opened.started(opened.submitting(state, PLAN, 1_000), "application_1_0001")

    _, retry = load(store)

    assert (retry.application_id, retry.plan, retry.submitted_at_ms) == ("application_1_0001", PLAN, 1_000)


def test_a_clear_before_the_end_plans_anew_and_remembers_deliveries() -> None:
    """The plan is dropped; run id and target ends stay, so that what was delivered is not written again."""
    store = TaskStateStore()
    first = submitted(store)

    _, cleared = load(store, clear_number=1)

    assert cleared.plan is None
    assert (cleared.run_id, cleared.target_ends, cleared.submitted_at_ms) == (first.run_id, PLAN.target_ends, 1_000)


def test_a_retry_after_a_clear_uses_the_new_plan() -> None:
    """The plan made after a clear is in turn the one of its retries."""
    store, later = TaskStateStore(), plan_of("orders:0:0:20")
    submitted(store)
    submitted(store, later, clear_number=1)

    _, retry = load(store, clear_number=1)

    assert retry.plan == later


@pytest.mark.parametrize("clear_number", [pytest.param(1, id="clear"), pytest.param(0, id="same-clear-number")])
def test_a_run_after_a_success_is_a_new_one(clear_number: int) -> None:
    """Clearing a green task is a wish to copy again: another run id, no plan, nothing taken for delivered."""
    store = TaskStateStore()
    opened, state = load(store)
    opened.finished(opened.submitting(state, PLAN, 1_000))

    _, again = load(store, clear_number=clear_number)

    assert again.run_id != state.run_id
    assert (again.plan, again.target_ends, again.has_submitted) == (None, None, False)


@pytest.mark.parametrize(
    ("wish", "ti"),
    [
        pytest.param(WISH, TaskInstance(map_index=1), id="another-map-item"),
        pytest.param(WISH, TaskInstance(run_id="another"), id="another-dag-run"),
        pytest.param(WISH, TaskInstance(task_id="another"), id="another-task"),
        pytest.param({**WISH, "offset_ranges": ["orders:0:0:11"]}, TaskInstance(), id="other-ranges"),
        pytest.param({**WISH, "target": [None, "other", None]}, TaskInstance(), id="another-target"),
    ],
)
def test_run_ids_differ(wish: dict[str, Any], ti: TaskInstance) -> None:
    """No two tasks, map items or wishes share the id by which deliveries are recognised."""
    _, one = load(TaskStateStore())
    _, other = load(TaskStateStore(), wish, ti=ti)

    assert one.run_id != other.run_id


def test_other_ranges_at_the_same_map_index_inherit_nothing() -> None:
    """A list that is expanded anew may put other ranges at an index: they do not get its plan."""
    store = TaskStateStore()
    submitted(store)

    _, other = load(store, {**WISH, "offset_ranges": ["orders:0:10:20"]})

    assert (other.plan, other.has_submitted) == (None, False)


def test_what_is_stored_is_plain_json() -> None:
    """Airflow stores JSON: what comes back from it is what was put in."""
    store = TaskStateStore()
    submitted(store)
    store.values = json.loads(json.dumps(store.values))

    _, retry = load(store)

    assert (retry.plan, retry.target_ends) == (PLAN, {"copy": {0: 5}})
