"""Check the job's report against the plan: this decides whether a task succeeds. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.errors import DeliveryError, DuplicateRecordsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.records.dead_letters import split_ranges
from airflow_provider_kafka_spark.core.records.expressions import cut
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.topics.known_topics import TOPIC_ID
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, Pace, RangeReport, Transform

RESULT_VERSION = 1
#: What a retry does about a report that proves too little.
THEN = "A retry of this task writes what is missing; that of a stream names what it has passed."
PLAN_ONLY = "PLAN ONLY: nothing was copied"
#: What a copy checks beyond its plan.
_UNCHECKED = "Only the copy knows the topics that target_topic_expr gives, and whether they take records."


def check_delivery(report: JobReport, plan: ReplayPlan, run_id: str, transform: Transform) -> None:
    """Check that the report proves that every planned range was read to its end and all kept records were written.

    :raises DeliveryError: naming each incomplete range, with its counts.
    """
    if (report.run_id, report.plan_digest) != (run_id, plan.digest):
        raise DeliveryError(
            f"The report must be of run {run_id!r} and plan {plan.digest!r}; got run {report.run_id!r} and plan "
            f"{report.plan_digest!r}. It belongs to another run: give each task a report_location of its own."
        )
    planned = plan.ranges.without_empty()
    reported, of_plan = {r.offset_range: r for r in report.ranges}, set(planned)
    faults = [f"{r}: not in the report" for r in planned if r not in reported]
    faults += [f"{r}: in the report, not in the plan" for r in reported if r not in of_plan]
    if len(reported) < len(report.ranges):
        faults.append(f"{len(report.ranges) - len(reported)} ranges are reported more than once")
    if report.failure is not None:
        faults.append(f"the job reports a failure, {report.failure.code}")
    faults += faults_of_counts(report, transform)
    faults += faults_of_segments(report)
    raise_if_mismatched(faults, report, plan)


def faults_of_segments(report: JobReport) -> list[str]:
    """Descriptions of the ranges of which the mapping of offsets has not each written record once."""
    if report.segments is None:
        return []
    sources = sorted(segment.source for segment in report.segments)
    faults = [
        f"{later}: mapped twice"
        for earlier, later in pairwise(sources)
        if earlier.topic_partition == later.topic_partition and earlier.until_offset > later.from_offset
    ]
    mapped = sum(source.size for source in sources)
    # What an earlier try wrote may be gone from the source since, and is not counted again.
    may_be_more = bool(report.delivered_before or report.committed_before)
    if mapped < report.records_written or (mapped > report.records_written and not may_be_more):
        faults.append(f"{mapped:,} records are mapped to offsets of the target, and {report.records_written:,} written")
    return faults


def faults_of_counts(report: JobReport, transform: Transform) -> list[str]:
    """Descriptions of the ranges whose counts are not those of a complete copy."""
    faults = []
    for counts in sorted(report.ranges, key=lambda counts: counts.offset_range):
        r = counts.offset_range
        read, written, skipped = counts.records_read, counts.records_written, counts.records_skipped
        rejected = counts.records_rejected
        allowed = (not skipped or transform.drops_records) and (not rejected or transform.reject_when is not None)
        if not 0 <= written <= read <= r.size:
            faults.append(f"{r}: {read:,} read and {written:,} written of at most {r.size:,}")
        elif written + skipped + rejected != read or not allowed:
            others = f"{skipped:,} left out" + (f" and {rejected:,} rejected" if rejected else "")
            faults.append(f"{r}: {read:,} read, only {written:,} written and {others}")
    return faults


def raise_if_mismatched(faults: list[str], report: JobReport, plan: ReplayPlan) -> None:
    """:raises DeliveryError: naming the faults, if there are any."""
    if not faults:
        return
    shown = "; ".join(first_ten(faults))
    raise DeliveryError(
        f"The job's report does not match the plan (application {report.application_id}): {shown}. Planned "
        f"{plan.planned_records:,} records at most, read {report.records_read:,}, written {report.records_written:,}. "
        f"{THEN}"
    )


def check_duplicates(report: JobReport, transform: Transform) -> None:
    """Pass only a report without records that are, or may be, in the target more than once.

    :raises DuplicateRecordsError: with the number of duplicates, as far as it is known.
    """
    if report.duplicates:
        what = f"{report.duplicates:,} records of this run are in the target more than once"
    elif report.failed_tasks and not transform.provenance.in_headers:
        what = (
            f"{report.failed_tasks} Spark tasks were lost and ran again, so some records may be duplicated; "
            "provenance='headers' would show which"
        )
    else:
        return
    raise DuplicateRecordsError(
        f"Every planned record was delivered, and {what} (application {report.application_id}). With "
        "delivery='at_least_once' this happens when an executor is lost. Remove the surplus at the consumers by the "
        "provenance header, or pass allow_duplicates=True to have it only reported."
    )


def ranges_with_gaps(report: JobReport) -> OffsetRanges:
    """The ranges of which fewer records were read than they have offsets."""
    return OffsetRanges(r.offset_range for r in report.ranges if r.gaps)


def lost_in_gaps(report: JobReport, counted: Mapping[OffsetRange, int]) -> list[str]:
    """Descriptions of the ranges of which the job read fewer records than there are.

    :param counted: records that are really in ranges, by a second client.
    """
    read = {r.offset_range: r.records_read for r in report.ranges}
    return [f"{r}: {read[r]:,} read, {count:,} there" for r, count in counted.items() if count > read[r]]


def result_of_run(report: JobReport, plan: ReplayPlan, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the task returns: plain JSON, as the documentation gives it. A reader sees the totals first."""
    dead, of_target = plan.target.dead_letters, plan.targets(report.target_ids)
    targets, dead_letters = split_ranges(report.target_ranges, dead)
    empty = [RangeReport(r, 0, 0) for r in plan.ranges if r.is_empty]
    return {
        "version": RESULT_VERSION,
        "run_id": report.run_id,
        "records_read": report.records_read,
        "records_written": report.records_written,
        "gaps": sum(r.gaps for r in report.ranges),
        "duplicates": report.duplicates,
        "missing": sum(m.offset_range.size for m in plan.missing),
        "delivered_before": report.delivered_before,
        "warnings": [*plan.warnings, *report.warnings, *_mostly_outside(report, plan), *warnings],
        "target_topics": [name for name in report.target_topics if name != dead],
        "seconds": round(report.seconds, 3),
        "application_id": report.application_id,
        "spark_version": report.spark_version,
        **_dead_letters(report, dead, of_target.dicts(dead_letters)),
        "missing_ranges": _missing_ranges(plan),
        "ranges": range_results(sorted([*report.ranges, *empty], key=lambda r: r.offset_range), plan),
        "target_ranges": of_target.dicts(targets),
        **({} if report.segments is None else {"segments": [s.to_dict() for s in report.segments]}),
        "batches_passed": report.batches_passed,
        "bytes_written": report.bytes_written,
        **({} if plan.window is None else {"records_outside_window": report.records_outside_window}),
        "source_topic_ids": dict(plan.topic_ids),
    }


