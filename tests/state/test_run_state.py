"""Promises of :mod:`airflow_provider_kafka_spark.state.run_state`: what a task remembers between its tries."""

from __future__ import annotations

import json
import logging
import random
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.plan import PLAN_VERSION, ReplayPlan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.errors import AlreadyDeliveredError, InvalidInputError, ProtocolError
from airflow_provider_kafka_spark.core.ledger.entry import Delivery
from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import EarlierDelivery, JobReport, StreamRequest, Transform
from airflow_provider_kafka_spark.core.wire.state_parts import published
from airflow_provider_kafka_spark.state.parameter_store import ParameterStore
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore, TryNumbers
from airflow_provider_kafka_spark.state.stream_state import DeferredStream, StreamRunStore
from airflow_provider_kafka_spark.state.task_state import RUN_KEY, TaskState, remember_success
from tests.airflow_fakes import TaskInstance, TaskStateStore, Try, task_context
from tests.core.ledger.test_coverage import entry as ledger_entry
from tests.core.refusals import refuses
from tests.dataclass_values import values_of

STREAM_ID = "0123456789abcdef"
TRANSFORM = Transform(topic="copy")
IDS = {"copy": "id"}
RESULT = {
    "version": 1,
    "run_id": "1",
    "records_written": 3,
    "target_ranges": [{"topic": "copy", "partition": 0, "from_offset": 5, "until_offset": 8}],
    "ranges": [
        {
            "topic": "orders", "partition": 0, "from_offset": i, "until_offset": i + 1, "records_read": 1,
            "records_written": 1,
        }
        for i in range(3)
    ],
    "warnings": [],
}  # fmt: skip


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
STREAM = StreamRequest(
    stream_id=STREAM_ID,
    planned=PLAN.ranges,
    source={},
    starting_offsets="",
    checkpoint="generation-0",
    manifest="",
    last_batch=2,
    lock="",
    latest_submission="",
    owner="task",
)


@pytest.fixture
def store() -> TaskStateStore:
    return TaskStateStore()


def load(
    store: TaskStateStore, item: str = "", on_rerun: str = "missing_only", **context: Any
) -> tuple[RunStateStore, RunState]:
    """Start one try, as a worker that knows nothing but the store does, which gives back what JSON makes of it."""
    store.values = json.loads(json.dumps(store.values))
    opened = RunStateStore(task_context(store, **context), "task")
    opened.begin()
    return opened, opened.load(on_rerun, item)


def submitted(
    store: TaskStateStore, plan: ReplayPlan = PLAN, now_ms: int = 1_000, delivery: str = EXACTLY_ONCE, **context: Any
) -> RunState:
    """One try that came as far as the submission."""
    opened, state = load(store, **context)
    state, plan = opened.for_plan(replace(state, instance=state.instance or "instance"), plan, TRANSFORM, {})
    return opened.submitting(state, plan, now_ms, delivery)


def finished(store: TaskStateStore, result: dict[str, Any] = RESULT, **context: Any) -> RunState:
    """One try that delivered all."""
    opened, state = load(store, **context)
    state, plan = opened.for_plan(state, PLAN, TRANSFORM, {})
    return finish(opened, opened.submitting(state, plan, 1_000, EXACTLY_ONCE), result)


def finish(opened: RunStateStore, state: RunState, result: dict[str, Any] = RESULT) -> RunState:
    return opened.finished(state, {**result, "run_id": state.run_id}, report_of(result))


def report_of(result: dict[str, Any]) -> JobReport:
    """Nobody else writes to the target."""
    ends = {"copy": {0: max(r["until_offset"] for r in result["target_ranges"])}}
    return JobReport("1", "", (), ("copy",), "", "", 1.0, delivery_key="key", target_ids=IDS, target_ends=ends)


def test_a_clear_searches_where_records_were_delivered_in_front_of_where_the_run_began() -> None:
    """As in a log that was cut before the claim, and is longer again."""
    store = TaskStateStore()
    opened = RunStateStore(task_context(store), "task")
    state, plan = opened.for_plan(opened.load(), plan_of("orders:0:0:3", target_end=100), TRANSFORM, {})
    report = replace(report_of(RESULT), target_ends={"copy": {0: 150}})
    state = opened.submitting(state, plan, 1_000, EXACTLY_ONCE)
    state = opened.finished(state, {**RESULT, "run_id": state.run_id}, report).after_delivery()

    assert state.earlier is not None
    assert state.earlier.searched.format() == ["copy:0:5:8", "copy:0:100:150"]


