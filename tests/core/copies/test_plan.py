from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies import plan as plans
from airflow_provider_kafka_spark.core.copies.identity import fingerprint_changes, fingerprint_of_transform
from airflow_provider_kafka_spark.core.copies.plan import PLAN_VERSION, ReplayPlan, make_plan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.errors import (
    DataLossError,
    PlanError,
    PlanTooLargeError,
    ProtocolError,
    TargetError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.pieces import MAX_PIECES
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange, ReadRules, ResolvedRanges
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from tests.core.refusals import refuses


def _topic(name: str, partitions: int = 2, topic_id: str | None = "id-1", **config: str) -> TopicState:
    return TopicState(
        name,
        topic_id,
        {i: PartitionState(0, 100, 100 + i) for i in range(partitions)},
        {key.replace("_", "."): value for key, value in config.items()},
    )


def _cluster(*topics: TopicState, cluster_id: str = "A", conn_id: str = "kafka_default") -> ClusterState:
    return ClusterState(cluster_id, conn_id, 0, {topic.name: topic for topic in topics})


def _resolved(*ranges: str) -> ResolvedRanges:
    return ResolvedRanges(OffsetRanges.parse(ranges or ["orders:0:0:10", "orders:1:0:20"]))


def _plan(**changes: Any) -> ReplayPlan:
    plan = ReplayPlan(
        source_cluster_id="A",
        target_cluster_id="B",
        target=Target("copy"),
        ranges=OffsetRanges.parse(["orders:0:0:1000", "orders:1:0:2000000"]),
        missing=(MissingRange(OffsetRange("orders", 0, 0, 5), "aged out"),),
        topic_ids={"orders": "id-1"},
        partition_counts={"orders": 2},
        target_ends={"copy": {0: 7, 11: 8}},
        target_ids={"copy": "id-9"},
        spark_partitions=2,
        warnings=("mind this",),
    )
    return replace(plan, **changes)


@pytest.mark.parametrize(
    ("target", "got"),
    [
        pytest.param({}, "got neither", id="none"),
        pytest.param(
            {"topic": "copy", "topic_expr": "topic"}, "got target_topic='copy', target_topic_expr='topic'.", id="two"
        ),
        pytest.param({"topic": "copy", "topic_map": {"a": "x"}}, "topic_map=", id="topic-and-map"),
    ],
)
def test_a_target_is_exactly_one_of_topic_expression_and_map(target: dict[str, Any], got: str) -> None:
    """Without a target Spark would write records back into their source; with two nobody knows which."""
    with refuses(TargetError, "exactly one of target_topic='orders_copy', topic_map=", got):
        Target(**{"topic": None, **target})


def test_a_map_must_have_each_topic() -> None:
    target = Target(None, topic_map={"a": "x", "b": "y", "c": "x", "unread": "z"})

    assert target.routes(["c", "b", "a", "a"]) == {"x": ["a", "c"], "y": ["b"]}
    with pytest.raises(TargetError, match="none for 'd', 'e'"):
        target.routes(["a", "e", "d"])


def test_a_plan_holds_what_was_resolved_and_what_the_target_had() -> None:
    lost = MissingRange(OffsetRange("orders", 0, 0, 5), "aged out")
    resolved = ResolvedRanges(OffsetRanges.parse(["orders:0:5:10", "stock:0:0:0"]), (lost,), ("mind this",))
    source = _cluster(_topic("orders", 3), _topic("stock", 1, None), _topic("other"))

    plan = make_plan(resolved, source, _cluster(_topic("copy"), cluster_id="B"), Target("copy"))

    assert plan == ReplayPlan(
        source_cluster_id="A",
        target_cluster_id="B",
        target=Target("copy"),
        ranges=resolved.ranges,
        missing=(lost,),
        topic_ids={"orders": "id-1"},
        partition_counts={"orders": 3, "stock": 1},
        target_ends={"copy": {0: 100, 1: 101}},
        target_ids={"copy": "id-1"},
        spark_partitions=1,
        warnings=("mind this",),
    )


@pytest.mark.parametrize(
    ("ranges", "max_size", "preserve_order", "tasks"),
    [
        pytest.param(["orders:0:0:10", "orders:1:0:20"], 10, False, 3, id="cut-at-the-largest-size"),
        pytest.param(["orders:0:0:100"], 1, True, 1, id="in-order-one-for-each-partition"),
        pytest.param([f"orders:0:0:{MAX_PIECES}"], 1, False, MAX_PIECES, id="as-many-as-there-may-be"),
        pytest.param([f"orders:0:0:{MAX_PIECES + 1}"], 1, True, 1, id="more-pieces-in-one-task"),
    ],
)
def test_a_plan_counts_spark_partitions(ranges: list[str], max_size: int, preserve_order: bool, tasks: int) -> None:
    clusters = _cluster(_topic("orders")), _cluster(_topic("copy"))

    assert make_plan(_resolved(*ranges), *clusters, Target("copy"), max_size, preserve_order).spark_partitions == tasks
    # Each costs a transaction and memory of the driver.
    with refuses(
        PlanError, "at most 10,000 pieces", "it has 10,001", "max_records_per_partition", "preserve_order=True"
    ):
        make_plan(_resolved(f"orders:0:0:{MAX_PIECES + 1}"), *clusters, Target("copy"), 1, preserve_order=False)


def test_a_plan_has_no_more_ranges_than_the_ledger_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the copy would be none for the ledger, which bounds what it reads of an event."""
    monkeypatch.setattr(plans, "MAX_RANGES", 2)
    clusters = _cluster(_topic("orders")), _cluster(_topic("copy"))

    assert make_plan(_resolved("orders:0:0:1", "orders:0:2:3"), *clusters, Target("copy")).planned_records == 2
    with refuses(PlanTooLargeError, "at most 2 ranges", "it has 3"):
        make_plan(_resolved("orders:0:0:1", "orders:0:2:3", "orders:0:4:5"), *clusters, Target("copy"))


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        pytest.param(2_000, [], id="as-large-as-was-tried"),
        pytest.param(
            2_001,
            [
                "2,001 pieces (2,000 were tried)",
                "1,001 consumer groups of progress (1,000 were tried)",
                "2,001 transactions",
                "0:00:30",
                "0:05:20",
                "To cut it",
            ],
            id="larger",
        ),
    ],
)
def test_a_plan_larger_than_any_that_was_tried_says_what_it_costs(partitions: int, says: list[str]) -> None:
    ranges = OffsetRanges(OffsetRange("orders", p, 0, 5) for p in range(partitions))

    plan = make_plan(
        ResolvedRanges(ranges), _cluster(_topic("orders", partitions)), _cluster(_topic("copy")), Target("copy")
    )

    assert len(plan.warnings) == bool(says)
    assert all(part in plan.warnings[0] for part in says)


@pytest.mark.parametrize(
    ("target", "target_cluster", "fragments"),
    [
        pytest.param(
            Target("nowhere"),
            _cluster(_topic("copy"), conn_id="backup"),
            ["'nowhere' does not exist", "'backup'", "Create it"],
            id="missing",
        ),
        pytest.param(
            Target("orders"),
            _cluster(_topic("orders")),
            ["'orders' is also read", "allow_same_topic=True"],
            id="is-the-source",
        ),
        pytest.param(
            Target("copy", preserve_partition=True),
            _cluster(_topic("copy", 1)),
            ["preserve_partition=True needs at least 2 partitions", "'copy'", "it has 1", "preserve_partition=False"],
            id="too-few-partitions",
        ),
    ],
)
def test_refuses_a_target_that_cannot_take_the_records(
    target: Target, target_cluster: ClusterState, fragments: list[str]
) -> None:
    with refuses(TargetError, *fragments):
        make_plan(_resolved(), _cluster(_topic("orders")), target_cluster, target)


_PRESERVING = Target("copy", preserve_partition=True)


@pytest.mark.parametrize(
    ("target", "target_cluster", "ranges"),
    [
        pytest.param(Target("orders", allow_same_topic=True), _cluster(_topic("orders")), [], id="same-topic-allowed"),
        pytest.param(Target("orders"), _cluster(_topic("orders"), cluster_id="B"), [], id="same-name-elsewhere"),
        pytest.param(_PRESERVING, _cluster(_topic("copy", 2)), [], id="just-enough-partitions"),
        pytest.param(_PRESERVING, _cluster(_topic("copy", 1)), ["orders:0:0:9", "orders:1:5:5"], id="idle-needs-none"),
    ],
)
def test_takes_a_target_that_can_take_the_records(
    target: Target, target_cluster: ClusterState, ranges: list[str]
) -> None:
    assert make_plan(_resolved(*ranges), _cluster(_topic("orders")), target_cluster, target).warnings == ()


@pytest.mark.parametrize(
    ("config", "warnings"),
    [
        pytest.param({"cleanup_policy": "compact"}, [["'copy' is compacted", "without a key"]], id="compacted"),
        pytest.param(
            {"max_message_bytes": "1000000"},
            [["at most 1,000,000 bytes", "'orders'", "2,000,000"]],
            id="small-messages",
        ),
        pytest.param({"cleanup_policy": "delete", "max_message_bytes": "2000000"}, [], id="fits-exactly"),
    ],
)
def test_warns_of_a_target_that_may_refuse_records(config: dict[str, str], warnings: list[list[str]]) -> None:
    source, target = _cluster(_topic("orders", max_message_bytes="2000000")), _cluster(_topic("copy", **config))

    given = make_plan(_resolved(), source, target, Target("copy")).warnings

    assert len(given) == len(warnings)
    for warning, fragments in zip(given, warnings, strict=True):
        assert [fragment for fragment in fragments if fragment not in warning] == []


@pytest.mark.parametrize(
    ("planned_ids", "now", "fragments"),
    [
        pytest.param(
            {"orders": "id-1"},
            _cluster(_topic("orders", topic_id="id-2")),
            ["'orders' was deleted and recreated", "id-1", "id-2"],
            id="recreated-topic",
        ),
        pytest.param(
            {},
            _cluster(_topic("orders", topic_id=None), cluster_id="C"),
            ["'kafka_default' leads to another cluster", "id A, now C"],
            id="another-cluster-without-topic-ids",
        ),
    ],
)
def test_other_records_at_the_same_offsets_are_data_loss(
    planned_ids: dict[str, str], now: ClusterState, fragments: list[str]
) -> None:
    with refuses(DataLossError, *fragments, "Clear the task"):
        _plan(topic_ids=planned_ids).losses(now, ReadRules(), {})


@pytest.mark.parametrize(
    ("planned_ids", "topic_id"),
    [
        pytest.param({"orders": "id-1"}, None, id="no-longer-returned"),
        pytest.param({}, "id-2", id="not-known-at-planning-time"),
    ],
)
def test_an_unchanged_topic_is_no_loss(planned_ids: dict[str, str], topic_id: str | None) -> None:
    """Only another id is proof."""
    assert _plan(topic_ids=planned_ids).losses(_cluster(_topic("orders", topic_id=topic_id)), ReadRules(), {}) == ()


def test_a_log_that_was_cut_below_the_plan_is_data_loss() -> None:
    """Before a retry and after the job; a cut behind the plan takes nothing from it."""
    plan = _plan(ranges=OffsetRanges.parse(["orders:0:3:10", "orders:1:0:10"]), topic_ids={"orders": "id-1"})
    now, (p, q) = _cluster(_topic("orders", topic_id="id-1")), (TopicPartition("orders", i) for i in (0, 1))
    permitted = ReadRules(fail_on_data_loss=False)

    for check in (plan.losses, plan.after_job):
        with refuses(
            DataLossError, "the log of orders[0] was cut at 9 by an unclean leader election", "Clear the task"
        ):
            check(now, ReadRules(), {p: 9, q: 10})
    lost = plan.after_job(now, permitted, {p: 9, q: 10}).missing[-1]

    assert (lost.offset_range, "was cut at 9" in lost.reason) == (OffsetRange("orders", 0, 3, 3), True)
    assert plan.losses(now, ReadRules(), {p: 10, q: 11}) == ()


def test_a_topic_deleted_after_its_job_is_no_loss() -> None:
    """The job had read it, which a retry cannot; one that was recreated meanwhile may have been read in its place."""
    plan = _plan()
    recreated, permitted = _cluster(_topic("orders", topic_id="id-9")), ReadRules(fail_on_data_loss=False)

    with pytest.raises(UnknownTopicError, match="'orders'"):
        plan.losses(_cluster(), ReadRules(), {})
    assert plan.after_job(_cluster(), ReadRules(), {}) == plan
    with pytest.raises(DataLossError, match="recreated"):
        plan.after_job(recreated, ReadRules(), {})
    lost = plan.losses(recreated, permitted, {})
    assert plan.after_job(recreated, permitted, {}).missing == (*plan.missing, *lost) != ()


@pytest.mark.parametrize(
    ("cluster", "added"),
    [
        pytest.param(
            _cluster(_topic("orders", 4)),
            ("orders: partitions 2 to 3 were added after planning and are not covered",),
            id="two-more",
        ),
        pytest.param(_cluster(_topic("orders", 2), _topic("other", 9)), (), id="none-and-another-topic"),
        pytest.param(_cluster(), (), id="topic-gone"),
    ],
)
def test_names_partitions_that_appeared_after_planning(cluster: ClusterState, added: tuple[str, ...]) -> None:
    assert _plan().partitions_added(cluster) == added


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ranges": OffsetRanges.parse(["orders:0:0:1000", "orders:1:0:2000001"])}, id="one-offset-more"),
        pytest.param({"ranges": OffsetRanges.parse(["orders:0:0:1000"])}, id="one-range-fewer"),
        pytest.param({"source_cluster_id": "C"}, id="source-cluster"),
        pytest.param({"target_cluster_id": "C"}, id="target-cluster"),
        pytest.param({"target": Target("copy2")}, id="target-topic"),
        pytest.param({"target": Target(None, "copy")}, id="target-expression"),
        pytest.param({"target": Target(None, topic_map={"orders": "copy"})}, id="target-map"),
        pytest.param({"topic_ids": {"orders": "id-2"}}, id="topic-re-created"),
    ],
)
def test_the_digest_changes_with_what_is_read_and_where_it_goes(changes: dict[str, Any]) -> None:
    """Another reading or another target is other work; an idle partition is none."""
    idle = OffsetRanges.parse(["orders:0:0:1000", "orders:1:0:2000000", "orders:2:4:4"])

    assert _plan(**changes).digest != _plan().digest
    assert _plan(warnings=(), target_ends={}, ranges=idle).digest == _plan().digest
    one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert _plan(topic_ids=one).digest == _plan(topic_ids=other).digest
    assert len(bytes.fromhex(_plan().digest)) == 8


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"version": PLAN_VERSION + 1}, id="newer-version"),
        pytest.param({"ranges": ["orders:0:0:9", "orders:0:1:5"]}, id="ranges-overlap"),
        pytest.param({"target": {**_plan().to_dict()["target"], "topic": None}}, id="no-target"),
    ],
)
def test_refuses_a_damaged_plan(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="Clear the task"):
        ReplayPlan.from_dict({**_plan().to_dict(), **changes})


def test_shows_the_plan_as_a_table() -> None:
    plan = _plan()

    assert plan.table().splitlines() == [
        "topic[partition]  from      until  records at most",
        "----------------  ----  ---------  ---------------",
        "orders[0]            0      1,000            1,000",
        "orders[1]            0  2,000,000        2,000,000",
        "total                    2 ranges        2,001,000",
        "Target: copy",
        "Pieces: 2",
        f"Digest of this plan: {plan.digest}",
        "Missing: orders[0] 0 to 5: aged out",
        "Warning: mind this",
    ]


def test_a_log_has_ten_of_what_is_missing_and_of_the_warnings_and_how_many_more_there_are() -> None:
    missing = tuple(MissingRange(OffsetRange("orders", p, 0, 5), "aged out") for p in range(10_000))
    plan = _plan(missing=missing, warnings=tuple(f"mind {i}" for i in range(1_000)))

    lines = plan.table().splitlines()

    assert [sum(line.startswith(name) for line in lines) for name in ("Missing: ", "Warning: ")] == [11, 11]
    assert {"Missing: and 9,990 more", "Warning: and 990 more"} <= {*lines}
    assert len(plan.markdown()) < 3_000


def test_the_plan_in_markdown() -> None:
    """A table and a list, in which nothing is markup that comes from outside."""
    ranges = OffsetRanges([OffsetRange("__a__", 0, 0, 1_000)])
    plan = _plan(ranges=ranges, target=Target(None, "concat('`', '**x**')"), warnings=("a\n- b",))

    assert plan.markdown().splitlines() == [
        "| topic[partition] | from | until | records at most |",
        "| --- | ---: | ---: | ---: |",
        "| `__a__[0]` | 0 | 1,000 | 1,000 |",
        "| `total` |  | 1 range | 1,000 |",
        "",
        "- Target: ``concat('`', '**x**')``",
        "- Pieces: `2`",
        f"- Digest of this plan: `{plan.digest}`",
        "- Missing: `orders[0] 0 to 5: aged out`",
        r"- Warning: `a\n- b`",
    ]


@pytest.mark.parametrize(
    ("count", "shown", "hidden"),
    [(0, 0, []), (40, 40, []), (41, 40, ["... 1 more 10"]), (1_240, 40, ["... 1,200 more 12,000"])],
    ids=["empty", "all-fit", "one-hidden", "many-hidden"],
)
def test_a_long_table_is_cut_and_says_what_it_hides(count: int, shown: int, hidden: list[str]) -> None:
    lines = _plan(ranges=OffsetRanges(OffsetRange("o", i, 0, 10) for i in range(count))).table().splitlines()

    assert len([line for line in lines if line.startswith("o[")]) == shown
    assert [" ".join(line.split()) for line in lines if line.startswith("...")] == hidden
    assert [line.split()[-1] for line in lines if line.startswith("total")] == [f"{count * 10:,}"]


def test_all_that_selects_or_alters_records_tells_copies_apart() -> None:
    """What was delivered otherwise does not count for delivered: no part of a transformation is left out."""
    plain = {**encode(Transform()), "topic_map": {"o": "copy"}}
    before = fingerprint_of_transform(plain)
    mapped: dict[str, Any] = {"topic_map": {"o": "copy2"}, "schema_id_map": {"values": {"3": 17}}}
    others = {field.name: mapped.get(field.name, "another") for field in fields(Transform)}

    changed = {
        name for name in others if fingerprint_changes(before, fingerprint_of_transform({**plain, name: others[name]}))
    }

    assert changed == others.keys()
