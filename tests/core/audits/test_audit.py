"""Where an audit looks, what may have aged out, and which reports add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.audits.audit import AuditPlan, check_report, plan_audit, settled
from airflow_provider_kafka_spark.core.audits.audit_result import (
    raise_if_findings,
    result_of_audit,
    result_of_nothing,
    table,
)
from airflow_provider_kafka_spark.core.audits.past_copy import PastCopy
from airflow_provider_kafka_spark.core.errors import (
    AuditFindingError,
    AuditInputError,
    DeliveryError,
    OpenTransactionError,
    TopicRecreatedError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import AuditCounts, AuditReport, JobReport, Transform

_SOURCE = OffsetRange("orders", 0, 10, 20), OffsetRange("orders", 1, 0, 5)
_PLACE = OffsetRange("copy", 0, 100, 115)
_PAST = PastCopy(
    run_ids=("0123456789abcdef",),
    ranges=OffsetRanges(_SOURCE),
    records={_SOURCE[0]: 10, _SOURCE[1]: 5},
    evidence=CopyEvidence(Transform(topic="copy"), True, "a", "b", {"copy": "t"}, {"copy": {0: 90, 1: 40}}),
    source_ids={"orders": "s"},
    target_topics=("copy",),
    target_ranges=OffsetRanges([_PLACE]),
)


def topic(name: str, topic_id: str | None, *ends: tuple[int, int], **config: str) -> TopicState:
    partitions = {number: PartitionState(start, end, end) for number, (start, end) in enumerate(ends)}
    return TopicState(name, topic_id, partitions, config or {"cleanup.policy": "delete"})


def cluster(cluster_id: str, state: TopicState) -> ClusterState:
    return ClusterState(cluster_id, "kafka_default", 0, {state.name: state})


def source_of(topic_id: str | None, *ends: tuple[int, int], name: str = "orders") -> ClusterState:
    return cluster("a", topic(name, topic_id, *ends))


def target_of(topic_id: str | None, *ends: tuple[int, int]) -> ClusterState:
    return cluster("b", topic("copy", topic_id, *ends))


SOURCE, TARGET = source_of("s", (0, 30), (0, 5)), target_of("t", (0, 200), (0, 50))


def plan(past: PastCopy = _PAST, source: ClusterState = SOURCE, target: ClusterState = TARGET, **how: Any) -> AuditPlan:
    return plan_audit(past, source, target, **how)


@pytest.mark.parametrize(
    ("change", "how", "expected"),
    [
        pytest.param({}, {}, ["copy:0:90:200", "copy:1:40:50"], id="from-where-the-run-began"),
        pytest.param({}, {"read_to_end": False}, ["copy:0:100:115"], id="only-where-written"),
        pytest.param(
            {"evidence": replace(_PAST.evidence, target_ends={})}, {}, ["copy:0:100:200", "copy:1:0:50"], id="no-ends"
        ),
        pytest.param({"has_unknown_places": True}, {}, ["copy:0:0:200", "copy:1:0:50"], id="unknown"),
        pytest.param(
            {"has_unknown_places": True}, {"read_to_end": False}, ["copy:0:0:200", "copy:1:0:50"], id="unknown-2"
        ),
        pytest.param({"target_ranges": OffsetRanges()}, {"read_to_end": False}, [], id="nothing-written"),
    ],
)
def test_where_it_looks(change: dict[str, Any], how: dict[str, Any], expected: list[str]) -> None:
    """Without a begin, a partition where the run wrote nothing is read whole."""
    found = plan(replace(_PAST, **change), **how)

    assert found.target.format() == expected
    assert (found.source, found.may_have_aged) == (OffsetRanges(_SOURCE), ())
    assert bool(found.warnings) is ("read_to_end" in how)


@pytest.mark.parametrize(
    ("ends", "transform", "aged"),
    [
        pytest.param(((100, 200), (0, 50)), {}, [], id="just-not"),
        pytest.param(((101, 200), (0, 50)), {}, ["orders[0]", "orders[1]"], id="any-partition"),
        pytest.param(
            ((101, 200), (0, 50)), {"preserve_partition": True, "topic": None, "topic_expr": "topic"},
            ["orders[0]", "orders[1]"], id="topics-by-expression",
        ),
    ],
)  # fmt: skip
def test_what_may_have_aged_out(ends: Any, transform: dict[str, Any], aged: list[str]) -> None:
    past = replace(_PAST, evidence=replace(_PAST.evidence, transform=Transform(**{"topic": "copy", **transform})))
    found = plan(past, target=target_of("t", *ends))

    assert [str(p) for p in found.may_have_aged] == aged
    assert bool(found.warnings) is bool(aged)


def test_a_compacted_target_and_one_whose_settings_are_hidden() -> None:
    compacted = plan(target=cluster("b", topic("copy", "t", (0, 200), (0, 50), **{"cleanup.policy": "compact,delete"})))
    hidden = replace(TARGET.topics["copy"], config={})
    unknown = plan(target=replace(TARGET, topics={"copy": hidden}))

    assert len(compacted.may_have_aged) == 2
    assert unknown.may_have_aged == ()
    assert "DESCRIBE_CONFIGS" in unknown.warnings[0]


def test_what_has_aged_out_of_the_source_is_not_read() -> None:
    found = plan(source=source_of("s", (15, 30), (5, 5)))

    assert found.source.format() == ["orders:0:15:20"]
    assert "10 offsets have aged out of the source" in found.warnings[0]


@pytest.mark.parametrize(
    ("source", "uncounted"),
    [
        pytest.param(SOURCE, [], id="whole"),
        pytest.param(source_of("s", (0, 30), (3, 5)), ["orders:1:0:3"], id="aged-out"),
        pytest.param(
            cluster("a", topic("orders", "s", (0, 30), (0, 5), **{"cleanup.policy": "compact"})), ["orders:1:0:5"],
            id="compacted",
        ),
        pytest.param(
            cluster("a", replace(SOURCE.topics["orders"], config={})), ["orders:1:0:5"], id="settings-are-hidden"
        ),
    ],
)  # fmt: skip
def test_what_nobody_has_counted_is_complete_only_if_the_source_has_it(
    source: ClusterState, uncounted: list[str]
) -> None:
    """Such as what an earlier try had finished. What has a count is compared with it."""
    past = replace(_PAST, records={_SOURCE[0]: 10})
    found = plan(past, source)
    counts = AuditReport((AuditCounts(_SOURCE[0], once=10), AuditCounts(_SOURCE[1], once=2)))
    result = result_of_audit(report(counts, found.digest), counts, found)

    assert found.uncounted.format() == uncounted
    assert result["state"] == ("unknown" if uncounted else "complete")
    assert sum("No result says how many" in warning for warning in result["warnings"]) == bool(uncounted)


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        pytest.param(source_of("s", (0, 30), name="x"), TARGET, "source topic 'orders' must still", id="no-source"),
        pytest.param(source_of(None, (0, 19), (0, 5)), TARGET, r"source orders\[0\] must", id="source-cut"),
        pytest.param(source_of(None, (0, 30)), TARGET, "no such partition", id="fewer-partitions"),
        pytest.param(SOURCE, target_of("x", (0, 200), (0, 50)), "target topic 'copy'", id="target-id"),
        pytest.param(SOURCE, target_of(None, (0, 114), (0, 50)), r"target copy\[0\] must", id="target-cut"),
    ],
)
def test_a_topic_that_is_not_that_of_the_copy(source: ClusterState, target: ClusterState, says: str) -> None:
    with pytest.raises(TopicRecreatedError, match=says):
        plan(source=source, target=target)


def test_another_cluster() -> None:
    with pytest.raises(AuditInputError, match="source_conn_id"):
        plan(source=replace(SOURCE, cluster_id="b"))
    with pytest.raises(AuditInputError, match="target_conn_id"):
        plan(target=replace(TARGET, cluster_id="a"))


def test_an_open_transaction_that_hides_what_was_written() -> None:
    partitions = {0: PartitionState(0, 110, 200), 1: PartitionState(0, 50, 50)}
    with pytest.raises(OpenTransactionError, match=r"copy\[0\] must be readable to offset 115.* from offset 110 on"):
        plan(target=cluster("b", TopicState("copy", "t", partitions)))


GOOD = AuditReport((AuditCounts(_SOURCE[0], once=10), AuditCounts(_SOURCE[1], once=5)))


def with_first(*counts: int, **others: int) -> AuditReport:
    return replace(GOOD, ranges=(AuditCounts(_SOURCE[0], *counts, **others), GOOD.ranges[1]))


def report(found: AuditReport | None, digest: str | None = None) -> JobReport:
    return JobReport("0123456789abcdef", digest or plan().digest, (), (), "app", "4.0.0", 1.0, audit=found)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param(None, "belongs to another run", id="none"),
        pytest.param(replace(GOOD, ranges=GOOD.ranges[1:]), "the ranges are not", id="range-lacks"),
        pytest.param(with_first(9, 2), "11 records", id="too-many"),
        pytest.param(with_first(9, filtered=1), "1 filtered", id="filtered"),
        pytest.param(with_first(9, missing=1), "0 offsets for 1", id="where"),
        pytest.param(
            replace(GOOD, missing_ranges=(OffsetRange("orders", 7, 0, 1),)), "1 offsets for 0", id="elsewhere"
        ),
    ],
)
def test_a_report_that_does_not_add_up(found: AuditReport | None, says: str) -> None:
    assert check_report(report(GOOD), plan()) == GOOD
    with pytest.raises(DeliveryError, match=says):
        check_report(report(found), plan())
    with pytest.raises(DeliveryError, match="belongs to another run"):
        check_report(report(GOOD, "0" * 16), plan())


def test_what_the_run_had_read_and_nobody_has_any_more_is_unknown() -> None:
    """No finding, and not complete either."""
    found = AuditReport((AuditCounts(_SOURCE[0], once=4), AuditCounts(_SOURCE[1], once=3, unknown=1)))
    result = result_of_audit(report(found), found, plan())
    without = result_of_audit(report(found), found, replace(plan(), past=replace(_PAST, records={})))

    assert [r["unknown"] for r in result["ranges"]] == [6, 2]
    assert (result["unknown"], result["state"]) == (8, "unknown")
    assert without["unknown"] == 1
    filtered = result_of_audit(report(found), found, replace(plan(), past=replace(_PAST, filtered={_SOURCE[0]: 5})))
    assert [(r["filtered"], r["unknown"]) for r in filtered["ranges"]] == [(5, 1), (0, 2)]
    raise_if_findings(result)


def test_what_may_be_in_the_target_twice_is_not_called_complete() -> None:
    """No header tells the one from the other, so nothing is found."""
    past = replace(_PAST, evidence=replace(_PAST.evidence, may_have_duplicates=True), has_headers=False)
    result = result_of_audit(report(GOOD), GOOD, plan(past))

    assert (result["state"], result["once"], result["duplicated"]) == ("unknown", 15, 0)
    assert any("may be in the target more than once" in warning for warning in result["warnings"])


@pytest.mark.parametrize(
    ("name", "advice"),
    [("missing", "Replay missing_ranges"), ("duplicated", "No replay takes a copy away"), ("different", "has changed")],
)
def test_findings(name: str, advice: str) -> None:
    """The advice is for what was found."""
    found = AuditReport((AuditCounts(_SOURCE[0], **{name: 1}), AuditCounts(_SOURCE[1])), duplicated=("orders[0]@11",))
    result = result_of_audit(report(found), found, plan())

    with pytest.raises(AuditFindingError, match=rf"1 {name}.*duplicated: orders\[0\]@11\. [^.]*{advice}"):
        raise_if_findings(result)
    assert result["state"] == "findings"


def test_more_missing_ranges_than_a_result_holds() -> None:
    found = AuditReport((AuditCounts(_SOURCE[0], missing=3), AuditCounts(_SOURCE[1])), (_SOURCE[0],), False)
    result = result_of_audit(report(found), check_report(report(found), plan()), plan())

    assert not result["all_missing_ranges"]
    assert "first 1 ranges" in result["warnings"][0]


def test_the_table() -> None:
    found = AuditReport(
        (AuditCounts(_SOURCE[0], once=9, missing=1), GOOD.ranges[1]), (OffsetRange("orders", 0, 12, 13),)
    )
    text = table(result_of_audit(report(found), found, plan()))

    assert [line.split() for line in text.splitlines()[2:5]] == [
        ["orders[0]", "10", "20", "9", "0", "1", "0", "0", "0"],
        ["orders[1]", "0", "5", "5", "0", "0", "0", "0", "0"],
        ["total", "14", "0", "1", "0", "0", "0"],
    ]
    assert text.splitlines()[5] == "Missing: orders[0] 12 to 13."
    assert table(result_of_nothing(replace(_PAST, ranges=OffsetRanges(), records={}))).count("\n") == 2


def test_what_ages_out_while_the_job_runs_is_not_missing() -> None:
    """Of the partition that has aged only, where the copy kept the partitions."""
    kept = replace(_PAST.evidence, transform=Transform(topic="copy", preserve_partition=True))
    past = replace(_PAST, evidence=kept)
    before, after = plan(past), plan(past, target=target_of("t", (101, 200), (0, 50)))
    missing = OffsetRange("orders", 0, 10, 12), OffsetRange("orders", 1, 0, 1)
    ranges = AuditCounts(_SOURCE[0], once=8, missing=2), AuditCounts(_SOURCE[1], once=4, missing=1)
    found = AuditReport(ranges, missing)

    assert settled(found, before, before) == (found, before)
    settled_report, settled_plan = settled(found, before, after)
    assert [(c.missing, c.unknown) for c in settled_report.ranges] == [(0, 2), (1, 0)]
    assert settled_report.missing_ranges == missing[1:]
    assert settled_plan.warnings == after.warnings
    assert settled_plan.target == before.target
