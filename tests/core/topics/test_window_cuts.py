"""Where windows are cut is decided once: for the same log, in the order of the moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import DataLossError, PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtTimestamp, Bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, ResolvedRanges, resolve_window
from airflow_provider_kafka_spark.core.topics.window_cuts import WindowCut, decide

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
ONE, TWO, THREE = 1_000, 2_000, 3_000


def cluster(
    first_at: dict[tuple[TopicPartition, int], int | None],
    unsettled: tuple[tuple[TopicPartition, int], ...] = (),
    topic_id: str | None = "a",
    policy: str = "delete",
    end: int = 100,
    epoch: int | None = None,
) -> ClusterState:
    partitions = {0: PartitionState(0, end, end, epoch), 1: PartitionState(0, end, end, epoch)}
    topic = TopicState("orders", topic_id, partitions, {"cleanup.policy": policy})
    return ClusterState("c", "kafka_default", 0, {"orders": topic}, first_at, frozenset(unsettled))


def kept(**moments: dict[TopicPartition, int]) -> dict[int, WindowCut]:
    return {int(at[1:]): WindowCut("c", {"orders": "a"}, offsets) for at, offsets in moments.items()}


def test_a_settled_answer_needs_no_decision() -> None:
    decided, to_keep = decide(cluster({(P, ONE): 10, (P, TWO): 20}), [P], [ONE, TWO], {})
    assert decided.cuts == {(P, ONE): 10, (P, TWO): 20}
    assert to_keep == ()


@pytest.mark.parametrize(
    "state",
    [
        cluster({(P, ONE): 10, (P, TWO): None}, ((P, TWO),)),
        cluster({(P, ONE): 10, (P, TWO): 100}, ((P, TWO),)),
        cluster({(P, ONE): 10, (P, TWO): 100}, policy="compact,delete"),
        # The login may not read the policy.
        cluster({(P, ONE): 10, (P, TWO): 100}, policy=""),
    ],
    ids=["none-yet", "by-halves", "compacted", "unknown"],
)
def test_what_can_change_is_kept_for_the_next_window(state: ClusterState) -> None:
    decided, to_keep = decide(state, [P], [ONE, TWO], {})
    assert (decided.cuts[P, TWO], TWO in to_keep) == (100, True)

    cut = WindowCut().with_cuts({P: 100}, state)
    later = cluster({(P, TWO): 107, (P, THREE): 109}, end=110)
    assert decide(later, [P], [TWO, THREE], {TWO: cut})[0].cuts == {(P, TWO): 100, (P, THREE): 109}


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (cluster({}), True),
        (cluster({}, topic_id="b"), False),
        (cluster({}, topic_id=None), False),
        # It was cut short.
        (cluster({}, end=9), False),
    ],
    ids=["same", "recreated", "without-ids", "cut-short"],
)
def test_it_counts_for_the_same_log_only(state: ClusterState, counts: bool) -> None:
    cut = WindowCut("c", {"orders": "a"}, {P: 10})
    assert cut.valid(state) == ({P: 10} if counts else {})
    assert WindowCut("d", {"orders": "a"}, {P: 10}).valid(state) == {}


@pytest.mark.parametrize(
    ("first_at", "unsettled", "before", "cuts"),
    [
        # The log had reached nothing of this when the later window was planned.
        ({ONE: 30, TWO: 50}, (), {"_3000": {P: 12}}, {ONE: 12, TWO: 12}),
        ({TWO: 30, THREE: 50}, (), {"_1000": {P: 40}}, {TWO: 40, THREE: 50}),
        ({ONE: 30, TWO: 20}, (ONE,), {}, {ONE: 20, TWO: 20}),
        ({ONE: 30, TWO: 20}, (TWO,), {}, {ONE: 30, TWO: 30}),
    ],
    ids=["before-a-decision", "after-a-decision", "before-an-answer", "after-an-answer"],
)
def test_what_is_new_gives_way(first_at: Any, unsettled: Any, before: Any, cuts: Any) -> None:
    state = cluster({(P, at): o for at, o in first_at.items()}, tuple((P, at) for at in unsettled))
    decided, to_keep = decide(state, [P], sorted(first_at), kept(**before))
    assert decided.cuts == {(P, at): offset for at, offset in cuts.items()}
    # All that gave way is kept, since it differs from what a search finds.
    assert {at for at, offset in cuts.items() if first_at[at] != offset} <= set(to_keep)


def test_partitions_are_decided_each_by_itself() -> None:
    state = cluster({(p, at): at // 100 for p in (P, Q) for at in (ONE, TWO)})
    decided, to_keep = decide(state, [P, Q], [ONE, TWO], kept(_1000={P: 5}))
    assert decided.cuts == {(P, ONE): 5, (P, TWO): 20, (Q, ONE): 10, (Q, TWO): 20}
    assert to_keep == ()


def test_windows_that_overlap_are_refused() -> None:
    with pytest.raises(PlanError, match=r"A window must not end before it starts; orders\[0\] was cut at .* offset 30"):
        decide(cluster({(P, ONE): 1, (P, TWO): 2}), [P], [ONE, TWO], kept(_1000={P: 30}, _2000={P: 20}))


#: Decided at offsets 80 and 100 under the leader 5.
BEFORE_CUT = cluster({(P, ONE): 80, (P, TWO): None}, ((P, TWO),), policy="", epoch=5)
CUTS = {at: WindowCut().with_cuts({P: offset}, BEFORE_CUT) for at, offset in ((ONE, 80), (TWO, 100))}


@pytest.mark.parametrize(
    ("kept", "epoch", "asked"),
    [
        (CUTS[TWO], 5, set()),
        (CUTS[TWO], 6, {Reached(P, 100, 5)}),
        # What is not known cannot be compared.
        (CUTS[TWO], None, set()),
        (WindowCut("c", {"orders": "a"}, {P: 100}), 6, set()),
        # It is of another log.
        (replace(CUTS[TWO], topic_ids={"orders": "b"}), 6, set()),
        (replace(CUTS[TWO], cluster_id="d"), 6, set()),
    ],
    ids=["same-leader", "another-leader", "no-epoch-now", "no-epoch-then", "recreated", "elsewhere"],
)
def test_brokers_are_asked_about_what_had_another_leader(kept: WindowCut, epoch: int | None, asked: Any) -> None:
    assert kept.reached(cluster({}, epoch=epoch)) == asked


def window(start: int, end: int, log_cut: int, *, permits_loss: bool = False) -> ResolvedRanges:
    """A window that is planned after the log was cut and filled again, up to 500."""
    now = cluster({(P, 0): 0, (P, ONE): 80, (P, TWO): 90, (P, THREE): 300}, end=500, epoch=6)
    answer = {Reached(P, offset, 5): log_cut for offset in (80, 100) if offset > log_cut}
    decided, _ = decide(now, [P], [start, end], {at: cut.after(answer) for at, cut in CUTS.items()})
    bounds = (Bound.everywhere(AtTimestamp(at)) for at in (start, end))
    return resolve_window(Selection(assign={"orders": [0]}), *bounds, decided, ReadRules(True, not permits_loss))


@pytest.mark.parametrize(("log_cut", "first", "lost"), [(90, (80, 90), (90, 100)), (70, (70, 70), (80, 100))])
def test_a_log_that_was_cut_and_filled_again(log_cut: int, first: tuple[int, int], lost: tuple[int, int]) -> None:
    """What has taken the offsets is in the later window; what the earlier one had there is lost."""
    with pytest.raises(DataLossError, match=rf"{lost[0]} to {lost[1]}: the log was cut at {log_cut} by an unclean"):
        window(ONE, TWO, log_cut)
    earlier, later = window(ONE, TWO, log_cut, permits_loss=True), window(TWO, THREE, log_cut)

    spans = [(r.from_offset, r.until_offset) for resolved in (earlier, later) for r in resolved.ranges]
    assert spans == [first, (log_cut, 300)]
    assert [(m.offset_range.from_offset, m.offset_range.until_offset) for m in earlier.missing] == [lost]
    (warning,) = later.warnings
    assert f"orders[0] at {log_cut} instead of 100" in warning


def test_where_a_log_was_cut_is_kept_when_brokers_have_forgotten_it() -> None:
    cut = CUTS[TWO].after({Reached(P, 100, 5): 90}).after({}).after({Reached(P, 100, 5): 95})
    now = cluster({}, end=500, epoch=9)
    assert cut.valid(now) == {P: 90}
    # Another partition is decided at the same moment.
    grown = cut.with_cuts({P: 90, Q: 400}, now)
    assert (grown.valid(now), grown.reached(cluster({}, end=500, epoch=10))) == (
        {P: 90, Q: 400},
        {Reached(P, 100, 5), Reached(Q, 400, 9)},
    )