def earlier(ranges: tuple[str, ...], announced: tuple[str, ...]) -> EarlierDelivery:
    delivered = OffsetRanges.parse(ranges)
    return EarlierDelivery("key", 3, delivered, OffsetRanges.parse(announced), IDS, searched=delivered)


def succeed(store: TaskStateStore, **parameters: Any) -> None:
    """What Airflow does when a task has succeeded."""
    remember_success({"task": SimpleNamespace(task_id="task", **parameters), **task_context(store)})  # type: ignore[arg-type]


def succeeded(store: TaskStateStore, result: dict[str, Any] = RESULT, **context: Any) -> RunState:
    """One task that delivered all and succeeded."""
    state = finished(store, result, **context)
    succeed(store)
    return state


def test_a_first_try_knows_nothing() -> None:
    """Nobody can predict the run id, or another writer could pass its own records off as delivered by this run."""
    _, state = load(TaskStateStore())
    _, other = load(TaskStateStore())

    assert (state.plan, state.target_ends, state.submitted_at_ms, state.has_submitted) == (None, None, None, False)
    assert len(state.run_id) == 16
    assert int(state.run_id, 16) >= 0
    assert state.run_id != other.run_id


@pytest.mark.parametrize(("now_ms", "number"), [(9_000, 9_000), (1_000, 1_001), (5, 1_001)])
def test_the_number_of_a_submission_is_the_clock_and_only_grows(
    store: TaskStateStore, now_ms: int, number: int
) -> None:
    """What the target held before the first submission stays the start of the audit."""
    first = submitted(store, plan_of(target_end=5), now_ms=1_000)

    second = submitted(store, plan_of(target_end=99), now_ms=now_ms)

    _, state = load(store)
    assert (first.submission, second.submission, state.submission) == (1_000, number, number)
    assert (state.target_ends, state.submitted_at_ms) == ({"copy": {0: 5}}, 1_000)


def test_progress_that_does_not_count(store: TaskStateStore) -> None:
    """A try at least once commits none. It counts again when a later submission commits its own."""
    exact = submitted(store, now_ms=1_000)
    plain = submitted(store, now_ms=2_000, delivery="at_least_once")
    again = submitted(store, now_ms=3_000)
    assert [state.untrusted_until for state in (exact, plain, again)] == [0, 2_000, 2_000]

    opened, state = load(store)
    opened.distrusted(opened.submitting(state, PLAN, 7_000, EXACTLY_ONCE))
    _, retry = load(store)
    assert (retry.untrusted_until, retry.plan, retry.result) == (7_000, PLAN, None)


@pytest.mark.parametrize(
    ("context", "adopts", "is_lost"),
    [
        pytest.param({"ti": Try()}, False, False, id="first-try"),
        pytest.param({"ti": Try(try_number=2)}, True, True, id="retry"),
        pytest.param({"ti": Try(try_number=3, max_tries=6)}, True, True, id="clear"),
        pytest.param({"ti": TaskInstance()}, False, False, id="number-unknown"),
        # A map index that a clear has added may have an item that was copied from another index. Nothing is lost then.
        pytest.param({"item": "[0:10]", "clear_number": 1, "ti": Try()}, True, False, id="item-of-a-longer-list"),
        pytest.param({"item": "[0:10]", "clear_number": 0, "ti": Try()}, False, False, id="item"),
        pytest.param({"item": "", "clear_number": 1, "ti": Try()}, False, False, id="no-item"),
    ],
)
def test_a_try_without_state_takes_the_run_of_the_mark_if_there_may_be_one(
    store: TaskStateStore, context: dict[str, Any], adopts: bool, is_lost: bool
) -> None:
    """The store was lost: an earlier try may have delivered records under a run id that only the brokers know."""
    _, state = load(store, **context)

    assert (state.adopts_run, state.is_lost, state.has_submitted) == (adopts, is_lost, adopts)


def test_a_first_try_that_failed_in_planning_is_remembered(store: TaskStateStore) -> None:
    """Its retry takes no run of the brokers for its own, such as that of a deleted DAG run of the same id."""
    RunStateStore(task_context(store, ti=Try()), "task").begin()
    _, retry = load(store, ti=Try(try_number=2))
    _, cleared = load(store, clear_number=1, ti=Try(try_number=3, max_tries=6))

    for state in (retry, cleared):
        assert (state.adopts_run, state.is_lost, state.has_submitted) == (False, False, False)


