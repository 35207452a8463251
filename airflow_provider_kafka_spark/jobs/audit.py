"""The audit job: compare what a past copy left in the target with the source, and report counts.

``spark-submit`` starts this file with the path of a request as its only argument.

Executors reduce each record to its place and a fingerprint, and put source and target together by chunks of source
offsets. The driver gets counts, ranges and a few names of records, whatever the size of the copy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.offsets.spans import MOST_UNGROUPED_RANGES, plan_spans
from airflow_provider_kafka_spark.core.records.dead_letters import REASON_HEADER
from airflow_provider_kafka_spark.core.wire.audit_messages import AuditSettings, AuditTaskReport, ranges_text
from airflow_provider_kafka_spark.core.wire.protocol import (
    AuditCounts,
    AuditJob,
    AuditReport,
    JobReport,
)
from airflow_provider_kafka_spark.jobs.computed_rows import computed_rows
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_admin import login_options, without_login
from airflow_provider_kafka_spark.jobs.kafka_rdd import poll_timeout_ms
from airflow_provider_kafka_spark.jobs.kafka_source import Source, open_source
from airflow_provider_kafka_spark.jobs.progress import ProgressLog, ProgressTeller
from airflow_provider_kafka_spark.jobs.record_writer import AuditFunctions, TaskMonitor
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import SELECTED, check_expressions, mark_selected, names_headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_MISSING_RANGES, MAX_SAMPLES = 10_000, 20
#: Fewer offsets are not worth a Spark task, and a merging task holds the numbers of as many.
_MIN_TASK_OFFSETS, _MERGED_OFFSETS = 100_000, 2_000_000
_TASKS_PER_CORE, _MAX_TASKS = 4, 4_000
_CHUNK_BITS, _MAX_GROUP_BITS = 12, 8
#: What the reader takes of a row of the public reader, in this order.
ROW = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def audit(spark: SparkApplication, request: AuditJob) -> JobReport:
    """Compare source and target, and report the counts of each range.

    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    started = time.monotonic()
    if request.transform.where is not None:
        check_expressions(spark.session, request.transform)
    return JobReport(
        run_id=request.run_id,
        plan_digest=request.plan_digest,
        ranges=(),
        target_topics=(),
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.sparkContext.version,
        audit=_audit(spark, request),
        ui_url=spark.sparkContext.uiWebUrl,
        seconds=time.monotonic() - started,
    )


