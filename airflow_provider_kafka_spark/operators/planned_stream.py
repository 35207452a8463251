"""The plan of a stream's next run, by one look at the checkpoint and at each cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition, by_topic
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint, StreamManifest
from airflow_provider_kafka_spark.core.streams.stream_plan import Reset, StreamPlan, resolve_stream
from airflow_provider_kafka_spark.core.topics.bounds import Bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.resolve import timestamps_in
from airflow_provider_kafka_spark.core.topics.starts import GroupStart, parse_any_start
from airflow_provider_kafka_spark.core.wire.protocol import History, StreamRequest, Transform
from airflow_provider_kafka_spark.operators.new_targets import plan_for_target
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder

if TYPE_CHECKING:
    from airflow.sdk import Context


def plan_stream(
    task_try: TaskTry,
    folder: CheckpointFolder,
    checkpoint: Checkpoint | None,
    stale_lock: str | None,
    *,
    is_retry: bool,
) -> tuple[StreamPlan, PlannedCopy]:
    """Decide everything.

    :param stale_lock: of a run that is gone, or None.
    :param is_retry: an earlier try of this task has begun what must be finished, whatever has arrived since.
    :raises KafkaSparkError: if it cannot be carried out.
    """
    parameters, target = task_try.parameters, task_try.target_state()
    stream_plan, source = _resolve(task_try, checkpoint, target)
    check_topics(task_try.source, source.topics, "READ")
    is_unfinished = stream_plan.uncommitted_batch is not None

    def check(plan: ReplayPlan, _: ClusterState) -> None:
        if not is_unfinished and not is_retry:
            task_try.check_size(plan)

    plan, target = plan_for_target(task_try, stream_plan.resolved, source, target, check)
    stream_plan = stream_plan.before(plan.target_ends, plan.target_ids)
    task_try.check_target(target, reads_back=is_unfinished)
    finds_delivered = parameters.transform.provenance.in_headers or parameters.is_exactly_once
    _log_plan(task_try, plan, stream_plan, checkpoint, parameters.selection["starting_offsets"], finds_delivered)
    task_try.log_pace(plan)
    task_try.log_path(parameters.transform, target, plan)
    lags = task_try.check_pace(target) + task_try.lag_of_source(parameters.selection["commit_group_id"], source)
    task_try.check_timestamps(target, plan)
    stream = _stream_request(task_try, folder, checkpoint, stream_plan, plan, stale_lock)
    run_id, history = stream_plan.manifest.stream_id, History()
    if checkpoint is not None and checkpoint.manifest is not None and is_unfinished:
        # The records of the batch have the id of the stream that began it.
        run_id = checkpoint.manifest.stream_id
        history = _history(checkpoint.manifest, parameters.transform, stream_plan.uncommitted, target)
    planned = planned_stream(task_try, stream_plan, plan, stream, run_id, history)
    return stream_plan, replace(planned, look=LogLook.of(source, target, task_try.rules, OffsetRanges(), lags))


def planned_stream(
    task_try: TaskTry,
    stream_plan: StreamPlan,
    plan: ReplayPlan,
    stream: StreamRequest,
    run_id: str,
    history: History | None = None,
) -> PlannedCopy:
    """
    :param run_id: of what is finished first.
    :param history: of a batch that is finished first.
    """
    parameters, uncommitted = task_try.parameters, stream_plan.uncommitted
    return PlannedCopy(
        run_id=run_id,
        instance=run_id,
        parameters=parameters,
        plan=plan,
        transform=parameters.transform.of_topics({r.topic for r in (*plan.ranges, *uncommitted)}),
        ranges=uncommitted,
        spans=plan_spans(uncommitted),
        how=task_try.how,
        allow_same_topic=task_try.worker.allow_same_topic,
        history=history or History(),
        client_id=task_try.client_id,
        title=task_try.title,
        stream=stream,
    )


def _history(began: StreamManifest, transform: Transform, batch: OffsetRanges, target: ClusterState) -> History:
    """What is known of an uncommitted batch.

    :param began: the manifest of the run that began it.
    """
    targets = transform.of_topics({r.topic for r in batch}).targets
    return History(has_begun=True, target_starts=target.ends_then(targets, began.target_ends, began.target_ids))


def _stream_request(
    task_try: TaskTry,
    folder: CheckpointFolder,
    checkpoint: Checkpoint | None,
    stream_plan: StreamPlan,
    plan: ReplayPlan,
    stale_lock: str | None,
) -> StreamRequest:
    """The checkpoint, and how the job uses it."""
    last, unfinished = -1, None
    if checkpoint is not None and stream_plan.uncommitted_batch is not None:
        last, unfinished = stream_plan.uncommitted_batch, folder.generation_uri(checkpoint.number)
    elif checkpoint is not None and checkpoint.committed is not None and not stream_plan.is_new:
        last = checkpoint.committed.number
    return StreamRequest(
        stream_id=stream_plan.manifest.stream_id,
        planned=plan.ranges,
        source=_subscription(plan, is_assigned=task_try.parameters.selection["assign"] is not None),
        starting_offsets=_starting_json(stream_plan, plan),
        checkpoint=folder.generation_uri(stream_plan.generation),
        manifest=stream_plan.manifest.to_json(),
        last_batch=last,
        lock=folder.lock_uri,
        latest_submission=folder.submission_uri,
        stale_lock=stale_lock,
        owner=_owner(task_try.context),
        unfinished_batch=stream_plan.uncommitted_batch,
        unfinished_checkpoint=unfinished,
        max_offsets_per_trigger=task_try.worker.max_offsets_per_trigger,
    )


def _subscription(plan: ReplayPlan, *, is_assigned: bool) -> dict[str, str]:
    """The matched names, since Spark's own pattern is an unanchored search."""
    by_topic = plan.ranges.by_topic()
    if not is_assigned:
        return {"subscribe": ",".join(by_topic)}
    assign = {topic: [r.partition for r in of_topic] for topic, of_topic in by_topic.items()}
    return {"assign": json.dumps(assign)}


