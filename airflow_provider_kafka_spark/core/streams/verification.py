"""Check a stream's report against its plan and checkpoint: this decides whether its task succeeds. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.verification import (
    faults_of_counts,
    faults_of_segments,
    raise_if_mismatched,
    range_results,
    result_of_plan,
    result_of_run,
)
from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.protocol import BatchReport, JobReport, Pace, RangeReport, Transform


def check_stream(
    report: JobReport,
    plan: ReplayPlan,
    stream_id: str,
    finished: Mapping[TopicPartition, int],
    transform: Transform,
) -> None:
    """Check that the report proves that the stream read at least to the planned ends, wrote all kept records, and
    committed exactly that.

    :param finished: what the checkpoint says after the run, read by the worker.
    :raises DeliveryError: naming each incomplete partition.
    """
    if (report.run_id, report.plan_digest) != (stream_id, plan.digest):
        raise DeliveryError(
            f"The report must be of stream {stream_id!r} and plan {plan.digest!r}; got stream {report.run_id!r} and "
            f"plan {report.plan_digest!r}. It belongs to another run."
        )
    reported = {r.offset_range.topic_partition: r.offset_range for r in report.ranges}
    faults = []
    if len(reported) < len(report.ranges):
        faults.append("a partition is reported more than once")
    if report.failure is not None:
        faults.append(f"the job reports a failure, {report.failure.code}")
    for planned in plan.ranges:
        got = reported.get(planned.topic_partition)
        if got is None:
            faults.append(f"{planned}: not in the report")
        elif got.from_offset != planned.from_offset or got.until_offset < planned.until_offset:
            faults.append(f"{planned}: the stream went from {got.from_offset} to {got.until_offset}")
    for p, got in sorted(reported.items()):
        done = finished.get(p, 0)
        # Ranges that were missing before the run are skipped without being finished.
        if done != got.until_offset and not (got.is_empty and done < got.until_offset):
            faults.append(f"{p}: reported up to {got.until_offset}, committed up to {done}")
    by_batch = sum(b.records_read for b in report.batches), sum(b.records_written for b in report.batches)
    if by_batch != (report.records_read, report.records_written):
        faults.append(f"the batches make {by_batch[0]:,} read and {by_batch[1]:,} written")
    faults += faults_of_counts(report, transform)
    faults += faults_of_segments(report)
    raise_if_mismatched(faults, report, plan)


def lag_of(
    finished: Mapping[TopicPartition, int], cluster: ClusterState, rules: ReadRules
) -> dict[TopicPartition, int]:
    """Offsets between where a stream stands and the real end of each partition now. (Spark's own
    ``OffsetsBehindLatest`` count to the end fixed at the start.)
    """
    lags = {}
    for p, offset in sorted(finished.items()):
        topic = cluster.topics.get(p.topic)
        if topic is not None and p.partition in topic.partitions:
            lags[p] = max(0, rules.end_of(topic.partitions[p.partition]) - offset)
    return lags


def report_of_nothing(plan: ReplayPlan, stream_id: str) -> JobReport:
    """A report of zeros: the stream was at the end already, and Spark was not started."""
    return JobReport(
        run_id=stream_id,
        plan_digest=plan.digest,
        ranges=tuple(RangeReport(r, 0, 0) for r in plan.ranges),
        target_topics=tuple(plan.target_topics),
        application_id="",
        spark_version="",
        seconds=0.0,
    )


def result_of_stream(
    report: JobReport,
    plan: ReplayPlan,
    stream_plan: StreamPlan,
    lags: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int] | None,
    warnings: tuple[str, ...] = (),
) -> dict[str, Any]:
    """What the task returns: the keys of a bounded copy's result, and those of a stream.

    :param lags: as :func:`lag_of` gives them, after the run.
    :param committed: what was committed to the group for lag monitors, or None without such a group.
    """
    return {
        **result_of_run(report, plan, warnings),
        "ranges": range_results(report.ranges, plan),
        "batches": [_batch_result(b) for b in report.batches],
        "unfinished": stream_plan.uncommitted.format(),
        "added_partitions": list(map(str, stream_plan.added)),
        "behind": {str(p): lag for p, lag in lags.items() if lag},
        "records_behind": sum(lags.values()),
        "generation": stream_plan.generation,
        "group_committed": None if committed is None else {str(p): offset for p, offset in sorted(committed.items())},
    }


def result_of_stream_plan(
    plan: ReplayPlan, stream_plan: StreamPlan, transform: Transform, pace: Pace | None = None
) -> dict[str, Any]:
    """What ``plan_only=True`` returns: the keys of a bounded copy's plan, and those of a stream."""
    return {
        **result_of_plan(plan, stream_plan.manifest.stream_id, transform, pace),
        "unfinished": stream_plan.uncommitted.format(),
        "added_partitions": list(map(str, stream_plan.added)),
        "generation": stream_plan.generation,
    }


def _batch_result(b: BatchReport) -> dict[str, Any]:
    return {
        "batch": b.batch,
        "records_read": b.records_read,
        "records_written": b.records_written,
        "seconds": round(b.seconds, 3),
        "replayed": b.replayed,
        "delivered_before": b.delivered_before,
    }
