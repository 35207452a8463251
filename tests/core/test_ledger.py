"""Promises of :mod:`airflow_provider_kafka_spark.core.ledger`."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.ledger import (
    Coverage,
    Delivery,
    EntryState,
    Stretch,
    TaskRun,
    coverage,
    picture,
    plan_picture,
    select,
    uncovered,
)
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges

WINDOW = OffsetRange("orders", 0, 0, 40)


def entry(run_id: str = "a" * 16, *ranges: str, **others: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "state": "complete",
        "run_id": run_id,
        "offset_ranges": list(ranges),
        "missing_ranges": [],
        "target_topics": ["copy"],
        "target_ranges": [],
        "source": "broker-1:9092",
        "target": "broker-2:9092",
        "source_cluster_id": "one",
        "target_cluster_id": "two",
        "source_topic_ids": {"orders": "id-1"},
        "records_written": 7,
        **others,
    }


def delivery(run_id: str = "a" * 16, *ranges: str, is_active: bool = True, **others: Any) -> Delivery:
    at = others.pop("at", None)
    parsed = Delivery.parse(entry(run_id, *ranges, **others), TaskRun("dag", "run", "task"), at, is_active=is_active)
    assert parsed is not None
    return parsed


def kinds(stretches: list[Stretch]) -> list[str]:
    return [
        f"{s.offsets.partition}:{s.offsets.from_offset}-{s.offsets.until_offset} {s.coverage.value}" for s in stretches
    ]


def test_windows_that_touch_cover_all_and_the_hole_between_them_is_a_gap() -> None:
    deliveries = [delivery("a", "orders:0:0:10"), delivery("b", "orders:0:10:20"), delivery("c", "orders:0:30:40")]

    found = coverage(deliveries)

    assert kinds(found) == ["0:0-10 covered", "0:10-20 covered", "0:20-30 gap", "0:30-40 covered"]
    assert uncovered(found).format() == ["orders:0:20:30"]
    assert found[0].by == (deliveries[0],)


def test_a_window_shows_gaps_before_and_after_and_in_partitions_of_which_nothing_is_known() -> None:
    found = coverage([delivery("a", "orders:0:10:20")], [WINDOW, OffsetRange("orders", 3, 5, 6)])

    assert kinds(found) == ["0:0-10 gap", "0:10-20 covered", "0:20-40 gap", "3:5-6 gap"]
    assert uncovered(found).format() == ["orders:0:0:10", "orders:0:20:40", "orders:3:5:6"]


def test_two_runs_double_what_both_delivered_to_the_same_topic_only() -> None:
    """A clear has the run's own id, and another topic of the target is another copy."""
    first = delivery("a", "orders:0:0:10")
    others = [
        delivery("a", "orders:0:0:10"),
        delivery("b", "orders:0:5:15"),
        delivery("c", "orders:0:0:3", target_topics=["other"]),
        delivery("d", "orders:0:0:3", target_cluster_id="three"),
    ]

    assert kinds(coverage([first, others[0]])) == ["0:0-10 covered"]
    assert kinds(coverage([first, others[1]])) == ["0:0-5 covered", "0:5-10 doubled", "0:10-15 covered"]
    assert {s.coverage for s in coverage([first, others[2], others[3]])} == {Coverage.COVERED}


RANGES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 12)), max_size=3)
ENDS = st.tuples(st.sampled_from(list(EntryState)), st.booleans(), st.booleans())
DELIVERIES = st.lists(st.tuples(st.sampled_from("abc"), ENDS, RANGES, RANGES, RANGES))


