"""The batch job: copy exactly the planned ranges from Kafka to Kafka, and report what happened to each.

``spark-submit`` starts this file with the path of a request as its only argument.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, RangeReport
from airflow_provider_kafka_spark.core.spans import Span, plan_spans
from airflow_provider_kafka_spark.jobs.audit import Delivered, find_delivered
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_admin import login_options
from airflow_provider_kafka_spark.jobs.kafka_source import Source, open_source, read_from, read_since
from airflow_provider_kafka_spark.jobs.progress import Progress, Whole
from airflow_provider_kafka_spark.jobs.record_writer import ReadCounter, WriteResult, merged
from airflow_provider_kafka_spark.jobs.targets import find_targets
from airflow_provider_kafka_spark.jobs.transform import KEEP, check_expressions, mark_kept, needs_sql
from airflow_provider_kafka_spark.jobs.write import write_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Executors stamp what they write by their own clocks.
_CLOCK_SKEW_MS = 10 * 60 * 1000


def copy(spark: SparkSession, request: JobRequest, whole: Whole | None = None) -> JobReport:
    """Copy what the request names, and account for it.

    Nothing is written before all expressions, targets and earlier deliveries are known.

    :param whole: if this is one of several parts, for the progress.
    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    started = time.monotonic()
    check_expressions(spark, request.transform)
    planned = request.offset_ranges.without_empty()
    targets = find_targets(spark, request, lambda: _kept_records(spark, request, planned))
    audits = request.transform.provenance_headers
    delivered = _find_written(spark, request, targets) if request.is_retry and audits else Delivered()
    remaining, spans = _remaining(request, planned, delivered)
    result, failed, warnings = WriteResult(), 0, tuple[str, ...]()
    if remaining:
        source = _open(spark, request, remaining, spans, needs_rows=needs_sql(request.transform))
        warnings = source.warnings
        result, failed = _write(spark, request, targets, source, spans, whole)
    duplicates = _find_written(spark, request, targets).duplicates if failed and audits else delivered.duplicates
    before = _per_range(planned, delivered.ranges)
    return JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=tuple(
            RangeReport(
                r.topic,
                r.partition,
                r.from_offset,
                r.until_offset,
                records_read=result.read[i] + before[i],
                records_written=result.written[i] + before[i],
                records_skipped=result.skipped[i],
            )
            for i, r in enumerate(planned)
        ),
        target_topics=targets,
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.version,
        seconds=time.monotonic() - started,
        target_ranges=merged(result.targets),
        delivered_before=before.total() + result.before.total(),
        duplicates=duplicates,
        failed_tasks=failed,
        ui_url=spark.sparkContext.uiWebUrl,
        warnings=warnings,
    )


def _find_written(spark: SparkSession, request: JobRequest, targets: Sequence[str]) -> Delivered:
    """What all tries of this run have written until now."""
    options = {
        **login_options(request.sink_options),
        # It was written without a transaction, so no open transaction of others may hide it.
        "kafka.isolation.level": "read_uncommitted",
        "failOnDataLoss": "false",
    }
    if request.audit_from:
        written = read_from(spark, request.audit_from, options)
    else:
        written = read_since(spark, targets, (request.audit_since_ms or 0) - _CLOCK_SKEW_MS, options)
    return find_delivered(spark, written, request.run_id)


def _remaining(
    request: JobRequest, planned: OffsetRanges, delivered: Delivered
) -> tuple[dict[OffsetRange, int], tuple[Span, ...]]:
    """The ranges still to be copied, each with the index of the planned range it lies in, and how to read them."""
    if not delivered.ranges:
        return {r: i for i, r in enumerate(planned)}, request.spans
    pieces = planned.subtract(delivered.ranges)
    return {piece: planned.index_of_range_holding(piece) for piece in pieces}, plan_spans(pieces)


def _open(
    spark: SparkSession,
    request: JobRequest,
    ranges: dict[OffsetRange, int],
    spans: Sequence[Span],
    *,
    needs_rows: bool,
) -> Source:
    options = {**request.source_options, "failOnDataLoss": str(request.fail_on_data_loss).lower()}
    order = request.preserve_order
    return open_source(spark, ranges, spans, options, preserve_order=order, needs_rows=needs_rows)


def _kept_records(spark: SparkSession, request: JobRequest, planned: OffsetRanges) -> DataFrame:
    source = _open(spark, request, {r: i for i, r in enumerate(planned)}, request.spans, needs_rows=True)
    assert source.rows is not None  # noqa: S101 - asked for
    return mark_kept(source.rows, request.transform).where(KEEP)


def _write(
    spark: SparkSession,
    request: JobRequest,
    targets: Sequence[str],
    source: Source,
    spans: Sequence[Span],
    whole: Whole | None,
) -> tuple[WriteResult, int]:
    """Write all records of a source.

    :return: what was written, and how many Spark tasks failed meanwhile.
    """
    group = f"copy-{uuid4()}"
    spark.sparkContext.setJobGroup(group, f"Copy of run {request.run_id}")
    offsets = sum(span.until_offset - span.from_offset for span in spans)
    with (
        ReadCounter(spark.sparkContext) as counter,
        Progress(counter, offsets, request.progress_seconds, request.event_token, whole),
    ):
        result = write_records(spark, request, targets, source, counter)
    return result, _failed_tasks(spark, group)


def _failed_tasks(spark: SparkSession, group: str) -> int:
    """Tasks of the write that failed or were lost, although the write succeeded: each may have written before."""
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
