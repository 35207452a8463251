"""What the results of past copies say, as far as an audit needs it. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.copies.verification import RESULT_VERSION
from airflow_provider_kafka_spark.core.errors import AuditInputError, KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.compact_result import whole_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import Segment, segments_of
from airflow_provider_kafka_spark.core.offsets.spans import merged
from airflow_provider_kafka_spark.core.records.dead_letters import dead_letters_of
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import Transform

#: As ``uuid4().hex[:16]`` gives it.
_RUN_ID = re.compile(r"[0-9a-f]{16,32}")


@dataclass(frozen=True, slots=True)
class PastCopy:
    """What the results of past runs say, as far as an audit needs it.

    :param run_ids: of the runs.
    :param ranges: what was read, without empty ranges.
    :param records: how many records each range had; a range is left out if that is not known.
    :param filtered: how many of them were left out; only where some were.
    :param segments: where the target has what was copied with ``provenance="segments"``.
    :param has_headers: some of it has provenance headers, so copies of it by later tries are found wherever they are.
    :param unmapped: what earlier tries of such a copy had finished, and is not audited: nothing tells where it is.
    :param evidence: of the first result; ``compares`` and ``with_headers`` are of all.
    :param source_ids: id of each source topic then, as far as known.
    :param target_topics: that were written to.
    :param target_ranges: where the runs wrote.
    :param has_unknown_places: some of it may be elsewhere in the target.
    :param compares: nothing has changed the records.
    """

    run_ids: tuple[str, ...]
    ranges: OffsetRanges
    records: Mapping[OffsetRange, int]
    evidence: CopyEvidence
    source_ids: Mapping[str, str] = field(default_factory=dict)
    target_topics: tuple[str, ...] = ()
    target_ranges: OffsetRanges = field(default_factory=OffsetRanges)
    has_unknown_places: bool = False
    compares: bool = True
    filtered: Mapping[OffsetRange, int] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    has_headers: bool = True
    unmapped: OffsetRanges = field(default_factory=OffsetRanges)

    @property
    def is_empty(self) -> bool:
        """Whether the runs had read nothing."""
        return not self.ranges or (len(self.records) == len(self.ranges) and not any(self.records.values()))


def parse_results(value: object) -> PastCopy:
    """Read the result of a copy, or a list of results with one target: what any of them has read must be there once.

    :param value: mappings, or JSON text.
    :raises AuditInputError: if it is no such result, or of a copy that leaves nothing to audit.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise AuditInputError(
                "of must be the result of a task that has copied (copy.output), that result as JSON, or "
                f"'dag_id.task_id'; reading the JSON failed: {str(error)[:100]}."
            ) from None
    results = [value] if isinstance(value, Mapping) else value
    if isinstance(results, str) or not isinstance(results, Iterable):
        raise AuditInputError(
            "of must be the result of a task that has copied, such as copy.output, or a list of results; got "
            f"{type(value).__name__}. If it is a template, check what it rendered to."
        )
    copies = [_parse(result) for result in results]
    if not copies:
        raise AuditInputError("of must have the result of at least one copy; got an empty list.")
    past = copies[0]
    for other in copies[1:]:
        past = _joined(past, other)
    return past


def _parse(result: object) -> PastCopy:
    if not isinstance(result, Mapping):
        raise AuditInputError(f"The result of a copy must be an object; got {type(result).__name__}.")
    if result.get("state") == "planned":
        raise AuditInputError(
            "The result must be of a task that has copied; this is the plan of plan_only=True, which copied nothing. "
            "Audit the task that carries it out."
        )
    if result.get("version") != RESULT_VERSION or "run_id" not in result or "ranges" not in result:
        raise AuditInputError(
            f"The result must have version {RESULT_VERSION}, run_id and ranges, as copying tasks return it; got the "
            f"keys {sorted(map(str, result))[:20]}. Pass the whole result."
        )
    if "evidence" not in result:
        raise AuditInputError(
            "The result must have the key 'evidence', which says how records were changed; it is of an earlier version "
            "of this package, or was shortened. Pass the result of a later run."
        )
    try:
        return _checked(result)
    except AuditInputError:
        raise
    except (KafkaSparkError, KeyError, TypeError, AttributeError) as error:
        raise AuditInputError(
            f"The result of a copy must be as its task returned it; reading it failed: {str(error)[:300]}."
        ) from None