@given(DELIVERIES)
def test_each_offset_has_the_coverage_that_its_entries_say(drawn: list[Any]) -> None:
    """Compared with a search of all entries for each single offset."""

    def ranges(parts: list[tuple[int, int, int]]) -> list[str]:
        return [f"orders:{p}:{start}:{start + size}" for p, start, size in parts]

    deliveries = [
        delivery(
            run,
            *ranges(done),
            is_active=is_active,
            state=state.value,
            filtered=filtered,
            planned_ranges=ranges(planned),
            missing_ranges=ranges(gone),
        )
        for run, (state, is_active, filtered), done, planned, gone in drawn
    ]
    window = [WINDOW, OffsetRange("orders", 1, 10, 60)]

    found = coverage(deliveries, window)

    by_offset = {
        (s.offsets.partition, o): s for s in found for o in range(s.offsets.from_offset, s.offsets.until_offset)
    }
    assert list(by_offset) == [(w.partition, o) for w in window for o in range(w.from_offset, w.until_offset)]
    for (partition, offset), stretch in by_offset.items():

        def has(all_ranges: OffsetRanges, partition: int = partition, offset: int = offset) -> bool:
            return any(r.partition == partition and r.from_offset <= offset < r.until_offset for r in all_ranges)

        whole = {d.run_id for d in deliveries if has(d.ranges) and not d.filtered}
        planned = [d for d in deliveries if has(d.planned)]
        expected = (
            Coverage.DOUBLED
            if len(whole) > 1
            else Coverage.COVERED
            if whole or (any(has(d.ranges) for d in deliveries) and all(d.filtered for d in planned))
            else Coverage.RUNNING
            if any(d.is_active for d in planned)
            else Coverage.UNFINISHED
            if planned
            else Coverage.LOST
            if any(has(d.missing) for d in deliveries)
            else Coverage.GAP
        )
        claims = {
            Coverage.RUNNING: [d for d in planned if d.is_active],
            Coverage.UNFINISHED: planned,
            Coverage.LOST: [d for d in deliveries if has(d.missing)],
            Coverage.GAP: [],
        }
        by = claims.get(expected, [d for d in deliveries if has(d.ranges)])
        assert stretch.coverage is expected
        assert ([*map(id, stretch.by)], stretch.entries) == ([*map(id, by[:10])], len(by))
        assert stretch.filtered == (expected is Coverage.COVERED and not whole)
    for one, after in pairwise(found):
        if one.offsets.partition == after.offsets.partition and len(deliveries) <= 10:
            assert (one.coverage, [*map(id, one.by)]) != (after.coverage, [*map(id, after.by)])


def test_a_stretch_names_ten_of_the_runs_that_have_delivered_it_and_ends_where_one_does() -> None:
    deliveries = [delivery(f"{i}", f"orders:0:0:{100 - i}") for i in range(12)]

    first, second, *_ = coverage(deliveries, [OffsetRange("orders", 0, 0, 100)])

    assert (first.offsets.until_offset, first.entries, first.by) == (89, 12, tuple(deliveries[:10]))
    assert (second.offsets.until_offset, second.entries, second.by) == (90, 11, tuple(deliveries[:10]))


def test_entries_of_others_and_of_other_versions_are_not_read() -> None:
    good = entry("a", "orders:0:0:10")

    assert Delivery.parse(good) is not None
    for other in (
        None,
        {},
        "orders:0:0:10",
        {**good, "version": 2},
        {**good, "state": "done"},
        {**good, "offset_ranges": "orders:0:0:10"},
        {**good, "offset_ranges": ["orders:0:9:1"]},
        {**good, "target_topics": None},
        {**good, "topic_map": ["orders"]},
        {**good, "source_topic_ids": 3},
    ):
        assert Delivery.parse(other) is None


