"""The batch job: copy exactly the planned ranges from Kafka to Kafka, and report what happened to each.

``spark-submit`` starts this file with the path of a request as its only argument.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, TargetError
from airflow_provider_kafka_spark.core.handoff.writer_messages import Slot
from airflow_provider_kafka_spark.core.kept_timestamps import check_timestamp_type
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.parameters import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, RangeReport
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.jobs.delivered import Delivered, find_delivered
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin, kafka_admin, login_options
from airflow_provider_kafka_spark.jobs.kafka_source import Source, open_source, read_from, read_since
from airflow_provider_kafka_spark.jobs.progress import OverallProgress, ProgressLog
from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor, WriteResult, merged
from airflow_provider_kafka_spark.jobs.run_ownership import Claim, claim_run, wait_for_open_transactions
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.targets import find_targets
from airflow_provider_kafka_spark.jobs.transform import KEEP, check_expressions, mark_kept, needs_sql
from airflow_provider_kafka_spark.jobs.write import write_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Executors stamp records by their own clocks, if source timestamps are not kept.
_CLOCK_SKEW_MS = 10 * 60 * 1000
#: How long brokers may take to list their topics, when the write has failed.
_LOOK_MS = 5_000
_COMPACTED = (
    "This is a retry, and the target is compacted ({}): what an earlier try delivered may be gone from it, so whole "
    "ranges are written again, in order."
)


def copy(spark: SparkApplication, request: JobRequest, overall: OverallProgress | None = None) -> JobReport:
    """Copy the requested ranges, and report the counts of each.

    Nothing is written before all expressions, targets and earlier deliveries are known.

    :param overall: progress of the whole stream, if this is one of its batches.
    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    started = time.monotonic()
    if needs_sql(request.transform):
        check_expressions(spark.session, request.transform)
    planned = request.offset_ranges.without_empty()
    targets = find_targets(spark, request, lambda: _kept_records(spark, request, planned))
    with kafka_admin(spark, request.sink_options) as admin:
        configs = admin.configs(targets)
        if request.transform.preserve_timestamps:
            for name, config in configs.items():
                check_timestamp_type(name, config)
        claim = claim_run(admin, request, targets) if request.delivery == EXACTLY_ONCE else None
        source, delivered, warnings = _prepare(spark, request, planned, targets, configs, admin, claim)
        result, failed, slots = WriteResult(), 0, dict[str, Slot]()
        if source is not None:
            with _naming_deleted_targets(admin, targets):
                slots = {} if claim is None or claim.is_finished else claim.slots(admin, source.pieces)
                result, failed = _write(spark, request, source, configs, claim, slots, overall)
        if claim is not None and not request.progress_lasts:
            claim.finish(admin)
        progress_groups = tuple(sorted(slot.group for slot in slots.values()))
        written_to = result.targets
        if delivered.ranges or result.has_unknown_targets:
            written_to = [*written_to, *_since_first_try(request, admin.end_offsets(targets))]
    duplicates = delivered.duplicates
    if failed and claim is not None:
        warnings += (f"{failed} Spark tasks failed and ran again; each went on from its committed progress.",)
        # Nothing was written twice, so nothing has to be searched for duplicates.
        failed = 0
    elif failed and request.transform.provenance_headers:
        duplicates = _find_written(spark, request, targets).duplicates
    before = _per_range(planned, delivered.ranges)
    return JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=tuple(
            RangeReport(
                r,
                records_read=result.read[i] + before[i],
                records_written=result.written[i] + before[i],
                records_skipped=result.filtered[i],
            )
            for i, r in enumerate(planned)
        ),
        target_topics=targets,
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.sparkContext.version,
        seconds=time.monotonic() - started,
        target_ranges=merged(written_to),
        delivered_before=before.total() + result.already_committed.total(),
        duplicates=duplicates,
        failed_tasks=failed,
        progress_groups=progress_groups,
        ui_url=spark.sparkContext.uiWebUrl,
        warnings=warnings,
    )


