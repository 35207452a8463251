"""The batch job: copy exactly the planned ranges from Kafka to Kafka, and report what happened to each.

``spark-submit`` starts this file with the path of a request as its only argument.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.batch_path import codec_for
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    DeliveryError,
    KafkaSparkError,
    TargetRecreatedError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment, joined, segments_of_runs, within
from airflow_provider_kafka_spark.core.offsets.spans import merged
from airflow_provider_kafka_spark.core.records.kept_timestamps import check_timestamp_type
from airflow_provider_kafka_spark.core.runs.run_protocol import counts_for
from airflow_provider_kafka_spark.core.spark.tuning import COMPRESSION
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobReport, RangeReport
from airflow_provider_kafka_spark.jobs.cut_targets import Acknowledged
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin
from airflow_provider_kafka_spark.jobs.lag_watch import LagWatch
from airflow_provider_kafka_spark.jobs.pace import PaceKeeper
from airflow_provider_kafka_spark.jobs.progress import OverallProgress, ProgressLog, ProgressTeller
from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor, WriteResult
from airflow_provider_kafka_spark.jobs.remaining import (
    Remaining,
    find_remaining,
    find_written,
    may_lack_records,
    open_planned,
    start_in_target,
)
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership, run_ownership
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.targets import find_targets
from airflow_provider_kafka_spark.jobs.transform import (
    REJECTED,
    SELECTED,
    check_expressions,
    mark_rejected,
    mark_selected,
    needs_sql,
)
from airflow_provider_kafka_spark.jobs.write import write_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How long brokers may take to list their topics, when the write has failed.
_LOOK_MS = 5_000

_UNMAPPED = (
    "The result has no segments: an earlier try of this run wrote records, and its committed progress no longer "
    "says to which offsets. All records are in the target."
)
#: How many ranges Spark's page shows.
_SHOWN_RANGES = 5


def copy(spark: SparkApplication, request: CopyJob) -> JobReport:
    """Copy the requested ranges, and report the counts of each.

    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    if needs_sql(request.transform):
        check_expressions(spark.session, request.transform)
    with run_ownership(spark, request) as run:
        return copy_ranges(spark, request, run)


def copy_ranges(
    spark: SparkApplication, request: CopyJob, run: RunOwnership, overall: OverallProgress | None = None
) -> JobReport:
    """As :func:`copy`, of a bounded copy or one batch of a stream.

    Nothing is written before all expressions, targets and earlier deliveries are known.

    :param run: the run to claim.
    :param overall: progress of the whole stream, if this is one of its batches.
    """
    started = time.monotonic()
    planned = request.ranges.without_empty()
    targets = find_targets(spark, request, run.admin, lambda: _selected_records(spark, request, planned))
    configs = run.admin.configs(targets)
    request = replace(request, sink_options={COMPRESSION: codec_for(configs), **request.sink_options})
    if request.transform.preserve_timestamps:
        for name, config in configs.items():
            check_timestamp_type(name, config)
    remaining = find_remaining(spark, request, run, targets, configs)
    with _naming_recreated_targets(run.admin, remaining.target_ids):
        result, failed = _write(spark, request, remaining, configs, overall)
    # Whatever went to a topic that is no longer there is lost.
    _raise_if_recreated(run.admin, remaining.target_ids)
    _raise_if_incomplete(result, remaining)
    if not remaining.is_delivered:
        _raise_if_cut(request, remaining, result, targets, configs)
    report = _report(spark, request, remaining, result, targets, time.monotonic() - started)
    if failed and request.delivery == EXACTLY_ONCE:
        # Nothing was written twice, so nothing has to be searched for duplicates.
        again = f"{failed} Spark tasks failed and ran again; each went on from its committed progress."
        return replace(report, warnings=(*report.warnings, again))
    if failed and request.transform.provenance.in_headers:
        report = replace(report, duplicates=find_written(spark, request, run, targets).duplicates)
    may_be = report.may_have_duplicates or (failed > 0 and not request.transform.provenance.in_headers)
    return replace(report, failed_tasks=failed, may_have_duplicates=may_be)


def _report(
    spark: SparkApplication,
    request: CopyJob,
    remaining: Remaining,
    result: WriteResult,
    targets: Sequence[str],
    seconds: float,
) -> JobReport:
    """The counts of this driver, and of what earlier tries had delivered."""
    planned, run = request.ranges.without_empty(), remaining.run
    segments = _segments(request, remaining, result)
    unmapped = [_UNMAPPED] if request.transform.provenance.in_segments and segments is None else []
    before = _per_range(planned, remaining.found.ranges)
    return JobReport(
        run_id=run.run_id,
        plan_digest=request.plan_digest,
        ranges=tuple(_counts(planned, remaining, result, before)),
        target_topics=tuple(targets),
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.sparkContext.version,
        seconds=seconds,
        target_ranges=apart(request, _written_to(request, run.admin, remaining, result, targets)),
        target_ends={} if request.is_of_stream else _ends(run.admin, targets),
        segments=segments,
        batches_passed=sum(task.batches_passed for task in result.reports.values()),
        bytes_written=sum(task.bytes_written for task in result.reports.values()),
        records_outside_window=sum(task.outside for task in result.reports.values()),
        delivered_before=before.total() + result.already_committed.total(),
        committed_before=remaining.committed,
        duplicates=remaining.found.duplicates,
        may_have_duplicates=remaining.repeats and not request.transform.provenance.in_headers,
        leaves_mark=run.leaves_mark,
        progress_groups=run.groups,
        # A driver that only counts proves what was proved, and no more.
        delivery_key=request.earlier.key if _is_proved(request, remaining) else run.key,
        target_ids=dict(remaining.target_ids),
        ui_url=spark.sparkContext.uiWebUrl,
        warnings=(*remaining.warnings, *result.warnings, *unmapped),
    )