def test_a_topic_that_was_recreated_begins_anew() -> None:
    old = delivery("a", "orders:0:0:10", at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    new = delivery(
        "b", "orders:0:0:4", at=datetime(2026, 1, 2, tzinfo=timezone.utc), source_topic_ids={"orders": "id-2"}
    )
    unknown = delivery("c", "orders:0:6:8", source_topic_ids={})

    assert select([new, old, unknown], "orders") == [new, unknown]
    assert select([new, old], "payments") == []


def test_what_went_to_a_target_that_was_recreated_is_no_longer_covered() -> None:
    """By what a later entry names, or by what the target's cluster has now. What is planned stays planned."""
    to = [{"target_topic_ids": {"copy": of}, "target_topics": ["copy"]} for of in ("id-1", "id-2")]
    old, new = delivery("a", "orders:0:0:10", **to[0]), delivery("b", "orders:0:0:4", **to[1])
    unknown = delivery("c", "orders:0:6:8")
    retried = delivery("d", "orders:0:10:12", **to[0], state="partial", planned_ranges=["orders:0:10:20"])

    assert select([old, new, unknown], "orders") == [new, unknown]
    assert select([old, unknown], "orders") == [old, unknown]
    assert select([old, unknown], "orders", target_ids={"copy": "id-2"}) == [unknown]
    assert select([old, unknown], "orders", target_ids={"copy": None}) == []
    assert kinds(coverage(select([retried, new], "orders"))) == ["0:0-4 covered", "0:4-10 gap", "0:10-20 running"]


def test_of_several_targets_each_must_still_be_there_that_counts() -> None:
    """Nobody knows in which of them a record is."""
    ids = {"target_topics": ["eu", "us"], "target_topic_ids": {"eu": "id-1", "us": "id-1"}}
    both = delivery("a", "orders:0:0:10", **ids)
    now = {"us": "id-2"}

    assert select([both], "orders", target_ids=now) == []
    assert select([both], "orders", target_ids=now, target_topic="eu") == [both]
    mapped = delivery("a", "orders:0:0:10", **ids, topic_map={"orders": "eu", "payments": "us"})
    assert select([mapped], "orders", target_ids=now) == [mapped]


def test_servers_of_one_cluster_are_one_source_and_clusters_are_not_mixed() -> None:
    one = delivery("a", "orders:0:0:10")
    same = delivery("b", "orders:0:10:20", source="broker-9:9092")
    other = delivery("c", "orders:0:20:30", source="elsewhere:9092", source_cluster_id="three")

    assert select([one, same, other], "orders", source="broker-1:9092") == [one, same]
    assert select([one, same, other], "orders", source="three") == [other]
    assert select([one, same], "orders", target_topic="copy") == [one, same]
    assert select([one, same], "orders", target_topic="other") == []
    with pytest.raises(InvalidInputError, match="several clusters"):
        select([one, other], "orders")


def test_copies_to_several_clusters_are_not_mixed() -> None:
    """One would hide what another lacks."""
    one = delivery("a", "orders:0:0:10")
    other = delivery("b", "orders:0:10:20", target="elsewhere:9092", target_cluster_id="three")
    same = delivery("c", "orders:0:20:30", target="broker-8:9092")
    gone = delivery("d", "orders:0:30:40", target="", target_cluster_id="")

    with pytest.raises(InvalidInputError, match="target must be given"):
        select([one, other], "orders")
    assert select([one, other, same], "orders", target="broker-2:9092") == [one, same]
    assert select([one, other, same], "orders", target="three") == [other]
    assert select([one, same, gone], "orders") == [one, same, gone]


def test_each_topic_of_a_map_went_to_its_own_target() -> None:
    to = {"topic_map": {"orders": "orders_v2", "payments": "payments_v2"}}
    both = delivery("a", "orders:0:0:10", "payments:0:0:10", target_topics=["orders_v2", "payments_v2"], **to)
    again = delivery("b", "orders:0:0:10", target_topics=["payments_v2"])

    assert kinds(coverage(select([both], "orders", target_topic="orders_v2"))) == ["0:0-10 covered"]
    assert select([both], "orders", target_topic="payments_v2") == []
    assert kinds(coverage(select([both, again], "orders"))) == ["0:0-10 covered"]


def test_the_picture_shows_the_smallest_gap() -> None:
    found = coverage([delivery("a", "orders:0:0:999", "orders:10:7:8"), delivery("b", "orders:0:1000:2000")])

    assert picture(found, 10).splitlines() == [
        "orders[0]   0 |####.#####| 2,000",
        "orders[10]  7 |##########| 8",
        "# covered, . gap",
    ]
    assert picture([]) == ""
    assert picture(found, 10, most=1).splitlines()[1:] == ["and 1 more partitions", "# covered, . gap"]


def test_the_picture_of_a_plan_shows_where_it_lies_in_the_topic() -> None:
    planned, missing = (OffsetRanges.parse([text]) for text in ("orders:0:50:70", "orders:0:10:20"))

    assert plan_picture(planned, missing, [OffsetRange("orders", 0, 20, 110)]).splitlines() == [
        f"orders[0]  10 |{'x' * 6}{'.' * 18}{'>' * 12}{'.' * 24}| 110",
        "> in the plan, x no longer there, . not in the plan",
    ]


def test_the_picture_of_a_plan_shows_the_first_partitions() -> None:
    log = [OffsetRange("orders", p, 0, 10) for p in range(70)]

    lines = plan_picture(OffsetRanges(log), OffsetRanges(), log).splitlines()

    assert (lines[0].split()[0], lines[63].split()[0]) == ("orders[0]", "orders[63]")
    assert lines[64:] == ["and 6 more partitions", "> in the plan"]


def test_no_part_of_a_plan_is_too_small_for_its_picture() -> None:
    few = OffsetRanges.parse(["orders:0:500:501"])

    assert ">" in plan_picture(few, OffsetRanges(), [OffsetRange("orders", 0, 0, 1_000_000)]).splitlines()[0]