def _prepare(
    spark: SparkApplication,
    request: JobRequest,
    planned: OffsetRanges,
    targets: Sequence[str],
    configs: Mapping[str, Mapping[str, str]],
    admin: KafkaAdmin,
    claim: Claim | None,
) -> tuple[Source | None, Delivered, tuple[str, ...]]:
    """The source to copy from (None if nothing is left), what earlier tries delivered of the plan, and warnings.

    Each Spark task reads its committed progress itself. The target is read back only for a retry without such progress.
    """
    source = _open(spark, request, {r: i for i, r in enumerate(planned)}, request.spans)
    if not request.is_retry or (claim is not None and claim.progress_is_complete):
        return source, Delivered(), source.warnings
    if claim is not None:
        # Nothing may arrive after the target was read.
        claim.fence(admin, [piece.name for piece in source.pieces])
    if not request.transform.provenance_headers:
        return source, Delivered(), source.warnings
    compacted = [name for name, config in configs.items() if "compact" in config["cleanup.policy"]]
    if compacted:
        return source, Delivered(), (*source.warnings, _COMPACTED.format(", ".join(compacted[:5])))
    wait_for_open_transactions(admin, targets)
    delivered = _find_written(spark, request, targets)
    if not delivered.ranges:
        return source, delivered, source.warnings
    pieces = planned.subtract(delivered.ranges)
    if not pieces:
        return None, delivered, ()
    remaining = {piece: planned.index_of_range_holding(piece) for piece in pieces}
    source = _open(spark, request, remaining, plan_spans(pieces))
    return source, delivered, source.warnings


@contextmanager
def _naming_deleted_targets(admin: KafkaAdmin, targets: Sequence[str]) -> Iterator[None]:
    """Explain a failed write by a deleted target: the producer only reports that the topic does not answer.

    :raises TargetError: if a target does not exist any more when the write fails.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except (BrokerUnavailableError, Py4JJavaError) as error:
        existing = set(targets)
        # Brokers or a JVM that are unavailable leave the first error as it is.
        with suppress(Py4JError, OSError):
            existing = admin.existing(targets, _LOOK_MS)
        if deleted := sorted(set(targets) - existing):
            raise TargetError(
                f"The target must exist until the job ends; {', '.join(deleted[:5])} was deleted meanwhile. Create it "
                "again: a retry then writes all records to the new topic."
            ) from error
        raise


def _since_first_try(request: JobRequest, ends: Mapping[tuple[str, int], int]) -> list[OffsetRange]:
    """All that the targets got since the run's first submission; where that is unknown, since their start."""
    starts = {name: request.audit_from.get(name[0], {}).get(str(name[1]), 0) for name in ends}
    return [OffsetRange(*name, starts[name], end) for name, end in ends.items() if starts[name] < end]


def _find_written(spark: SparkApplication, request: JobRequest, targets: Sequence[str]) -> Delivered:
    """What all tries of this run have written until now, read back from the targets by the provenance header."""
    options = {
        **login_options(request.sink_options),
        # What was aborted was not delivered.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "false",
    }
    if request.audit_from:
        written = read_from(spark.session, request.audit_from, options)
    elif request.transform.preserve_timestamps:
        # Records have the timestamps of the source, so no timestamp says when they were written.
        written = read_since(spark.session, targets, None, options)
    else:
        written = read_since(spark.session, targets, (request.audit_since_ms or 0) - _CLOCK_SKEW_MS, options)
    return find_delivered(spark.session, written, request.run_id)


def _open(
    spark: SparkApplication,
    request: JobRequest,
    ranges: dict[OffsetRange, int],
    spans: Sequence[OffsetRange],
) -> Source:
    options = {**request.source_options, "failOnDataLoss": str(request.fail_on_data_loss).lower()}
    return open_source(
        spark,
        ranges,
        spans,
        options,
        request.source_ids,
        preserve_order=request.preserve_order,
        goes_on=request.progress_lasts,
    )


def _kept_records(spark: SparkApplication, request: JobRequest, planned: OffsetRanges) -> DataFrame:
    source = _open(spark, request, {r: i for i, r in enumerate(planned)}, request.spans)
    return mark_kept(source.rows(spark.session), request.transform).where(KEEP)


def _write(
    spark: SparkApplication,
    request: JobRequest,
    source: Source,
    configs: Mapping[str, Mapping[str, str]],
    claim: Claim | None,
    slots: Mapping[str, Slot],
    overall: OverallProgress | None,
) -> tuple[WriteResult, int]:
    """Write all records of a source.

    :return: what was written, and how many attempts of Spark tasks failed.
    """
    group = f"copy-{uuid4()}"
    spark.sparkContext.setJobGroup(group, f"Copy of run {request.run_id}")
    with (
        TaskMonitor(spark.sparkContext, group) as monitor,
        ProgressLog(monitor, source.offsets, request.progress_seconds, request.event_token, overall),
    ):
        result = write_records(spark, request, source, configs, claim, slots, monitor)
    return result, _failed_tasks(spark, group)


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the request in the file that the first argument names; the report says how it went."""
    return run_job(copy, argv)


if __name__ == "__main__":
    sys.exit(main())