def _counts(
    planned: OffsetRanges, remaining: Remaining, result: WriteResult, before: Counter[int]
) -> Iterator[RangeReport]:
    """
    :param before: what the target had of each range.
    """
    rejected = result.rejected + _per_range(planned, remaining.found.rejected)
    for i, r in enumerate(planned):
        # The writer counts both together.
        written = result.written[i] + before[i] - rejected[i]
        yield RangeReport(r, result.read[i] + before[i], written, result.filtered[i], rejected[i])


@contextmanager
def _naming_recreated_targets(admin: KafkaAdmin, target_ids: Mapping[str, str]) -> Iterator[None]:
    """Explain a failed write by a target that was deleted: the producer only says that the topic does not answer, and
    the mark of the run and its progress are deleted with the topic.

    :raises TargetRecreatedError: if a target is no longer the topic that was claimed.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except (KafkaSparkError, Py4JJavaError):
        # Brokers or a JVM that are unavailable leave the first error as it is.
        with suppress(Py4JError, OSError, BrokerUnavailableError):
            _raise_if_recreated(admin, target_ids, _LOOK_MS)
        raise


def _raise_if_recreated(admin: KafkaAdmin, target_ids: Mapping[str, str], within_ms: int = 30_000) -> None:
    now = {name: topic.id for name, topic in admin.describe(target_ids, within_ms).items()}
    gone = sorted(name for name, topic_id in target_ids.items() if now.get(name) != topic_id)
    if gone:
        raise TargetRecreatedError(
            f"The target must stay the same topic until the job ends; {', '.join(gone[:5])} was deleted or recreated "
            "meanwhile. Create it if it does not exist: a retry then writes all records to the new topic."
        )


def _raise_if_incomplete(result: WriteResult, remaining: Remaining) -> None:
    names = set() if remaining.source is None else {piece.name for piece in remaining.source.pieces}
    if missing := sorted(names - result.pieces):
        raise DeliveryError(
            f"Each piece of the plan must be reported by its Spark task; {len(missing):,} of {len(names):,} are not, "
            f"such as {missing[0]}. A retry writes what is missing."
        )


def _raise_if_cut(
    request: CopyJob,
    remaining: Remaining,
    result: WriteResult,
    targets: Sequence[str],
    configs: Mapping[str, Mapping[str, str]],
) -> None:
    """Look whether the targets still have what they have acknowledged, if one of them has got another leader since.

    :param configs: settings of the targets, as far as known.
    :raises DeliveryError: if a log was cut.
    """
    run = remaining.run
    if not run.logs.have_other_leaders():
        return
    sys.stderr.write("A partition of the target has a new leader; the job checks whether its log was cut.\n")
    acknowledged = Acknowledged.of(result.targets, _segments(request, remaining, result))
    acknowledged = acknowledged.and_also(Acknowledged(remaining.found.lasts))
    if cut := run.logs.lacking(request, run.run_id, acknowledged, may_lack_records(configs, targets)):
        run.distrust()
        raise DeliveryError(
            f"A target must keep what it has acknowledged; {', '.join(cut[:5])} has not: another leader has cut the "
            "log (unclean.leader.election.enable). A retry writes what is missing. With min.insync.replicas=2 or more "
            "on the target, a cut needs more than one broker to fail."
        )


def _is_proved(request: CopyJob, remaining: Remaining) -> bool:
    """Whether nothing was left to do, since the worker has proved all of the plan before."""
    return remaining.is_delivered and counts_for(request.earlier.key, remaining.run.key)


def _written_to(
    request: CopyJob, admin: KafkaAdmin, remaining: Remaining, result: WriteResult, targets: Sequence[str]
) -> list[OffsetRange]:
    """Where the target has the records: if that is not known, all it got since the run's first submission."""
    if _is_proved(request, remaining):
        # The worker knows it.
        return []
    written_to = [*result.targets, *remaining.found.targets]
    if result.has_unknown_targets:
        for (topic, number), end in admin.end_offsets(targets).items():
            start = start_in_target(request, topic, number, end)
            if start < end:
                written_to.append(OffsetRange(topic, number, start, end))
    return written_to


