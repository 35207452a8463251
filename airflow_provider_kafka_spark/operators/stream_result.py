"""What a stream's report proves, together with the checkpoint, and the result of the task with its earlier tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.run_mark import judge_run
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import MappedBatch, joined, within
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.streams.verification import (
    check_stream,
    lag_of,
    report_of_nothing,
    result_of_stream,
)
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.operators.proof import check_counts
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder, finished_offsets
from airflow_provider_kafka_spark.state.stream_state import StreamRunStore

_UNKNOWN_TARGETS = (
    "Earlier tries of this task finished batches, and with target_topic_expr their target ranges are unknown: "
    "target_ranges and the asset event only have the ranges of this try."
)


@dataclass(frozen=True)
class Collected:
    """A proved report.

    :param finished: the offsets of the checkpoint after the job.
    """

    report: JobReport
    finished: Mapping[TopicPartition, int]
    warnings: tuple[str, ...] = ()


def collected_stream(
    task_try: TaskTry,
    store: StreamRunStore,
    folder: CheckpointFolder,
    stream_plan: StreamPlan,
    planned: PlannedCopy,
    submission: int,
    report: JobReport,
) -> Collected:
    """What the report proves.

    :param submission: its number.
    :raises KafkaSparkError: if report and checkpoint do not match the plan; the next try then looks at the target
        itself.
    """
    finished = finished_offsets(folder.location)
    try:
        check_stream(report, planned.plan, stream_plan.manifest.stream_id, finished, planned.transform)
        allow = task_try.worker.allow_duplicates
        warnings = check_counts(task_try.source, planned, report, allow_duplicates=allow)
    except KafkaSparkError:
        store.distrusted()
        judge_run(task_try.sink, planned.instance, submission, report.run_id, report.target_topics, proved=False)
        raise
    return Collected(report, finished, tuple(warnings))


def nothing_collected(planned: PlannedCopy, stream_plan: StreamPlan, checkpoint: Checkpoint | None) -> Collected:
    """Where the stream stands that has no new records."""
    nothing = report_of_nothing(planned.plan, stream_plan.manifest.stream_id)
    return Collected(nothing, {} if checkpoint is None else checkpoint.finished)


def finished_of(folder: CheckpointFolder, planned: PlannedCopy) -> OffsetRanges:
    """What of a plan the checkpoint has finished."""
    checkpoint = folder.read()
    ends = {} if checkpoint is None else checkpoint.finished
    reached = ((r, min(ends.get(r.topic_partition, 0), r.until_offset)) for r in planned.plan.ranges)
    return OffsetRanges(replace(r, until_offset=end) for r, end in reached if end > r.from_offset)


def stream_result(
    task_try: TaskTry,
    store: StreamRunStore,
    folder: CheckpointFolder,
    group: ConsumerGroup | None,
    stream_plan: StreamPlan,
    planned: PlannedCopy,
    collected: Collected,
) -> dict[str, Any]:
    """What the task returns, with what its earlier tries had finished.

    :param group: for lag monitors, or None.
    """
    finished, warnings = collected.finished, list(collected.warnings)
    stream_id, plan = stream_plan.manifest.stream_id, planned.plan
    existing = {p.topic for p in finished} & task_try.source.topic_names()
    after = task_try.source.state(existing, only=finished)
    if stream_plan.has_work:
        plan = plan.after_job(after, planned.rules, task_try.source.cuts(plan.reached, after))
    lags = lag_of(finished, after, planned.rules)
    committed = None if group is None else group.commit(finished)
    finished_before = store.finished_before(stream_id, plan.ranges)
    if finished_before and plan.target.topic_expr is not None:
        warnings.append(_UNKNOWN_TARGETS)
    for warning in first_ten([*collected.report.warnings, *warnings], "more warnings in the result"):
        task_try.log.warning("%s", warning)
    result = result_of_stream(collected.report, plan, stream_plan, lags, committed, tuple(warnings))
    written = _written_before(store, stream_id, plan, collected.report, result)
    mapped, may_repeat = _mapped_before(task_try, folder, stream_plan, planned, collected.report, finished_before)
    may_repeat = may_repeat or collected.report.may_have_duplicates
    return {
        **result,
        **mapped,
        "finished_before": finished_before.format(),
        "written_before": written,
        "evidence": planned.evidence(collected.report.target_ids, stream_id, may_have_duplicates=may_repeat),
    }


def _written_before(
    store: StreamRunStore, stream_id: str, plan: ReplayPlan, report: JobReport, result: dict[str, Any]
) -> list[dict[str, Any]]:
    """Where the target has what earlier tries had finished; dead letters are added to those of the result."""
    written = plan.targets(report.target_ids).marked(store.written_before(stream_id, plan.target_ends))
    dead = plan.target.dead_letters
    if dead is not None:
        result["dead_letters"]["ranges"] += [r for r in written if r["topic"] == dead]
    return [r for r in written if r["topic"] != dead]


def _mapped_before(
    task_try: TaskTry,
    folder: CheckpointFolder,
    stream_plan: StreamPlan,
    planned: PlannedCopy,
    report: JobReport,
    finished_before: OffsetRanges,
) -> tuple[dict[str, Any], bool]:
    """The segments of a result, with those of earlier tries; and whether those may be in the target more than once."""
    is_mapped = report.segments is not None or not report.records_written
    if not (finished_before and planned.transform.provenance.in_segments and is_mapped):
        return {}, False
    before = _segments(task_try, folder, stream_plan)
    segments = {*(report.segments or ()), *within(before.segments, finished_before)}
    mapped = {
        "segments": [s.to_dict() for s in joined(segments)],
        "mapped_before": before.ranges.intersect(finished_before).format(),
    }
    return mapped, bool(before.repeated.intersect(finished_before))


def _segments(task_try: TaskTry, folder: CheckpointFolder, stream_plan: StreamPlan) -> MappedBatch:
    """What finished batches have read and where its records are, as far as the checkpoint says it."""
    try:
        return folder.segments(stream_plan.generation)
    except KafkaSparkError as error:
        task_try.log.warning("The result has no segments of what earlier tries had finished: %s", error)
        return MappedBatch(OffsetRanges(), (), OffsetRanges())
