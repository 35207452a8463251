"""The plan of a batch or a replay: that of an earlier try while it holds, or a new one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.core.copies.approved_plan import ApprovedPlan
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.ledger.coverage import plan_picture
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.shown_text import first_ten, shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics, recreated
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange, ResolvedRanges, resolve_replay
from airflow_provider_kafka_spark.core.wire.codec import decode
from airflow_provider_kafka_spark.core.wire.protocol import History, Transform
from airflow_provider_kafka_spark.operators.new_targets import created, plan_for_target
from airflow_provider_kafka_spark.operators.other_copies import left_to_copy
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore

#: Of the stored parameters of a replay.
KNOWN_TOPICS = "known_topics"
#: The exact offsets, if no plan says them, and the broker state they were resolved against.
Resolve = Callable[[TaskTry], tuple[ResolvedRanges, ClusterState]]

_RERUN = (
    "This task has delivered {:,} records before, under this run_id. on_rerun='missing_only': only what the target "
    "lacks is written."
)
_COPIES_AGAIN = (
    "This task has succeeded before. on_rerun='copy_again': everything is written again, under a new run_id, and the "
    "target keeps what it has."
)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The objects of a plan, some 70 for each partition, are in use to its end. Python would search them and all of
    Airflow's for cycles again and again, which takes half of the CPU of a plan of 10,000 partitions.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_garbage_collection()
def plan_bounded(
    task_try: TaskTry,
    store: RunStateStore,
    state: RunState,
    transform: Transform,
    resolve: Resolve,
    on_rerun: str,
    *,
    looks_beside: bool,
) -> tuple[RunState, PlannedCopy]:
    """Decide everything, by one look at each cluster.

    :param transform: how each record is changed.
    :param resolve: unless a plan says the offsets.
    :param on_rerun: what to do with what other runs have copied.
    :param looks_beside: note which offsets beside the plan have no record.
    :return: the run's state for this plan, and the plan.
    :raises KafkaSparkError: if it cannot be carried out.
    """
    resolved, source, target, cuts = _resolved_plan(task_try, state, resolve, on_rerun)
    transform = transform.of_topics({r.topic for r in resolved.ranges})
    state, plan = store.for_plan(state, resolved, transform, cuts)
    state = replace(state, instance=state.instance or task_try.instance(state.item))
    _check_and_log(task_try, state, plan, target, plan.warnings[len(resolved.warnings) :])
    path = task_try.log_path(transform, target, plan)
    lags = task_try.check_pace(target)
    empty = task_try.empty_after(plan, source) if looks_beside else OffsetRanges()
    is_rerun = state.earlier is not None and state.plan is None
    # A try without a stored state may adopt a run, and is the first one that is known to look.
    if is_rerun or state.submitted_at_ms is None:
        task_try.check_timestamps(target, plan)
    return state, PlannedCopy(
        run_id=state.run_id,
        instance=state.instance,
        parameters=task_try.parameters,
        plan=plan,
        transform=transform,
        path=path,
        ranges=plan.ranges.without_empty(),
        spans=plan_spans(plan.ranges, task_try.worker.max_records_per_partition),
        how=task_try.how,
        allow_same_topic=task_try.worker.allow_same_topic,
        history=_history(target, state, plan),
        is_lost=state.is_lost,
        client_id=task_try.client_id,
        title=task_try.title,
        look=LogLook.of(source, target, task_try.rules, empty, lags),
    )


def _check_and_log(
    task_try: TaskTry, state: RunState, plan: ReplayPlan, target: ClusterState, warnings: Sequence[str]
) -> None:
    """Check that the login may write to the target, and log the plan.

    :param warnings: the new ones; the table of the plan has all.
    :raises BrokerAuthorizationError: naming the missing permission.
    """
    for warning in first_ten(warnings):
        task_try.log.warning("%s", warning)
    task_try.check_target(target, reads_back=state.has_submitted)
    task_try.log.info("The plan of run %s:\n%s", state.run_id, plan.table())
    task_try.log_pace(plan)


def _resolved_plan(
    task_try: TaskTry, state: RunState, resolve: Resolve, on_rerun: str
) -> tuple[ReplayPlan, ClusterState, ClusterState, Mapping[TopicPartition, int]]:
    """The plan of an earlier try while it is valid, or else a new one; the clusters of source and target; and where the
    source's logs were cut that had reached further.
    """
    earlier, lost, target = state.plan, tuple[MissingRange, ...](), task_try.target_state()
    if earlier is not None:
        check_topics(task_try.source, earlier.topic_ids, "READ")
        source = task_try.source.state(
            earlier.topic_ids, only={*earlier.ranges.topic_partitions, *state.reached.offsets}
        )
        cuts = task_try.source.cuts(state.reached, source)
        lost = earlier.losses(source, task_try.rules, cuts)
        # Of what another run had copied to a topic that was deleted since, the plan has nothing.
        gone = not task_try.worker.follows_trigger and _lacks_targets(earlier, target)
        if not lost and not gone and earlier.target_cluster_id == target.cluster_id:
            task_try.log.info("Reusing the plan of an earlier try of this run.")
            routes = earlier.target.routes(earlier.topic_ids)
            new = task_try.worker.new_targets.planned(task_try, routes, source, target)
            return earlier, source, created(task_try, new, target, earlier), cuts
        task_try.log.warning("The plan of an earlier try of this run is no longer valid; making a new one.")
    is_clear = state.earlier is not None
    plan, source, target = _new_plan(task_try, resolve, target, on_rerun, is_clear=is_clear)
    if state.earlier is not None:
        warnings = [_RERUN.format(state.earlier.records)]
    else:
        warnings = [_COPIES_AGAIN] if state.copies_again else []
    plan = replace(plan, missing=(*plan.missing, *lost), warnings=(*plan.warnings, *warnings))
    return plan, source, target, task_try.source.cuts(state.reached, source)


def _lacks_targets(plan: ReplayPlan, target: ClusterState) -> bool:
    """Whether a target of the plan was deleted, and perhaps recreated, since it was made."""
    ids = {name: topic.topic_id for name, topic in target.topics.items()}
    return not plan.target_ids.keys() <= ids.keys() or bool(recreated(plan.target_ids, ids))


def _new_plan(
    task_try: TaskTry, resolve: Resolve, target: ClusterState, on_rerun: str, *, is_clear: bool
) -> tuple[ReplayPlan, ClusterState, ClusterState]:
    approved = ApprovedPlan.from_selection(task_try.parameters.selection)
    resolved, source = resolve(task_try) if approved is None else resolve_ranges(task_try)
    if approved is not None:
        resolved = replace(resolved, missing=(*approved.missing, *resolved.missing))

    def check(plan: ReplayPlan, planned_target: ClusterState) -> ResolvedRanges | None:
        if approved is not None:
            approved.check(plan)
        task_try.check_size(plan)
        # A plan says all that would be copied.
        is_asked = not task_try.worker.plan_only
        others = left_to_copy(task_try, plan, planned_target, on_rerun, is_clear=is_clear) if is_asked else None
        if others is None:
            return None
        left, warning = others
        return replace(resolved, ranges=left, warnings=(*resolved.warnings, warning), leaves_out=True)

    plan, target = plan_for_target(task_try, resolved, source, target, check)
    _log_picture(task_try, plan, source)
    return plan, source, target


def resolve_ranges(task_try: TaskTry) -> tuple[ResolvedRanges, ClusterState]:
    """Ranges that were given, and the broker state they were resolved against."""
    records = task_try.parameters.selection
    ranges = OffsetRanges.parse(records["offset_ranges"])
    # A plan compares more than this.
    known = decode(KnownTopics, records[KNOWN_TOPICS]) if KNOWN_TOPICS in records else None
    topics = {r.topic for r in ranges}
    cluster = task_try.source.state(topics, operation="READ", only=ranges.topic_partitions)
    check_topics(task_try.source, topics, "READ")
    return resolve_replay(ranges, cluster, task_try.rules, known), cluster


def _log_picture(task_try: TaskTry, plan: ReplayPlan, source: ClusterState) -> None:
    """Say first what will be done, and show where the plan lies in its topics."""
    if plan.is_empty:
        return
    states = {p: source.partition(p) for p in plan.ranges.topic_partitions}
    log = {p: (state.log_start, state.high_watermark) for p, state in states.items()}
    missing = OffsetRanges.parse([m.offset_range for m in plan.missing], merge_overlaps=True)
    task_try.log.info(
        "To copy: at most %s records of %s to %s.\n%s",
        f"{plan.planned_records:,}",
        shortened(sorted({r.topic for r in plan.ranges})),
        plan.target,
        plan_picture(plan.ranges, missing, log),
    )


def _history(target: ClusterState, state: RunState, plan: ReplayPlan) -> History:
    """What is known of a run before a try that has this plan."""
    earlier = None if state.earlier is None else state.earlier.still_there(plan.target_ids)
    ends, ids = state.first_targets(plan)
    starts = target.ends_then(plan.target_topics, ends or {}, ids)
    return History(state.submitted_at_ms is not None, state.adopts_run, state.former_run_ids, starts, earlier)