def _checked(result: Mapping[str, Any]) -> PastCopy:
    result = whole_result(result)
    evidence = CopyEvidence.from_dict(result["evidence"])
    run_ids = (result["run_id"], *evidence.also_run_ids)
    for run_id in run_ids:
        if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
            raise AuditInputError(
                f"run_id of a result must be 16 hexadecimal digits; got {str(run_id)[:40]!r}. Pass the result as its "
                "task returned it."
            )
    segments = _segments(result, evidence.transform)
    finished_before = OffsetRanges.parse(result.get("finished_before", []))
    written_before = OffsetRanges.parse(result.get("written_before", []), merge_overlaps=True)
    reported = {OffsetRange.parse(r): _count(r, "records_read") for r in result["ranges"]}
    written = {OffsetRange.parse(r): _delivered(r) for r in result["ranges"]}
    ranges = OffsetRanges(r for r in reported if not r.is_empty)
    others, unmapped = finished_before.subtract(ranges), OffsetRanges()
    if not evidence.transform.provenance.in_headers:
        unmapped = others.subtract(OffsetRanges.parse(result.get("mapped_before", [])))
        others = others.subtract(unmapped)
    ranges_written = [*result["target_ranges"], *dead_letters_of(result)]
    targets = OffsetRanges.parse(ranges_written, merge_overlaps=True).merge(written_before)
    # What an earlier try rejected may be in a topic that this one did not write to.
    dead = [] if result.get("dead_letters") is None else [result["dead_letters"]["topic"]]
    topics = {TopicPartition(name, 0).topic for name in (*result["target_topics"], *dead)}
    return PastCopy(
        run_ids=run_ids,
        ranges=OffsetRanges((*ranges, *others)),
        records={r: reported[r] for r in ranges},
        evidence=evidence,
        source_ids={str(name): str(topic_id) for name, topic_id in result.get("source_topic_ids", {}).items()},
        target_topics=tuple(sorted(topics | {r.topic for r in targets})),
        target_ranges=OffsetRanges(merged(targets.without_empty())),
        has_unknown_places=bool(finished_before) and not written_before and evidence.transform.provenance.in_headers,
        compares=not evidence.transform.columns and not evidence.transform.schema_id_map,
        filtered={r: reported[r] - written[r] for r in ranges if reported[r] > written[r]},
        segments=segments,
        has_headers=evidence.transform.provenance.in_headers,
        unmapped=unmapped,
    )


def _segments(result: Mapping[str, Any], transform: Transform) -> tuple[Segment, ...]:
    """:raises AuditInputError: if nothing tells which records of the target are those of the copy."""
    if transform.provenance.in_headers:
        return ()
    if transform.provenance is Trace.NOTHING or ("segments" not in result and result["records_written"]):
        reason = (
            "this one had provenance=None"
            if transform.provenance is Trace.NOTHING
            else "this one has none, because an earlier try wrote records and its progress is gone"
        )
        raise AuditInputError(
            "Only a copy with provenance headers, or with segments in its result, can be audited; "
            f"{reason}, so nothing tells which records of the target are of run {result['run_id']}. Compare the target "
            "with the source by other means, and copy with provenance='headers' next time."
        )
    segments = segments_of(result)
    topics = set(result["target_topics"])
    if strange := [s for s in segments if s.target.topic not in topics]:
        raise AuditInputError(
            f"The segments of a result must lead to its target_topics {sorted(topics)[:5]}; one leads to "
            f"{strange[0].target.topic!r}. Pass the result as its task returned it."
        )
    return segments


def _delivered(r: Mapping[str, Any]) -> int:
    """Dead letters were delivered too."""
    return _count(r, "records_written") + (_count(r, "records_rejected") if "records_rejected" in r else 0)