def test_a_run_keeps_the_instance_that_it_began_with(store: TaskStateStore) -> None:
    """Also under another run id, so that its earlier drivers are fenced. Their marks are known by the run ids."""
    first = submitted(store, ti=Try())
    changed = submitted(store, replace(PLAN, source_cluster_id="B"), ti=Try(try_number=2))
    opened, state = load(store, ti=Try(try_number=3))
    finish(opened, state)
    succeed(store)
    _, again = load(store, on_rerun="copy_again", clear_number=1, ti=Try(try_number=4))

    assert (first.instance, changed.instance, again.instance) == ("instance",) * 3
    assert len({first.run_id, changed.run_id, again.run_id}) == 3
    assert again.former_run_ids == (first.run_id, changed.run_id)


@pytest.mark.parametrize("succeeds", [False, True])
def test_another_item_at_the_map_index_is_refused(store: TaskStateStore, succeeds: bool) -> None:
    """The list has grown at its front: this item may have been delivered from another index."""
    submitted(store, item="[0:10]", ti=Try())
    if succeeds:
        opened, state = load(store, item="[0:10]", ti=Try(try_number=2))
        finish(opened, state)
        succeed(store)
    cleared: dict[str, Any] = {"clear_number": 1, "ti": Try(try_number=3, max_tries=6)}

    with refuses(InvalidInputError, "The item at a map index must be", "DAG run, [0:10]; got [20:30].", "at its end"):
        load(store, item="[20:30]", **cleared)
    assert load(store, item="[0:10]", **cleared)[1].has_submitted


@pytest.mark.parametrize(
    ("first", "now", "is_refused"),
    [("a", "b", True), ("a", "a", False), (None, "b", False), ("a", None, False)],
    ids=["another", "the-same", "not-known-then", "not-known-now"],
)
def test_another_item_after_one_that_was_not_submitted(
    store: TaskStateStore, first: str | None, now: str | None, is_refused: bool
) -> None:
    """Another index may have delivered it. What its templates give may be another thing each time."""
    RunStateStore(task_context(store, ti=Try()), "task", lambda: first).begin()
    retry = RunStateStore(task_context(store, ti=Try(try_number=2)), "task", lambda: now)

    with pytest.raises(InvalidInputError, match="the list has changed") if is_refused else nullcontext():
        state = retry.load(item="[20:30]")
        assert (state.item, state.has_submitted) == ("[20:30]", False)


def test_a_first_try_of_a_version_that_stored_no_item_is_known(store: TaskStateStore) -> None:
    context = task_context(store, ti=Try(try_number=2))
    TaskState(context, "task").set(RUN_KEY, {"begun": "0123456789abcdef"})

    state = RunStateStore(context, "task", lambda: "b").load(item="[20:30]")

    assert (state.run_id, state.adopts_run) == ("0123456789abcdef", False)


def test_an_adopted_run_has_its_id_when_it_is_finished(store: TaskStateStore) -> None:
    """Until then a retry adopts the run of the mark, and where the target began is not known."""
    opened, state = load(store, ti=Try(try_number=2))
    opened.submitting(state, PLAN, 1_000, EXACTLY_ONCE)

    opened, retry = load(store, ti=Try(try_number=3))
    assert (retry.adopts_run, retry.target_ends, retry.target_ids, retry.plan) == (True, None, {}, PLAN)

    opened.finished(retry, {**RESULT, "run_id": "of the mark"}, report_of(RESULT))
    _, cleared = load(store, clear_number=1, ti=Try(try_number=4))
    assert (cleared.run_id, cleared.adopts_run, cleared.has_submitted) == ("of the mark", False, True)


@settings(max_examples=10)
@given(values_of(DeferredStream))
def test_the_job_of_a_deferred_stream_reads_back(job: DeferredStream) -> None:
    """The worker that collects its report knows all that was planned."""
    store = TaskStateStore()
    StreamRunStore(task_context(store), "task").deferring(job)

    assert StreamRunStore(task_context(store), "task").deferred == job


