"""The audit of a past copy: where to look for what it delivered, and whether the report adds up. No I/O."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.audits.past_copy import PastCopy
from airflow_provider_kafka_spark.core.errors import (
    AuditInputError,
    DeliveryError,
    OpenTransactionError,
    TopicRecreatedError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.protocol import AuditReport, JobReport

_READ_TARGET = ReadRules(read_committed=True)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What an audit reads.

    :param past: what is audited.
    :param source: what the source still has of the ranges.
    :param target: what is read of the target.
    :param may_have_aged: source partitions whose records may be gone from the target.
    :param warnings: what the author should know.
    :param read_to_end: the target is read to its end.
    :param uncounted: nobody knows how many records they had: no result has their counts, and the source may have lost
        some. What the target lacks of them is not seen.
    """

    past: PastCopy
    source: OffsetRanges
    target: OffsetRanges
    may_have_aged: tuple[TopicPartition, ...] = ()
    warnings: tuple[str, ...] = ()
    read_to_end: bool = True
    uncounted: OffsetRanges = field(default_factory=OffsetRanges)

    @property
    def digest(self) -> str:
        """Identifies what is audited: 16 hexadecimal digits."""
        past = self.past
        segments = [segment.to_dict() for segment in past.segments]
        content = [past.run_ids, past.ranges.format(), self.source.format(), self.target.format(), segments]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def plan_audit(past: PastCopy, source: ClusterState, target: ClusterState, *, read_to_end: bool = True) -> AuditPlan:
    """Where to look for what past runs have delivered.

    :param source: state of the source's topics now.
    :param target: state of the target's topics now.
    :param read_to_end: read the target up to its end, where later copies of the same records may be.
    :raises AuditInputError: if a connection leads to another cluster.
    :raises TopicRecreatedError: if a topic was deleted or recreated.
    :raises OpenTransactionError: if what the runs wrote is hidden by an open transaction.
    """
    evidence = past.evidence
    _check_cluster("source", evidence.source_cluster_id, source)
    _check_cluster("target", evidence.target_cluster_id, target)
    for topic in sorted({r.topic for r in past.ranges}):
        _check_id("source", topic, past.source_ids.get(topic), source)
    for topic in past.target_topics:
        _check_id("target", topic, evidence.target_ids.get(topic), target)
    # Without headers nothing tells later copies from other records.
    targets, warnings = _target_ranges(past, target, read_to_end=read_to_end and past.has_headers)
    topics = {r.topic for r in past.ranges}
    warnings += KnownTopics.of(topics, past.source_ids, evidence.source_cluster_id).unchecked(topics, source)
    known = KnownTopics.of(past.target_topics, evidence.target_ids, evidence.target_cluster_id)
    warnings += known.unchecked(past.target_topics, target)
    if past.unmapped:
        warnings.append(
            f"{past.unmapped.total:,} offsets that earlier tries had finished are not audited: their tries left no "
            f"segments, such as of {past.unmapped[0]}."
        )
    if evidence.may_have_duplicates:
        warnings.append(
            "Records of the copy may be in the target more than once: a try of it could not tell what was delivered "
            "before, and without headers nothing tells which records those are. So this audit does not find them."
        )
    aged, gone = _aged(past, target)
    readable, lost = _readable(past, source)
    uncounted, unseen = _uncounted(past, readable, source)
    return AuditPlan(past, readable, targets, aged, (*warnings, *gone, *lost, *unseen), read_to_end, uncounted)


def _check_cluster(side: str, then: str, now: ClusterState) -> None:
    if then and now.cluster_id and then != now.cluster_id:
        raise AuditInputError(
            f"The connection of the {side} must lead to the cluster of the past copy (id {then}); {now.conn_id!r} "
            f"leads to {now.cluster_id}. Pass {side}_conn_id."
        )


def _check_id(side: str, topic: str, then: str | None, now: ClusterState) -> None:
    state = now.topics.get(topic)
    if state is None:
        raise TopicRecreatedError(
            f"The {side} topic {topic!r} must still exist to be audited; it was deleted, or the login may not see it."
        )
    if then and state.topic_id is not None and then != state.topic_id:
        raise TopicRecreatedError(
            f"The {side} topic {topic!r} must be that of the past copy (topic id {then}); it was deleted and recreated "
            f"(now {state.topic_id}). Its records are others, so nothing can be compared."
        )