def _audit(spark: SparkApplication, request: AuditJob) -> AuditReport:
    context, ranges = spark.sparkContext, request.ranges
    source, target = OffsetRanges(request.spans), request.target_ranges
    offsets = source.total + target.total
    group = f"audit-{uuid4()}"
    context.setJobGroup(group, f"Audit of run {request.run_id}")
    with (
        TaskMonitor(context, group) as monitor,
        ProgressLog(monitor, offsets, request.progress_seconds, ProgressTeller(spark, request)),
    ):
        audited = ranges_text(ranges, _partitions(request.may_have_aged), request.segments)
        functions = AuditFunctions(context, audited, monitor)
        sides = [_source_side(spark, request, source, functions)] if source else []
        sides += [_target_side(spark, request, target, functions)] if target else []
        tasks = max(context.defaultParallelism, min(_MAX_TASKS, -(-ranges.total // _MERGED_OFFSETS)))
        bits = max(0, (ranges.total // (tasks * _TASKS_PER_CORE)).bit_length() - 1 - _CHUNK_BITS)
        limits = MAX_MISSING_RANGES, MAX_SAMPLES
        texts = functions.merge(sides, tasks, min(bits, _MAX_GROUP_BITS), limits, compares=request.compares)
        return _sum(ranges, [AuditTaskReport.from_json(text) for text in texts])


def _source_side(spark: SparkApplication, request: AuditJob, ranges: OffsetRanges, functions: AuditFunctions) -> Any:
    transform = request.transform
    source = _open(spark, ranges, request.source_options)
    records, form = source.records, "records"
    if records is None:
        rows = mark_selected(source.rows(spark.session), transform).select(*ROW, SELECTED)
        records, form = computed_rows(rows), "rows"
    elif transform.has_filter:
        of_source = source.rows(spark.session, headers=names_headers(transform), beside_records=True)
        rows = mark_selected(of_source, transform).select("offset", SELECTED)
        records, form = computed_rows(rows), "beside"
    return functions.read(records, _settings(request, form))


def _target_side(spark: SparkApplication, request: AuditJob, ranges: OffsetRanges, functions: AuditFunctions) -> Any:
    options = {
        **without_login(request.source_options),
        **login_options(request.sink_options),
        # What was aborted was not delivered.
        "kafka.isolation.level": "read_committed",
    }
    source = _open(spark, ranges, options)
    records, form = source.records, "records"
    if records is None:
        records, form = computed_rows(_all_selected(source.rows(spark.session))), "rows"
    return functions.read(records, _settings(request, form, of_target=True))


def _all_selected(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.select(*ROW, F.lit(True).alias(SELECTED))


def _settings(request: AuditJob, form: str, *, of_target: bool = False) -> AuditSettings:
    transform = request.transform
    return AuditSettings(
        input=form,
        run_ids=request.run_ids if of_target else None,
        compares=request.compares,
        with_timestamp=transform.preserve_timestamps,
        with_headers=transform.include_headers,
        provenance_header=PROVENANCE_HEADER,
        reason_header=REASON_HEADER,
        window_start_ms=transform.window_start_ms,
        window_end_ms=transform.window_end_ms,
    )


def _open(spark: SparkApplication, ranges: OffsetRanges, options: Any) -> Source:
    """The records of ranges, in as many Spark tasks as pay off: their order is of no importance."""
    # What ages out meanwhile is seen by the worker.
    options = {**options, "failOnDataLoss": "false"}
    if len(ranges) <= MOST_UNGROUPED_RANGES:
        tasks = spark.sparkContext.defaultParallelism * _TASKS_PER_CORE
        spans = tuple(ranges.split(max(_MIN_TASK_OFFSETS, -(-ranges.total // tasks))))
        by_index = {span: i for i, span in enumerate(spans)}
        preserve_order = False
    else:
        spans = plan_spans(ranges)
        by_index = {r: i for i, r in enumerate(ranges)}
        preserve_order = True
    # Nothing is open while the source is waited for.
    wait_ms = 4 * poll_timeout_ms(options)
    return open_source(
        spark, by_index, spans, options, {}, preserve_order=preserve_order, transaction_timeout_ms=wait_ms
    )


def _partitions(texts: Sequence[str]) -> set[TopicPartition]:
    return {TopicPartition(topic, int(number)) for topic, _, number in (text.rpartition(":") for text in texts)}


def _sum(ranges: OffsetRanges, reports: Sequence[AuditTaskReport]) -> AuditReport:
    sums = [[0] * 8 for _ in ranges]
    for report in reports:
        for index, *counts in report.ranges:
            sums[index] = [a + b for a, b in zip(sums[index], counts, strict=True)]
    partitions = ranges.topic_partitions
    missing = OffsetRanges().merge(
        OffsetRange(partitions[p].topic, partitions[p].partition, start, end)
        for report in reports
        for p, start, end in report.missing
    )
    kept = missing[:MAX_MISSING_RANGES]
    is_cut = len(missing) > len(kept) or any(len(report.missing) >= MAX_MISSING_RANGES for report in reports)
    return AuditReport(
        ranges=tuple(_counts(r, of) for r, of in zip(ranges, sums, strict=True)),
        missing_ranges=tuple(kept),
        all_missing_ranges=not is_cut,
        duplicated=_names(partitions, [place for report in reports for place in report.duplicated]),
        different=_names(partitions, [place for report in reports for place in report.different]),
    )


def _counts(r: OffsetRange, of: Sequence[int]) -> AuditCounts:
    once, duplicated, extra, missing, filtered, unknown, different, not_compared = of
    return AuditCounts(r, once, duplicated, missing, filtered, unknown, extra, different, not_compared)


def _names(partitions: Sequence[TopicPartition], places: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
    return tuple(f"{partitions[p]}@{offset}" for p, offset in sorted(places)[:MAX_SAMPLES])


if __name__ == "__main__":
    sys.exit(run_job(audit))