@settings(max_examples=10)
@given(
    values_of(
        RunState,
        # A result is packed, and decides together with the tries what is loaded; other tests have that.
        result=st.none(),
        succeeded=st.just(False),
        application_id=st.text(),
        try_numbers=st.just(TryNumbers(clear_number=0, max_tries=3, try_number=1)),
    )
)
def test_a_state_is_loaded_as_it_was_stored(state: RunState) -> None:
    store = TaskStateStore()
    opened = RunStateStore(task_context(store, ti=Try()), "task")
    opened.started(state, str(state.application_id))

    assert opened.load(item=state.item) == state


@pytest.mark.parametrize(
    "clear",
    [
        pytest.param({"clear_number": 1, "ti": Try(try_number=2)}, id="clear"),
        # Airflow's API can clear a task without its DAG run, which raises only the tries that it may have.
        pytest.param({"ti": Try(try_number=2, max_tries=4)}, id="clear-that-leaves-the-number"),
    ],
)
def test_a_clear_before_the_end_plans_anew_and_remembers_deliveries(
    store: TaskStateStore, clear: dict[str, Any]
) -> None:
    """What was delivered is not written again. The new plan is in turn the one of its retries."""
    later = plan_of("orders:0:0:20")
    first = submitted(store, ti=Try())

    _, retry = load(store, ti=Try(try_number=2))
    _, cleared = load(store, **clear)
    assert (retry.plan, cleared.plan) == (PLAN, None)
    assert retry.run_id == cleared.run_id == first.run_id
    assert (cleared.target_ends, cleared.submitted_at_ms) == (PLAN.target_ends, 1_000)

    submitted(store, later, **clear)
    assert load(store, **clear)[1].plan == later


@pytest.mark.parametrize(
    ("before", "after", "clear_number"),
    [
        pytest.param(Try(), Try(try_number=2), 1, id="clear"),
        pytest.param(Try(), Try(try_number=2, max_tries=4), 0, id="clear-that-leaves-the-number"),
        pytest.param(Try(), Try(), 0, id="the-same-try-by-hand"),
        pytest.param(Try(), Try(try_number=2), None, id="number-unknown"),
        pytest.param(TaskInstance(), TaskInstance(), 0, id="tries-unknown"),
        pytest.param(TaskInstance(), Try(try_number=2), 0, id="tries-unknown-before"),
    ],
)
def test_a_run_after_a_success_counts_what_was_delivered(
    store: TaskStateStore, before: TaskInstance, after: TaskInstance, clear_number: Any
) -> None:
    """Whatever may not be a retry: the target is looked at, from where it stands now."""
    first = succeeded(store, ti=before)

    _, again = load(store, clear_number=clear_number, ti=after)

    assert (again.run_id, again.has_submitted, again.untrusted_until) == (first.run_id, True, first.submission)
    assert (again.plan, again.target_ends, again.result) == (None, None, None)
    assert again.earlier == earlier(("copy:0:5:8",), ("copy:0:5:8",))


def test_what_may_be_in_the_target_twice_is_so_for_each_later_clear(store: TaskStateStore) -> None:
    """Its mark at the brokers may have expired by then."""
    for tries, may_have_duplicates in enumerate([True, False], start=1):
        evidence = CopyEvidence(TRANSFORM, may_have_duplicates=may_have_duplicates).to_dict()
        succeeded(
            store, {**RESULT, "evidence": evidence}, clear_number=tries, ti=Try(try_number=tries, max_tries=tries)
        )

    _, again = load(store, clear_number=3, ti=Try(try_number=3, max_tries=3))

    assert again.earlier is not None
    assert again.earlier.may_have_duplicates


@pytest.mark.parametrize("on_rerun", ["missing_only", "copy_again", "fail"])
def test_what_a_retry_does_is_not_for_on_rerun_to_say(store: TaskStateStore, on_rerun: str) -> None:
    """A task that has delivered everything, and did not succeed, returns its result."""
    first = finished(store, ti=Try())

    _, retry = load(store, on_rerun=on_rerun, ti=Try(try_number=2))
    _, cleared = load(store, on_rerun=on_rerun, clear_number=1, ti=Try(try_number=2))

    assert retry.result == first.result
    assert (cleared.run_id, cleared.earlier) == (first.run_id, earlier(("copy:0:5:8",), ()))


def test_a_run_after_a_success_may_be_refused(store: TaskStateStore) -> None:
    first = finished(store, ti=Try())
    opened = RunStateStore(task_context(store, clear_number=1, ti=Try(try_number=2)), "task")
    assert opened.load("fail").result is None
    succeed(store)

    with pytest.raises(AlreadyDeliveredError, match=f"delivered 3 records before, under run_id {first.run_id}"):
        opened.load("fail")


