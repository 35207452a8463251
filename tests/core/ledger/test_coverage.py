"""Promises of :mod:`airflow_provider_kafka_spark.core.ledger.coverage`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.ledger import entry as ledger_entry
from airflow_provider_kafka_spark.core.ledger.coverage import (
    Coverage,
    Stretch,
    coverage,
    picture,
    plan_picture,
    uncovered,
)
from airflow_provider_kafka_spark.core.ledger.entry import Delivery, EntryState, TaskRun
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition

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


def test_of_a_window_all_is_missing_that_no_run_names() -> None:
    found = coverage([delivery("a", "orders:0:10:20")], [WINDOW, OffsetRange("orders", 3, 5, 6)])

    assert kinds(found) == ["0:0-10 missing", "0:10-20 covered", "0:20-40 missing", "3:5-6 missing"]
    assert uncovered(found).format() == ["orders:0:0:10", "orders:0:20:40", "orders:3:5:6"]


RANGES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 12)), max_size=3)
ENDS = st.tuples(st.sampled_from(list(EntryState)), st.booleans(), st.booleans())
DELIVERIES = st.lists(st.tuples(st.sampled_from("abc"), ENDS, RANGES, RANGES, RANGES, RANGES))


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
            empty_ranges=ranges(empty),
        )
        for run, (state, is_active, filtered), done, planned, gone, empty in drawn
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
        claims = {
            Coverage.COVERED: [d for d in deliveries if has(d.ranges)],
            Coverage.EMPTY: [d for d in deliveries if has(d.empty)],
            Coverage.UNFINISHED: [d for d in planned if d.is_active],
            Coverage.FAILED: planned,
            Coverage.LOST: [d for d in deliveries if has(d.lost)],
            Coverage.MISSING: deliveries,
        }
        # A run with a filter has not delivered what another one was to deliver whole.
        if not whole and not all(d.filtered for d in planned):
            del claims[Coverage.COVERED]
        expected, by = next(((kind, said) for kind, said in claims.items() if said), (Coverage.MISSING, []))
        by = [] if expected is Coverage.MISSING else by
        expected = Coverage.DUPLICATED if len(whole) > 1 else expected
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


def test_an_entry_with_more_ranges_than_a_copy_makes_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_entry, "MAX_RANGES", 2)

    assert Delivery.parse(entry("a", "orders:0:0:1", "orders:0:2:3")) is not None
    assert Delivery.parse(entry("a", "orders:0:0:1", "orders:0:2:3", "orders:1:0:1")) is None


def test_the_picture_shows_the_smallest_gap() -> None:
    found = coverage([delivery("a", "orders:0:0:999", "orders:10:7:8"), delivery("b", "orders:0:1000:2000")])

    assert picture(found).splitlines() == [
        f"orders[0]   0 |{'#' * 29}.{'#' * 30}| 2,000",
        f"orders[10]  7 |{'#' * 60}| 8",
        "# covered, . missing",
    ]
    assert picture([]) == ""
    many = coverage([delivery("a", *(f"orders:{p}:0:1" for p in range(70)))])
    assert picture(many).splitlines()[64:] == ["and 6 more partitions", "# covered"]


def test_the_picture_of_a_plan_shows_where_it_lies_in_the_topic() -> None:
    planned, missing = (OffsetRanges.parse([text]) for text in ("orders:0:50:70", "orders:0:10:20"))

    assert plan_picture(planned, missing, {TopicPartition("orders", 0): (20, 110)}).splitlines() == [
        f"orders[0]  10 |{'x' * 6}{'.' * 18}{'>' * 12}{'.' * 24}| 110",
        "> in the plan, x no longer there, . not in the plan",
    ]


def test_the_picture_of_a_plan_shows_the_first_partitions() -> None:
    log = [OffsetRange("orders", p, 0, 10) for p in range(70)]

    lines = plan_picture(OffsetRanges(log), OffsetRanges(), {}).splitlines()

    assert (lines[0].split()[0], lines[63].split()[0]) == ("orders[0]", "orders[63]")
    assert lines[64:] == ["and 6 more partitions", "> in the plan"]


def test_no_part_of_a_plan_is_too_small_for_its_picture() -> None:
    few = OffsetRanges.parse(["orders:0:500:501"])

    assert ">" in plan_picture(few, OffsetRanges(), {TopicPartition("orders", 0): (0, 1_000_000)}).splitlines()[0]