def _partition(side: str, p: TopicPartition, until: int, now: ClusterState) -> PartitionState:
    state = now.topic(p.topic).partitions.get(p.partition)
    if state is None or until > max(state.high_watermark, state.last_stable):
        end = "no such partition" if state is None else f"its end is {state.high_watermark:,}"
        raise TopicRecreatedError(
            f"The {side} {p} must reach to offset {until:,}, as when it was copied; {end}. The topic was deleted and "
            "recreated, or its log was cut, so nothing can be compared."
        )
    return state


def _readable(past: PastCopy, source: ClusterState) -> tuple[OffsetRanges, list[str]]:
    """What the source still has of the ranges, and what it does not have."""
    rules, readable, aged = ReadRules(past.evidence.read_committed), [], 0
    for p, of_partition in past.ranges.by_partition():
        state = _partition("source", p, of_partition[-1].until_offset, source)
        for r in of_partition:
            start = min(max(r.from_offset, state.log_start), r.until_offset)
            end = max(start, min(r.until_offset, rules.end_of(state)))
            readable.append(replace(r, from_offset=start, until_offset=end))
            aged += start - r.from_offset
    warnings = []
    if aged:
        warnings.append(
            f"{aged:,} offsets have aged out of the source: their records are not compared, and what the target does "
            "not have of them is unknown."
        )
    return OffsetRanges(r for r in readable if not r.is_empty), warnings


def _uncounted(past: PastCopy, readable: OffsetRanges, source: ClusterState) -> tuple[OffsetRanges, list[str]]:
    """The ranges without a count of their records of which the source may have lost some, and a warning.

    :param readable: what the source still has of all ranges.
    """
    not_counted = OffsetRanges(r for r in past.ranges if r not in past.records)
    # Settings that the login may not read may say so.
    policies = {t: source.topic(t).config.get("cleanup.policy", "compact") for t in {r.topic for r in not_counted}}
    whole = OffsetRanges(r for r in not_counted if "compact" in policies[r.topic])
    uncounted = whole.merge(not_counted.subtract(readable))
    if not uncounted:
        return uncounted, []
    return uncounted, [
        f"No result says how many records {uncounted.total:,} offsets had, such as {uncounted[0]}, and the source no "
        "longer has them, is compacted, or hides its settings (DESCRIBE_CONFIGS): what the target lacks of them is not "
        "seen."
    ]


def _target_ranges(past: PastCopy, target: ClusterState, *, read_to_end: bool) -> tuple[OffsetRanges, list[str]]:
    places = {r.topic_partition: r for r in past.target_ranges}
    found = []
    for p, place in places.items():
        state = _partition("target", p, place.until_offset, target)
        if _READ_TARGET.end_of(state) < place.until_offset:
            raise OpenTransactionError(
                f"The target {p} must be readable to offset {place.until_offset:,}, where the copy ended; an open "
                f"transaction hides it from offset {state.last_stable:,} on. A retry looks again."
            )
    for topic in past.target_topics:
        before = past.evidence.target_ends.get(topic, {})
        for number, state in target.topic(topic).partitions.items():
            known, end = places.get(TopicPartition(topic, number)), _READ_TARGET.end_of(state)
            start = before.get(number, 0)
            if known is not None:
                start = min(start, known.from_offset) if number in before else known.from_offset
            if past.has_unknown_places:
                start = 0
            if not read_to_end and not past.has_unknown_places:
                if known is None:
                    continue
                start, end = known.from_offset, known.until_offset
            start = max(start, state.log_start)
            found.append(OffsetRange(topic, number, min(start, end), end))
    warnings = []
    if not read_to_end:
        warnings.append("The target was read only where the runs wrote: later copies of the same records are not seen.")
    return OffsetRanges(r for r in found if not r.is_empty), warnings