def test_a_retry_after_a_clear_still_knows_what_was_delivered(store: TaskStateStore) -> None:
    """Where the target stood before the clear's first submission is stored, and stays."""
    succeeded(store, ti=Try())
    submitted(store, plan_of(target_end=50), now_ms=2_000, clear_number=1, ti=Try(try_number=2, max_tries=4))
    submitted(store, plan_of(target_end=60), now_ms=3_000, clear_number=1, ti=Try(try_number=3, max_tries=4))

    _, retry = load(store, clear_number=1, ti=Try(try_number=4, max_tries=4))

    assert (retry.target_ends, retry.submitted_at_ms, retry.untrusted_until) == ({"copy": {0: 50}}, 1_000, 1_000)
    assert retry.earlier == earlier(("copy:0:5:8",), ("copy:0:5:8",))


def test_each_success_announces_what_it_delivered(store: TaskStateStore) -> None:
    """Only what no event has announced is left for the next one."""
    succeeded(store, ti=Try())
    more = [*RESULT["target_ranges"], {**RESULT["target_ranges"][0], "from_offset": 50, "until_offset": 52}]  # type: ignore[index]
    opened, state = load(store, clear_number=1, ti=Try(try_number=2, max_tries=4))
    state = opened.submitting(state, plan_of(target_end=50), 2_000, EXACTLY_ONCE)
    finish(opened, state, {**RESULT, "target_ranges": more})

    _, unannounced = load(store, clear_number=2, ti=Try(try_number=3, max_tries=5))
    succeed(store)
    _, announced = load(store, clear_number=2, ti=Try(try_number=3, max_tries=5))

    both = ("copy:0:5:8", "copy:0:50:52")
    assert unannounced.earlier == earlier(both, ("copy:0:5:8",))
    assert announced.earlier == earlier(both, both)
    # By default Airflow deletes a value 30 days after it was set; a run may be cleared later.
    assert set(store.retained.values()) == {NEVER_EXPIRE}


def test_a_clear_that_finds_no_records_announces_nothing(store: TaskStateStore) -> None:
    """What was delivered before it, and was in no event, is still to be announced."""
    finished(store, ti=Try())
    opened, state = load(store, clear_number=1, ti=Try(try_number=2, max_tries=4))
    opened.found_nothing(state)
    succeed(store)

    _, again = load(store, clear_number=2, ti=Try(try_number=3, max_tries=5))

    assert again.earlier == earlier(("copy:0:5:8",), ())


def test_a_clear_that_finds_no_records_does_not_undo_a_success(store: TaskStateStore) -> None:
    """The next one asks ``on_rerun``, until one has submitted something: its retries go on with that."""
    first = succeeded(store, ti=Try())
    opened, state = load(store, clear_number=1, ti=Try(try_number=2, max_tries=4))
    opened.found_nothing(state)
    succeed(store)

    with pytest.raises(AlreadyDeliveredError, match="has delivered 3 records before"):
        load(store, on_rerun="fail", clear_number=2, ti=Try(try_number=3, max_tries=5))
    opened, again = load(store, on_rerun="copy_again", clear_number=2, ti=Try(try_number=3, max_tries=5))
    opened.submitting(again, PLAN, 2_000, EXACTLY_ONCE)
    _, retry = load(store, on_rerun="copy_again", clear_number=2, ti=Try(try_number=4, max_tries=5))

    assert (again.copies_again, retry.copies_again) == (True, True)
    assert first.run_id != again.run_id == retry.run_id


@pytest.mark.parametrize("plans_meanwhile", [False, True])
def test_a_clear_of_what_failed_after_the_delivery_writes_only_what_is_missing(
    store: TaskStateStore, plans_meanwhile: bool
) -> None:
    """A lost XCom or worker can fail a task that has delivered all: its clear does not request another copy."""
    first = finished(store, ti=Try(max_tries=0))
    if plans_meanwhile:
        succeed(store, plan_only=True)

    _, cleared = load(store, clear_number=1, ti=Try(try_number=2, max_tries=1))

    assert (cleared.run_id, cleared.untrusted_until) == (first.run_id, first.submission)
    assert (cleared.plan, cleared.has_submitted, cleared.result) == (None, True, None)
    assert cleared.earlier == earlier(("copy:0:5:8",), ())