def _mostly_outside(report: JobReport, plan: ReplayPlan) -> list[str]:
    """A warning if most of what was read is of other times than the window."""
    outside, read = report.records_outside_window, report.records_read
    if plan.window is None or outside * 2 <= read:
        return []
    return [
        f"{outside:,} of {read:,} records that were read have timestamps outside of the window. Either the log had not "
        "reached the window when it, or one beside it, was planned, or its timestamps are far out of order. "
        "exact_window=True leaves out records from outside; offsets cut a log without order."
    ]


def totals(result: Mapping[str, Any]) -> str:
    """One line about a result, for the end of the task's log.

    :param result: of a batch copy, a replay or a stream.
    """
    rejected = result.get("dead_letters", {}).get("records", 0)
    optional = {
        "rejected": rejected,
        "delivered before": result.get("delivered_before", 0),
        "duplicates": result["duplicates"],
        "offsets missing": result["missing"],
        "warnings": len(result["warnings"]),
    }
    targets = result["target_topics"]
    parts = [
        f"Delivered: {result['records_read']:,} records read",
        f"{result['records_written']:,} written",
        f"{result['gaps']:,} offsets without a record",
        *(f"{name}: {count:,}" for name, count in optional.items() if count),
        *(
            [f"to {cut(targets[0], 60)}" + (f" and {len(targets) - 1:,} more" if targets[1:] else "")]
            if targets
            else []
        ),
        *([f"in {result['seconds']:,.1f} s"] if result.get("seconds") else []),
    ]
    return f"{', '.join(parts)}. The XCom return_value has the offsets."


def result_of_empty_plan(plan: ReplayPlan, run_id: str) -> dict[str, Any]:
    """A result with zeros: there was nothing to copy, and Spark was not started."""
    nothing = JobReport(
        run_id=run_id,
        plan_digest=plan.digest,
        ranges=(),
        target_topics=tuple(plan.target_topics),
        application_id="",
        spark_version="",
        seconds=0.0,
    )
    return result_of_run(nothing, plan)


def result_of_plan(plan: ReplayPlan, run_id: str, transform: Transform, pace: Pace | None = None) -> dict[str, Any]:
    """What ``plan_only=True`` returns: the plan in the shape of a result.

    :param transform: how each record would be changed; the warnings name what only Spark can check of it.
    :param pace: how fast the copy may write; None for no limit.
    """
    text = plan.table() if pace is None else f"{plan.table()}\n{pace.describe(plan.planned_records)}"
    return {
        "version": RESULT_VERSION,
        "state": "planned",
        "run_id": run_id,
        "planned_records": plan.planned_records,
        "missing": sum(m.offset_range.size for m in plan.missing),
        "warnings": [*plan.warnings, *([] if transform.topic_expr is None else [_UNCHECKED]), PLAN_ONLY],
        "target_topics": [name for name in plan.target_topics if name != plan.target.dead_letters],
        "spark_partitions": plan.spark_partitions,
        "digest": plan.digest,
        "text": text,
        "missing_ranges": _missing_ranges(plan),
        "ranges": plan.source.marked({**r.to_dict(), "planned_records": r.size} for r in plan.ranges),
    }


def _missing_ranges(plan: ReplayPlan) -> list[dict[str, Any]]:
    """The ranges that the broker no longer had, for a result."""
    return [
        {**r, **({TOPIC_ID: m.topic_id} if m.topic_id else {}), "reason": m.reason}
        for m, r in zip(plan.missing, plan.source.dicts(m.offset_range for m in plan.missing), strict=True)
    ]


def range_results(reports: Iterable[RangeReport], plan: ReplayPlan) -> list[dict[str, Any]]:
    """The ranges of a result."""
    return plan.source.marked(
        {
            **r.offset_range.to_dict(),
            "records_read": r.records_read,
            "records_written": r.records_written,
            **({} if plan.target.dead_letters is None else {"records_rejected": r.records_rejected}),
        }
        for r in reports
    )


def _dead_letters(report: JobReport, topic: str | None, ranges: list[dict[str, Any]]) -> dict[str, Any]:
    if topic is None:
        return {}
    return {
        "dead_letters": {
            "topic": topic,
            "records": report.records_rejected,
            "ranges": ranges,
        }
    }
