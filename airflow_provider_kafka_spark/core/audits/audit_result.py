"""The result of an audit, as its task returns it and as a person reads it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.audits.audit import AuditPlan
from airflow_provider_kafka_spark.core.audits.past_copy import PastCopy
from airflow_provider_kafka_spark.core.copies.verification import RESULT_VERSION
from airflow_provider_kafka_spark.core.errors import AuditFindingError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import aligned
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.wire.protocol import AuditCounts, AuditReport, JobReport

_COUNTS = ("once", "duplicated", "missing", "filtered", "unknown", "different")
_MAX_ROWS = 40
COMPLETE, FINDINGS, UNKNOWN = "complete", "findings", "unknown"

#: What to do, by what was found.
_ADVICE = {
    "missing": "Replay missing_ranges of the result.",
    "duplicated": "No replay takes a copy away: look for what has written the duplicated records a second time.",
    "different": "Look for what has changed the records that differ.",
}


def result_of_audit(report: JobReport, found: AuditReport, plan: AuditPlan) -> dict[str, Any]:
    """What the task returns, as the documentation gives it."""
    past = plan.past
    source = KnownTopics(past.source_ids, past.evidence.source_cluster_id)
    target = KnownTopics(past.evidence.target_ids, past.evidence.target_cluster_id)
    rows = source.marked(_row(counts, past) for counts in sorted(found.ranges, key=lambda counts: counts.offset_range))
    totals = {name: sum(row[name] for row in rows) for name in _COUNTS}
    is_unknown = totals["unknown"] or plan.uncounted or past.unmapped or past.evidence.may_have_duplicates
    state = UNKNOWN if is_unknown else COMPLETE
    if totals["missing"] or totals["duplicated"] or totals["different"]:
        state = FINDINGS
    warnings = [*plan.warnings, *report.warnings]
    if not found.all_missing_ranges:
        warnings.append(
            f"missing_ranges has the first {len(found.missing_ranges):,} ranges and not all. Replay them, and audit "
            "again."
        )
    return {
        "version": RESULT_VERSION,
        "state": state,
        "run_ids": list(past.run_ids),
        "ranges": rows,
        **totals,
        "extra_copies": sum(c.extra for c in found.ranges),
        "compared": past.compares,
        "not_compared": sum(c.not_compared for c in found.ranges),
        "missing_ranges": source.dicts(found.missing_ranges),
        "all_missing_ranges": found.all_missing_ranges,
        "duplicated_records": list(found.duplicated),
        "different_records": list(found.different),
        "target_ranges": target.dicts(plan.target),
        "application_id": report.application_id,
        "spark_version": report.spark_version,
        "seconds": round(report.seconds, 3),
        "warnings": warnings,
    }


def result_of_nothing(past: PastCopy) -> dict[str, Any]:
    """A result of zeros: the runs had copied nothing, and Spark was not started."""
    plan = AuditPlan(past, OffsetRanges(), OffsetRanges())
    nothing = JobReport(plan.past.run_ids[0], plan.digest, (), (), application_id="", spark_version="", seconds=0.0)
    return result_of_audit(nothing, AuditReport(tuple(AuditCounts(r) for r in past.ranges)), plan)


def _row(counts: AuditCounts, past: PastCopy) -> dict[str, Any]:
    """One range of the result. Of what the run had read and nobody has any more, its own counts say how much was left
    out; the rest is unknown.
    """
    here = counts.once + counts.duplicated + counts.missing + counts.filtered + counts.unknown
    gone = max(0, past.records.get(counts.offset_range, here) - here)
    filtered = max(0, min(gone, past.filtered.get(counts.offset_range, 0) - counts.filtered))
    return {
        **counts.offset_range.to_dict(),
        "once": counts.once,
        "duplicated": counts.duplicated,
        "missing": counts.missing,
        "filtered": counts.filtered + filtered,
        "unknown": counts.unknown + gone - filtered,
        "different": counts.different,
    }


def raise_if_findings(result: Mapping[str, Any]) -> None:
    """:raises AuditFindingError: if records are missing, duplicated or different."""
    if result["state"] != FINDINGS:
        return
    samples = {"duplicated": result["duplicated_records"], "different": result["different_records"]}
    named = "; ".join(f"{name}: {', '.join(records[:5])}" for name, records in samples.items() if records)
    advice = [text for name, text in _ADVICE.items() if result[name]]
    raise AuditFindingError(
        f"The audit of run {', '.join(result['run_ids'][:3])} must find each record once; it found {summary(result)}. "
        f"{named + '. ' if named else ''}{' '.join(advice)} Pass fail_on_finding=False to have findings reported only."
    )


def summary(result: Mapping[str, Any]) -> str:
    """The counts of a result in one line."""
    return ", ".join(f"{result[name]:,} {name}" for name in _COUNTS)


def table(result: Mapping[str, Any]) -> str:
    """The result as a person reads it."""
    headings = ("topic[partition]", "from", "until", *_COUNTS)
    rows = [
        (
            f"{r['topic']}[{r['partition']}]",
            f"{r['from_offset']:,}",
            f"{r['until_offset']:,}",
            *(f"{r[name]:,}" for name in _COUNTS),
        )
        for r in result["ranges"][:_MAX_ROWS]
    ]
    hidden = len(result["ranges"]) - len(rows)
    rows.append(
        ("total" if not hidden else f"total, {hidden:,} more", "", "", *(f"{result[name]:,}" for name in _COUNTS))
    )
    lines = aligned([headings, *rows])
    lines += [f"Missing: {OffsetRange.parse(r)}." for r in result["missing_ranges"][:_MAX_ROWS]]
    lines += [f"Duplicated: {record}." for record in result["duplicated_records"]]
    lines += [f"Different: {record}." for record in result["different_records"]]
    lines += [f"Warning: {warning}" for warning in result["warnings"]]
    if not result["compared"]:
        lines.append("The copy changed records (columns), so payloads were not compared.")
    return "\n".join(lines)