def test_ten_thousand_ranges_are_stored_in_less_than_airflow_warns_of(store: TaskStateStore) -> None:
    """The plan while it is carried out, what was asked for, the ledger's entry, and the result."""
    drawn, at, ranges = random.Random(41), 0, []
    for _ in range(10_000):
        start, at = at + drawn.randrange(1, 900), at + 900 + drawn.randrange(1, 900)
        ranges.append(OffsetRange("orders", 0, start, at))
    plan = replace(PLAN, ranges=OffsetRanges(ranges))
    counts = [{**r.to_dict(), "records_read": r.size, "records_written": r.size, "topic_id": "id-1"} for r in ranges]
    opened, state = load(store)
    state, _ = opened.for_plan(state, plan, TRANSFORM, {})
    opened.submitting(state, plan, 1_000, EXACTLY_ONCE)
    ParameterStore(task_context(store), "task").save(
        {"records": {"offset_ranges": plan.ranges.to_json()}}, lambda: None
    )
    # One range for each partition: at random offsets its entry has 200 KB.
    logs = [f"orders:{p}:{r.from_offset}:{r.until_offset}" for p, r in enumerate(ranges)]
    entry = ledger_entry("1" * 16, *logs, log={"at": "2026-11-27T09:00:00+00:00", "source": logs, "target": logs})
    TaskState(task_context(store), "task").publish("ledger", short_entry(entry))
    sizes = {key: len(json.dumps(value)) for key, value in store.values.items()}
    _, retry = load(store)

    assert retry.plan == plan
    assert Delivery.parse(published(store.values, "ledger")) == Delivery.parse(entry)
    assert sum(size for key, size in sizes.items() if key.startswith("ledger")) > 65_535
    assert max(sizes.values()) < 65_535, sizes
    first = finished(store, {**RESULT, "ranges": counts}, ti=Try())
    assert max(len(json.dumps(value)) for value in store.values.values()) < 65_535
    _, delivered = load(store, ti=Try(try_number=2))
    assert (delivered.run_id, delivered.result) == (first.run_id, first.result)


@pytest.mark.parametrize(
    ("plan", "transform", "named"),
    [
        pytest.param(replace(PLAN, topic_ids={"orders": "id-2"}), TRANSFORM, "the topic 'orders'", id="topic"),
        pytest.param(replace(PLAN, source_cluster_id="B"), TRANSFORM, "the source cluster", id="source-cluster"),
        pytest.param(replace(PLAN, target_cluster_id="B"), TRANSFORM, "the target cluster", id="target-cluster"),
        pytest.param(PLAN, replace(TRANSFORM, where="offset > 3"), "where", id="where"),
        pytest.param(PLAN, replace(TRANSFORM, columns={"value": "key"}), "columns", id="columns"),
        pytest.param(PLAN, replace(TRANSFORM, provenance=Trace.NOTHING), "provenance", id="headers"),
    ],
)
@pytest.mark.parametrize("clear_number", [pytest.param(0, id="retry"), pytest.param(1, id="clear")])
def test_deliveries_of_another_origin_stand_for_nothing(
    store: TaskStateStore, plan: ReplayPlan, transform: Transform, named: str, clear_number: int
) -> None:
    """They would hide records of the same offsets. The application is still known."""
    opened, state = load(store)
    state, _ = opened.for_plan(state, PLAN, TRANSFORM, {})
    opened.started(opened.submitting(state, PLAN, 1_000, EXACTLY_ONCE), "application_1_0001")

    opened, loaded = load(store, clear_number=clear_number)
    fresh, warned = opened.for_plan(loaded, plan, transform, {})

    assert loaded.run_id == state.run_id != fresh.run_id
    assert (fresh.has_submitted, fresh.target_ends, fresh.application_id) == (False, None, "application_1_0001")
    (warning,) = warned.warnings
    assert f": {named}. " in warning
    assert state.run_id in warning
    assert fresh.run_id in warning
    assert warned.digest == plan.digest

    opened.submitting(fresh, warned, 2_000, EXACTLY_ONCE)
    opened, retry = load(store, clear_number=clear_number)
    assert opened.for_plan(retry, warned, transform, {})[0] == retry
    assert (retry.run_id, retry.plan, retry.submitted_at_ms) == (fresh.run_id, warned, 2_000)