def _starting_json(stream_plan: StreamPlan, plan: ReplayPlan) -> str:
    """The offsets of Spark's first batch; a partition that is added later starts at its earliest offset, -2."""
    starting = stream_plan.manifest.starting
    return json.dumps(by_topic({p: starting.get(p, -2) for p in plan.ranges.topic_partitions}))


def _log_plan(
    task_try: TaskTry,
    plan: ReplayPlan,
    stream_plan: StreamPlan,
    checkpoint: Checkpoint | None,
    starting_offsets: object,
    finds_delivered: bool,
) -> None:
    """Log what the next run does, and what it does not do.

    :param checkpoint: as it is before the run.
    :param starting_offsets: the parameter.
    :param finds_delivered: the job finds out which records of an uncommitted batch the target already has.
    """
    task_try.log.info("The plan of stream %s:\n%s", stream_plan.manifest.stream_id, plan.table())
    if checkpoint is not None and stream_plan.is_new:
        task_try.log.warning(
            "Starting generation %s of the checkpoint; generation %s stays as it is.",
            stream_plan.generation,
            checkpoint.number,
        )
    elif checkpoint is not None and starting_offsets is not None:
        task_try.log.info("Ignoring starting_offsets=%r: the stream resumes from its checkpoint.", starting_offsets)
    batch = checkpoint.uncommitted if checkpoint is not None else None
    if checkpoint is not None and batch is not None and stream_plan.uncommitted_batch is None:
        task_try.log.warning(
            "Batch %s of generation %s is uncommitted and is not finished: %s.",
            batch.number,
            checkpoint.number,
            ", ".join(first_ten(checkpoint.uncommitted_ranges.format())) or "no records",
        )
    if batch is not None and stream_plan.uncommitted:
        task_try.log.warning(
            "Batch %s of an earlier run is uncommitted: %s. It is finished first, with exactly these offsets; %s.",
            batch.number,
            ", ".join(first_ten(stream_plan.uncommitted.format())),
            "records that the target already has are not written again"
            if finds_delivered
            else "all of it is written again, since without provenance headers there is no way to find what the target "
            "already has",
        )
    if stream_plan.added:
        added = first_ten([str(p) for p in stream_plan.added])
        task_try.log.info("New to the stream, and read from their beginning: %s.", ", ".join(added))


