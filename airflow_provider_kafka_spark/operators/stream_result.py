"""What a stream's report proves, together with the checkpoint, and the result of the task with its earlier tries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.run_mark import judge_run
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.copies.verification import check_duplicates, faults_of_counts, faults_of_segments
from airflow_provider_kafka_spark.core.errors import BrokerError, KafkaSparkError, UncopiedRecordsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import joined
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.batch_notes import FinishedBatches
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.streams.verification import (
    check_stream,
    lag_of,
    report_of_nothing,
    result_of_stream,
)
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.operators.proof import check_counts, recounted
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder, finished_offsets
from airflow_provider_kafka_spark.state.stream_state import StreamRunStore

_UNKNOWN = (
    "No note beside the checkpoint says which task has finished {}: they are neither in this result nor in its asset "
    "event. If an earlier try of this task was it, nothing announces them."
)
_THEN = (
    "The stream is past them, so no try copies them. Copy these ranges with ReplayOffsetRangesOperator, and mark this "
    "task as successful; or begin again with reset_checkpoint_to."
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
    :raises BrokerError: if the source could not be asked; the next try asks it, see :func:`finished_before`.
    :raises KafkaSparkError: if report and checkpoint do not match the plan; the next try then looks at the target
        itself.
    """
    finished = finished_offsets(folder.location)
    try:
        check_stream(report, planned.plan, stream_plan.manifest.stream_id, finished, planned.transform)
        allow = task_try.worker.allow_duplicates
        warnings = check_counts(task_try.source, planned, report, allow_duplicates=allow)
    except BrokerError:
        raise
    except KafkaSparkError:
        store.distrusted()
        judge_run(task_try.sink, planned.instance, submission, report.run_id, report.target_topics, proved=False)
        raise
    return Collected(report, finished, tuple(warnings))


def finished_before(
    task_try: TaskTry,
    store: StreamRunStore,
    folder: CheckpointFolder,
    stream_plan: StreamPlan,
    planned: PlannedCopy,
    *,
    checks: bool,
) -> FinishedBatches:
    """What earlier tries of this task have finished, and no other task.

    :param checks: look whether all of it was copied.
    :raises CheckpointError: if the notes beside the batches cannot be read.
    :raises KafkaSparkError: as :func:`_check_finished`.
    """
    stream = planned.checkpoint
    numbers, passed = store.batches_before(stream), store.passed_before(stream)
    notes = folder.notes(stream_plan.generation, numbers) if numbers else {}
    # What is gone is in the result.
    passed = passed.subtract(m.offset_range for m in planned.plan.missing)
    found = FinishedBatches.of(notes, stream.owner, passed)
    if found.unknown and store.is_rejected(stream):
        raise UncopiedRecordsError(
            "A report of this task was rejected, and no note beside the checkpoint says any more what was copied of "
            f"{', '.join(first_ten(found.unknown.format()))}. {_THEN}"
        )
    if found.unknown:
        task_try.log.warning("%s", _warning_of(found.unknown))
    return replace(found, warnings=tuple(_check_finished(task_try, planned, found))) if checks else found


def _check_finished(task_try: TaskTry, planned: PlannedCopy, before: FinishedBatches) -> list[str]:
    """Check what earlier tries have committed, as their reports would have been checked: no report of it was accepted,
    or its task would have ended.

    :return: a warning if there are too many offsets to count.
    :raises UncopiedRecordsError: if records of it were not copied: the stream is past them.
    :raises DuplicateRecordsError: if records of it are in the target more than once.
    :raises BrokerError: if the source could not be asked.
    """
    report = before.report
    if report is None:
        return []
    faults = faults_of_counts(report, planned.transform)
    faults += [fault for of_batch in before.reports.values() for fault in faults_of_segments(of_batch)]
    lost, warnings = recounted(task_try.source, planned, report)
    if faults or lost:
        raise UncopiedRecordsError(
            "Every record of the batches that an earlier try of this task has committed must have been copied; got "
            f"{'; '.join(first_ten([*faults, *lost]))}. {_THEN}"
        )
    if not task_try.worker.allow_duplicates:
        check_duplicates(report, planned.transform)
    return warnings


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
    before: FinishedBatches,
    group: ConsumerGroup | None,
    stream_plan: StreamPlan,
    planned: PlannedCopy,
    collected: Collected,
) -> dict[str, Any]:
    """What the task returns, with what its earlier tries had finished.

    :param group: for lag monitors, or None.
    """
    finished, warnings, report = collected.finished, [*before.warnings, *collected.warnings], collected.report
    stream_id, plan = stream_plan.manifest.stream_id, planned.plan
    existing = {p.topic for p in finished} & task_try.source.topic_names()
    after = task_try.source.state(existing, only=finished)
    if stream_plan.has_work:
        plan = plan.after_job(after, planned.rules, task_try.source.cuts(plan.reached, after))
    lags = lag_of(finished, after, planned.rules)
    committed = None if group is None else group.commit(finished)
    for warning in first_ten([*report.warnings, *warnings], "more warnings in the result"):
        task_try.log.warning("%s", warning)
    if before.unknown:
        warnings.append(_warning_of(before.unknown))
    result = result_of_stream(report, plan, stream_plan, lags, committed, tuple(warnings))
    target_ids = {**before.target_ids, **report.target_ids}
    may_repeat = before.may_have_duplicates or report.may_have_duplicates
    return {
        **result,
        **_mapped_before(planned, report, before),
        "finished_before": before.ranges.format(),
        "written_before": _written_before(plan.targets(target_ids).dicts(before.target_ranges()), result),
        "evidence": planned.evidence(target_ids, stream_id, may_have_duplicates=may_repeat),
    }


def _written_before(written: list[dict[str, Any]], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the target has what earlier tries had finished; dead letters, and its topics, are added to the result.

    :param written: with the dead letters.
    """
    dead = result.get("dead_letters", {}).get("topic")
    if dead is not None:
        result["dead_letters"]["ranges"] += [r for r in written if r["topic"] == dead]
    kept = [r for r in written if r["topic"] != dead]
    result["target_topics"] = list(dict.fromkeys([*result["target_topics"], *(r["topic"] for r in kept)]))
    return kept


def _mapped_before(planned: PlannedCopy, report: JobReport, before: FinishedBatches) -> dict[str, Any]:
    """The segments of a result, with those of earlier tries."""
    is_mapped = report.segments is not None or not report.records_written
    if not (before.ranges and planned.transform.provenance.in_segments and is_mapped):
        return {}
    segments = joined({*(report.segments or ()), *before.segments})
    return {"segments": [s.to_dict() for s in segments], "mapped_before": before.mapped.format()}


def _warning_of(unknown: Iterable[OffsetRange]) -> str:
    return _UNKNOWN.format(", ".join(first_ten([r.format() for r in unknown])))