@pytest.mark.parametrize("clear_number", [pytest.param(0, id="retry"), pytest.param(1, id="clear")])
def test_nothing_counts_of_a_log_that_was_cut(store: TaskStateStore, clear_number: int) -> None:
    """How far it had reached is known to every later try, by the furthest plan; a new run begins with its own."""
    p = TopicPartition("orders", 0)
    far, near = (replace(PLAN, reached=LogEnds({p: end}, {p: epoch})) for end, epoch in ((10, 2), (8, 3)))
    first = submitted(store, far)
    second = submitted(store, near)

    opened, state = load(store, clear_number=clear_number)
    kept, unwarned = opened.for_plan(state, near, TRANSFORM, {})
    fresh, warned = opened.for_plan(state, near, TRANSFORM, {p: 6})

    assert state.reached == far.reached
    assert first.run_id == second.run_id == kept.run_id != fresh.run_id
    assert unwarned.warnings == ()
    assert "the log of orders[0], which was cut at 6" in warned.warnings[0]
    assert opened.submitting(fresh, warned, 2_000, EXACTLY_ONCE).reached == near.reached


@pytest.mark.parametrize(
    ("earlier", "topic_ids", "counts"),
    [
        pytest.param([], {"orders": "id"}, True, id="the-same"),
        pytest.param([], {}, True, id="unknown"),
        # A topic that matches a pattern since then changes nothing for the others.
        pytest.param([], {"orders": "id", "added": "id-2"}, True, id="another-topic-too"),
        # What an earlier submission came from is not forgotten over one that did without that topic.
        pytest.param([{"orders": "id", "away": "id-1"}], {"orders": "id", "away": "id-2"}, False, id="away-meanwhile"),
    ],
)
def test_deliveries_of_the_same_origin_count(
    store: TaskStateStore, earlier: list[dict[str, str]], topic_ids: dict[str, str], counts: bool
) -> None:
    for ids in earlier:
        submitted(store, replace(PLAN, topic_ids=ids))
    first = submitted(store, clear_number=len(earlier))

    opened, cleared = load(store, clear_number=2)
    state, plan = opened.for_plan(cleared, replace(PLAN, topic_ids=topic_ids), TRANSFORM, {})

    assert (state.run_id == first.run_id, state.submitted_at_ms == 1_000, plan.warnings == ()) == (counts,) * 3


def resumed(context: dict[str, Any], task_id: str = "task") -> dict[str, Any]:
    """The parameters that a try with the same ones carries out."""
    return ParameterStore(context, task_id).resume(lambda: REQUESTED, logging.getLogger(__name__))


def test_operators_that_one_task_calls_share_nothing() -> None:
    context = task_context(TaskStateStore(), ti=Try())
    stores = [RunStateStore(context, task_id) for task_id in ("task", "first", "second")]
    ParameterStore(context, "first").save(REQUESTED, lambda: None)
    stores[1].submitting(stores[1].load(), PLAN, 1_000, EXACTLY_ONCE)

    assert [store.load().has_submitted for store in stores] == [False, True, False]
    assert [resumed(context, task_id) for task_id in ("task", "first", "second")] == [{}, REQUESTED, {}]