def _count(r: Mapping[str, Any], name: str) -> int:
    count = r[name]
    if type(count) is not int or count < 0:
        raise AuditInputError(f"{name} of a range must be a number from 0; got {count!r}.")
    return count


def _check_joined(past: PastCopy, other: PastCopy, new: OffsetRanges) -> None:
    """Check that both can be audited as one.

    :param new: what only the other one has read.
    :raises AuditInputError: if they cannot.
    """
    ours, theirs = past.evidence, other.evidence
    _check_same("source cluster", ours.source_cluster_id, theirs.source_cluster_id)
    _check_same("target cluster", ours.target_cluster_id, theirs.target_cluster_id)
    for ids, of_other, name in (
        (past.source_ids, other.source_ids, "source"),
        (ours.target_ids, theirs.target_ids, "target"),
    ):
        for topic in ids.keys() & of_other.keys():
            _check_same(f"{name} topic {topic!r}", ids[topic], of_other[topic])
    if new and ours.transform.filters != theirs.transform.filters:
        raise AuditInputError(
            "Results that are audited together must have the same filters and the same window, or the later ones must "
            "have read only what the first one has read. Audit them one by one."
        )
    if (
        past.target_topics
        and other.target_topics
        and new
        and (ours.transform.topic, ours.transform.topic_expr) != (theirs.transform.topic, theirs.transform.topic_expr)
    ):
        raise AuditInputError("Results that are audited together must have the same target. Audit them one by one.")


def _earliest_ends(ours: CopyEvidence, theirs: CopyEvidence) -> dict[str, dict[int, int]]:
    """Where the targets ended before both began, as far as both know it."""
    return {
        topic: {
            number: min(by.get(number, 0) for by in (ours.target_ends[topic], theirs.target_ends[topic]))
            for number in ours.target_ends[topic].keys() | theirs.target_ends[topic].keys()
        }
        for topic in ours.target_ends.keys() & theirs.target_ends.keys()
    }


def _joined(past: PastCopy, other: PastCopy) -> PastCopy:
    """Both together; what the first one has read counts once."""
    new = other.ranges.subtract(past.ranges)
    ours, theirs = past.evidence, other.evidence
    _check_joined(past, other, new)
    transform = replace(
        ours.transform,
        include_headers=ours.transform.include_headers and theirs.transform.include_headers,
        preserve_timestamps=ours.transform.preserve_timestamps and theirs.transform.preserve_timestamps,
        preserve_partition=ours.transform.preserve_partition and theirs.transform.preserve_partition,
    )
    return PastCopy(
        run_ids=tuple(dict.fromkeys((*past.run_ids, *other.run_ids))),
        ranges=OffsetRanges((*past.ranges, *new)),
        records={**past.records, **{r: other.records[r] for r in new if r in other.records}},
        evidence=replace(
            ours,
            transform=transform,
            target_ids={**theirs.target_ids, **ours.target_ids},
            target_ends=_earliest_ends(ours, theirs),
            may_have_duplicates=ours.may_have_duplicates or theirs.may_have_duplicates,
        ),
        source_ids={**other.source_ids, **past.source_ids},
        target_topics=tuple(sorted({*past.target_topics, *other.target_topics})),
        target_ranges=OffsetRanges(merged(past.target_ranges.merge(other.target_ranges).without_empty())),
        has_unknown_places=past.has_unknown_places or other.has_unknown_places,
        compares=past.compares and other.compares,
        filtered={**past.filtered, **{r: other.filtered[r] for r in new if r in other.filtered}},
        segments=(*past.segments, *other.segments),
        has_headers=past.has_headers or other.has_headers,
        unmapped=past.unmapped.merge(other.unmapped).subtract(past.ranges.merge(new)),
    )


def _check_same(name: str, first: str, second: str) -> None:
    if first and second and first != second:
        raise AuditInputError(
            f"Results that are audited together must be of the same {name}; got {first} and {second}. Audit them one "
            "by one."
        )