def _aged(past: PastCopy, target: ClusterState) -> tuple[tuple[TopicPartition, ...], list[str]]:
    """The source partitions of which the target may have lost records by retention, and why."""
    partitions = past.ranges.topic_partitions
    compacted = [
        topic for topic in past.target_topics if "compact" in target.topic(topic).config.get("cleanup.policy", "delete")
    ]
    if compacted:
        return partitions, [
            f"The target {', '.join(compacted[:5])} is compacted: what it does not have is unknown, and not missing."
        ]
    unreadable = [topic for topic in past.target_topics if not target.topic(topic).config]
    warnings = []
    if unreadable:
        warnings.append(
            f"The login may not read the settings of {', '.join(unreadable[:5])} (DESCRIBE_CONFIGS): if a target is "
            "compacted, what counts as missing may have been compacted away."
        )
    gone = [
        r.topic_partition for r in past.target_ranges if target.partition(r.topic_partition).log_start > r.from_offset
    ]
    if past.has_unknown_places:
        gone += [
            TopicPartition(topic, number)
            for topic in past.target_topics
            for number, state in target.topic(topic).partitions.items()
            if state.log_start
        ]
    if not gone:
        return (), warnings
    warnings.append(
        f"The log of {', '.join(map(str, sorted(set(gone))[:5]))} now starts after the place where the run wrote: what "
        "the target does not have of it is unknown, and not missing."
    )
    of = past.evidence.transform
    # Dead letters are in any partition.
    if of.preserve_partition and of.topic is not None and of.dead_letter_topic is None:
        numbers = {p.partition for p in gone}
        return tuple(p for p in partitions if p.partition in numbers), warnings
    return partitions, warnings


def check_report(report: JobReport, plan: AuditPlan) -> AuditReport:
    """What the job found, if it is of this plan and adds up.

    :raises DeliveryError: naming what does not.
    """
    found = report.audit
    if found is None or report.plan_digest != plan.digest:
        raise DeliveryError(
            f"The report must be of audit {plan.digest!r}; got {report.plan_digest!r}. It belongs to another run: give "
            "each task a report_location of its own."
        )
    faults = []
    if report.failure is not None:
        faults.append(f"the job reports a failure, {report.failure.code}")
    if sorted(c.offset_range for c in found.ranges) != sorted(plan.past.ranges):
        faults.append("the ranges are not those of the past copy")
    for counts in found.ranges:
        here = counts.once + counts.duplicated + counts.missing + counts.filtered + counts.unknown
        if here > counts.offset_range.size:
            faults.append(f"{counts.offset_range}: {here:,} records of at most {counts.offset_range.size:,}")
        if counts.filtered and not plan.past.evidence.transform.drops_records:
            faults.append(f"{counts.offset_range}: {counts.filtered:,} filtered without a filter")
    missing, size = sum(c.missing for c in found.ranges), sum(r.size for r in found.missing_ranges)
    if OffsetRanges(found.missing_ranges).subtract(plan.past.ranges) or (found.all_missing_ranges and size < missing):
        faults.append(f"the ranges of what is missing have {size:,} offsets for {missing:,} records")
    if faults:
        raise DeliveryError(
            f"The report of the audit does not add up (application {report.application_id}): {'; '.join(faults[:10])}."
        )
    return found


def settled(found: AuditReport, plan: AuditPlan, after: AuditPlan) -> tuple[AuditReport, AuditPlan]:
    """What was found, and the plan, in view of what has aged out while the job ran: it is not missing.

    :param after: made of the clusters after the job.
    """
    plan_now = replace(plan, may_have_aged=after.may_have_aged, warnings=after.warnings, uncounted=after.uncounted)
    aged = set(after.may_have_aged) - set(plan.may_have_aged)
    if not aged:
        return found, plan_now
    ranges = (
        replace(c, missing=0, unknown=c.unknown + c.missing) if c.offset_range.topic_partition in aged else c
        for c in found.ranges
    )
    missing = tuple(r for r in found.missing_ranges if r.topic_partition not in aged)
    return replace(found, ranges=tuple(ranges), missing_ranges=missing), plan_now