REQUESTED = {"topics": ["a", "b"], "ending_timestamp": 1_795_168_800_000, "where": None}


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param({"ti": Try(try_number=2)}, REQUESTED, id="retry"),
        pytest.param({"ti": Try(try_number=2), "clear_number": 1}, {}, id="clear"),
        pytest.param({"ti": Try(try_number=2, max_tries=4)}, {}, id="clear-that-leaves-the-number"),
    ],
)
def test_a_retry_knows_what_its_first_try_was_asked_for(
    store: TaskStateStore, context: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert resumed(task_context(store, ti=Try())) == {}
    ParameterStore(task_context(store, ti=Try()), "task").save(REQUESTED, lambda: None)
    store.values = json.loads(json.dumps(store.values))

    assert resumed(task_context(store, **context)) == expected


def stream(store: TaskStateStore, **context: Any) -> StreamRunStore:
    """Start one try of a stream."""
    return StreamRunStore(task_context(store, **context), "task")


def test_submissions_of_a_stream_have_growing_numbers(store: TaskStateStore) -> None:
    """Each try says up to which of the earlier ones committed progress does not count."""
    tries = [
        stream(store).submitting(STREAM, now_ms, delivery, 0)
        for now_ms, delivery in [(1_000, EXACTLY_ONCE), (1_000, "at_least_once"), (9_000, EXACTLY_ONCE)]
    ]
    assert tries == [(1_000, 0), (1_001, 0), (9_000, 1_001)]

    stream(store).distrusted()
    assert stream(store).submitting(STREAM, 9_500, EXACTLY_ONCE, 0) == (9_500, 9_000)


def test_numbers_exceed_all_that_are_known(store: TaskStateStore) -> None:
    assert stream(store).submitting(STREAM, 1_000, EXACTLY_ONCE, 5_000) == (5_001, 0)
    assert stream(store).submitting(STREAM, 1_000, EXACTLY_ONCE, 900) == (5_002, 0)
    runs = RunStateStore(task_context(store), "task")
    assert runs.submitting(runs.load(), PLAN, 1_000, EXACTLY_ONCE, known_number=7_000).submission == 7_001


def test_a_stream_is_finished_from_where_its_first_try_began(store: TaskStateStore) -> None:
    """Later tries do not read those batches again; another stream, or a success, begins anew."""
    stream(store).submitting(STREAM, 1_000, EXACTLY_ONCE, 0)
    later = replace(STREAM, planned=OffsetRanges.parse(["orders:0:4:10"]), last_batch=6)
    unfinished = replace(later, unfinished_batch=6, unfinished_checkpoint="generation-0")
    retry = stream(store)
    retry.submitting(later, 2_000, EXACTLY_ONCE, 0)

    assert retry.passed_before(later) == OffsetRanges.parse(["orders:0:0:4"])
    assert (retry.batches_before(later), retry.batches_before(unfinished)) == (range(3, 7), range(3, 6))
    other = replace(later, stream_id="f" * 16)
    assert (retry.passed_before(other), retry.batches_before(other)) == (OffsetRanges(), range(0))
    retry.finished(RESULT)
    succeed(store)
    assert stream(store).batches_before(later) == range(0)
    # A batch of the generation before is none of this one.
    assert replace(unfinished, checkpoint="generation-1").first_batch == 0


def test_a_retry_of_a_stream_that_delivered_all_has_the_result(store: TaskStateStore) -> None:
    first = stream(store, ti=Try())
    first.submitting(STREAM, 1_000, EXACTLY_ONCE, 0)
    first.finished(RESULT)

    assert stream(store, ti=Try(try_number=2)).result == RESULT
    assert stream(store, ti=Try(try_number=2), clear_number=1).result is None


@pytest.mark.parametrize(
    ("key", "load_it"),
    [
        pytest.param("kafka_spark_run", lambda context: RunStateStore(context, "task").load(), id="run"),
        pytest.param("kafka_spark_requested", resumed, id="request"),
        pytest.param("kafka_spark_stream", lambda context: StreamRunStore(context, "task"), id="stream"),
    ],
)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"version": 1}, "must be of version 8; got 1", id="version"),
        pytest.param({"colour": 1}, "unknown keys ['colour']", id="unknown-key"),
    ],
)
def test_a_state_of_another_version_is_an_error(
    store: TaskStateStore, key: str, load_it: Any, change: dict[str, Any], says: str
) -> None:
    """What was delivered is unknown then, so it is not guessed; the message says what to do."""
    context = task_context(store, ti=Try())
    submitted(store, ti=Try())
    ParameterStore(context, "task").save(REQUESTED, lambda: None)
    StreamRunStore(context, "task").submitting(STREAM, 1_000, EXACTLY_ONCE, 0)
    state = TaskState(context, "task")
    state.set(key, {**state.get(key), **change})

    with refuses(ProtocolError, f"The task's state '{key}'", says, "trigger a new run of the DAG"):
        load_it(context)


def test_a_plan_of_another_version_is_no_obstacle_to_a_clear(store: TaskStateStore) -> None:
    """A retry needs the plan, and its error says to clear the task; the clear keeps what is known of deliveries."""
    first = submitted(store)
    state = TaskState(task_context(store), "task")
    stored = state.get("kafka_spark_run")
    state.set("kafka_spark_run", {**stored, "plan": {**stored["plan"], "version": PLAN_VERSION - 1}})

    with pytest.raises(
        ProtocolError, match=rf"must be of version {PLAN_VERSION}; got {PLAN_VERSION - 1}\. Clear the task"
    ):
        load(store)
    _, cleared = load(store, clear_number=1)

    assert (cleared.run_id, cleared.plan, cleared.has_submitted) == (first.run_id, None, True)