def apart(request: CopyJob, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """One range of each partition, and one more of what was written before a clear: others may have written between."""
    before, since = list[OffsetRange](), list[OffsetRange]()
    for r in ranges:
        start = request.history.target_starts.get(r.topic, {}).get(str(r.partition), 0)
        (before if r.until_offset <= start else since).append(r)
    # A target that was recreated or cut since the plan has both at the same offsets.
    return tuple(OffsetRanges.parse([*merged(before), *merged(since)], merge_overlaps=True))


def _ends(admin: KafkaAdmin, targets: Sequence[str]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {name: {} for name in targets}
    for (topic, number), end in admin.end_offsets(targets).items():
        found[topic][number] = end
    return found


def _segments(request: CopyJob, remaining: Remaining, result: WriteResult) -> tuple[Segment, ...] | None:
    """Which offsets of the target hold which of the source; None if nobody asked, or if it is not known of all."""
    transform, reports = request.transform, result.reports.values()
    if _is_proved(request, remaining) and request.earlier.segments is not None:
        # The slots were removed when the worker had proved the delivery.
        return joined(within(request.earlier.segments, request.ranges))
    if not transform.provenance.in_segments or any(report.segments_unknown for report in reports):
        return None
    pieces = {} if remaining.source is None else {piece.name: piece for piece in remaining.source.pieces}
    found = list[Segment]()
    for report in reports:
        piece = pieces[report.piece]
        found += segments_of_runs(piece.spans[0].topic_partition, transform.target_of(piece.topic), report.segments)
    return joined(found)


def _selected_records(spark: SparkApplication, request: CopyJob, planned: OffsetRanges) -> DataFrame:
    source = open_planned(spark, request, planned)
    transform = request.transform
    marked = mark_rejected(mark_selected(source.rows(spark.session), transform), transform).where(SELECTED)
    return marked if transform.reject_when is None else marked.where(f"{REJECTED} is null")


def _write(
    spark: SparkApplication,
    request: CopyJob,
    remaining: Remaining,
    configs: Mapping[str, Mapping[str, str]],
    overall: OverallProgress | None,
) -> tuple[WriteResult, int]:
    """Write all records of a source.

    :return: what was written, and how many attempts of Spark tasks failed.
    """
    if remaining.source is None:
        return WriteResult(), 0
    group = f"copy-{uuid4()}"
    spark.sparkContext.setJobGroup(group, _description(request, remaining))
    planned, teller = remaining.source.offsets, ProgressTeller(spark, request)
    total = request.ranges.total
    overall = (overall or OverallProgress(0, total)).after(total - planned, remaining.committed)
    with (
        TaskMonitor(spark.sparkContext, group) as monitor,
        ProgressLog(monitor, planned, request.progress_seconds, teller, overall),
        _kept_pace(spark, request, remaining, monitor, group) as keeper,
    ):
        pace = None if keeper is None else keeper.shared
        try:
            result = write_records(spark, request, remaining, configs, monitor, pace)
        except Exception:
            if keeper is not None and keeper.failure is not None:
                raise keeper.failure from None
            raise
    return result, _failed_tasks(spark, group)


def _description(request: CopyJob, remaining: Remaining) -> str:
    """What Spark's page shows of the copy; Spark escapes it, or shows it as text."""
    shown, more = request.ranges[:_SHOWN_RANGES], len(request.ranges) - _SHOWN_RANGES
    ranges = ", ".join(r.format() for r in shown) + (f" and {more:,} more" if more > 0 else "")
    return f"{request.title or 'Copy'}: run {remaining.run.run_id}, {ranges}"


def _kept_pace(
    spark: SparkApplication, request: CopyJob, remaining: Remaining, monitor: TaskMonitor, group: str
) -> AbstractContextManager[PaceKeeper | None]:
    """
    :param group: of the Spark jobs.
    """
    if request.how.pace is None or remaining.source is None or remaining.is_delivered:
        return nullcontext()
    tasks, slots = len(remaining.source.tasks), spark.sparkContext.defaultParallelism
    topic, admin, lag = min(remaining.target_ids), remaining.run.admin, None
    if request.how.pace.pause is not None:
        topics = sorted(set(remaining.target_ids) - {request.transform.dead_letter_topic})
        lag = LagWatch(request.how.pace.pause, admin, topics, request.progress_seconds)
    stop = partial(spark.sparkContext.cancelJobGroup, group)
    return PaceKeeper(request.how.pace, request.instance, admin, topic, monitor, tasks, slots, lag, stop)


def _failed_tasks(spark: SparkApplication, group: str) -> int:
    """Attempts of Spark tasks that failed or were lost, although the write succeeded: each may have written records."""
    tracker: Any = spark.sparkContext.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    }
    return sum(info.numFailedTasks for stage in stages if (info := tracker.getStageInfo(stage)) is not None)


def _per_range(planned: OffsetRanges, delivered: OffsetRanges) -> Counter[int]:
    """How many delivered records lie in each planned range."""
    counts = Counter[int]()
    for piece in planned.intersect(delivered):
        counts[planned.index_of_range_holding(piece)] += piece.size
    return counts


if __name__ == "__main__":
    sys.exit(run_job(copy))