def _resolve(task_try: TaskTry, checkpoint: Checkpoint | None, target: ClusterState) -> tuple[StreamPlan, ClusterState]:
    """The next run of the stream, and the state of the source that it was resolved against."""
    parameters, records = task_try.parameters, task_try.parameters.selection
    selection = Selection(records["topics"], records["topic_pattern"], records["assign"])
    reset = _reset(records["reset_checkpoint_to"], task_try.context["ti"].run_id)
    if reset is not None:
        start: Bound | GroupStart | None = reset.start
        begins = not reset.is_done(checkpoint)
    else:
        starting = records["starting_offsets"]
        start = None if starting is None else parse_any_start(starting)
        begins = checkpoint is None
    name = "starting_offsets" if reset is None else "reset_checkpoint_to"
    begin, cluster = _source_state(task_try, selection, checkpoint, start, name, begins=begins)
    if reset is not None:
        reset = replace(reset, group_stands_at=begin)
    binding = Binding.of(parameters, cluster.cluster_id, target.cluster_id)
    form, new_id = BatchForm.of(parameters), uuid4().hex[:16]
    return resolve_stream(checkpoint, binding, form, selection, begin, reset, cluster, task_try.rules, new_id), cluster


def _source_state(
    task_try: TaskTry,
    selection: Selection,
    checkpoint: Checkpoint | None,
    start: Bound | GroupStart | None,
    name: str,
    *,
    begins: bool,
) -> tuple[Bound | None, ClusterState]:
    """Where a stream begins, and the topics that are selected, with those of the checkpoint.

    :param name: of the parameter that says the start.
    :param begins: and does not go on from its checkpoint.
    """
    chosen, source = task_try.parameters.selection, task_try.source
    # A reset goes on with nothing of the checkpoint.
    finished = frozenset[TopicPartition]() if checkpoint is None or begins else checkpoint.partitions
    known = {p.topic for p in finished}
    existing = source.topic_names(chosen["topics"] or chosen["assign"] or (), "READ")
    # A missing topic of the checkpoint is distinguished from a misspelt one later.
    selected = selection.matching(existing) if known else frozenset(selection.topic_names(existing))
    times = timestamps_in(start) if isinstance(start, Bound) else ()
    begin = start if isinstance(start, Bound) else None
    if isinstance(start, GroupStart) and begins:
        begin = source.start_of(start, selected, selection, name)
    asked = None if selection.assigned is None else {*selection.assigned, *finished}
    # A topic that the list lacks is asked for by name: one that the login may not see was not deleted.
    cluster = source.state(selected | known, times, "READ", only=asked)
    if checkpoint is not None and checkpoint.manifest is not None:
        cluster = replace(cluster, cut_at=source.cuts(checkpoint.manifest.reached, cluster))
    return begin, cluster


def _reset(to: Any, dag_run_id: str) -> Reset | None:
    """One text for each meaning, since the checkpoint stores it."""
    if to is None:
        return None
    return Reset(json.dumps(to, sort_keys=True) if isinstance(to, Mapping) else str(to), dag_run_id)


def _owner(context: Context) -> str:
    """This task's run, the same for all its tries."""
    ti = context["ti"]
    return f"task {ti.task_id!r} of DAG {ti.dag_id!r}, run {ti.run_id!r}" + (
        f", map index {ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    )
