from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import (
    MOST_UNGROUPED_RANGES,
    SMALL_GAP_OFFSETS,
    merged,
    plan_spans,
    tasks_of,
)


def _spaced(count: int, gap: int, size: int = 10, partition: int = 0) -> list[OffsetRange]:
    return [OffsetRange("o", partition, i * (size + gap), i * (size + gap) + size) for i in range(count)]


@st.composite
def _many_ranges(draw: st.DrawFn) -> OffsetRanges:
    """Up to 90 ranges in two partitions, with gaps on both sides of what is read through."""
    ranges = []
    for partition in (0, 1):
        offset = 0
        for gap, size in draw(
            st.lists(
                st.tuples(
                    st.sampled_from([0, 1, SMALL_GAP_OFFSETS, SMALL_GAP_OFFSETS + 1]), st.sampled_from([0, 1, 10])
                ),
                min_size=20,
                max_size=45,
            )
        ):
            offset += gap + 1
            ranges.append(OffsetRange("o", partition, offset, offset + size))
            offset += size
    return OffsetRanges(ranges)


@pytest.mark.parametrize(
    ("ranges", "spans"),
    [
        pytest.param(
            ["o:0:0:10", "o:0:10:20", "p:1:5:6"], ["o:0:0:10", "o:0:10:20", "p:1:5:6"], id="also-if-they-touch"
        ),
        pytest.param(["o:0:5:5", "o:1:0:3", "o:2:9:9"], ["o:1:0:3"], id="nothing-to-read-in-empty-ones"),
        pytest.param([], [], id="none"),
    ],
)
def test_each_of_a_few_ranges_has_a_spark_partition_of_its_own(ranges: list[str], spans: list[str]) -> None:
    assert [span.format() for span in plan_spans(OffsetRanges.parse(ranges))] == spans


@pytest.mark.parametrize(
    ("count", "gap", "spans"),
    [
        pytest.param(MOST_UNGROUPED_RANGES, 1, MOST_UNGROUPED_RANGES, id="as-many-as-are-left-apart"),
        pytest.param(MOST_UNGROUPED_RANGES + 1, 1, 1, id="one-more"),
        pytest.param(MOST_UNGROUPED_RANGES + 1, SMALL_GAP_OFFSETS, 1, id="gap-that-is-read-through"),
        pytest.param(MOST_UNGROUPED_RANGES + 1, SMALL_GAP_OFFSETS + 1, MOST_UNGROUPED_RANGES + 1, id="gap-not-read"),
    ],
)
def test_many_close_ranges_are_read_by_one_task(count: int, gap: int, spans: int) -> None:
    """A gap that costs more than a task is never read; idle partitions change nothing."""
    idle = [OffsetRange("idle", i, 0, 0) for i in range(50)]

    assert len(plan_spans(OffsetRanges([*_spaced(count, gap), *idle]))) == spans


@settings(max_examples=40)
@given(_many_ranges())
def test_spans_cover_all_ranges_and_nothing_but_small_gaps(ranges: OffsetRanges) -> None:
    spans = plan_spans(ranges)
    covered = OffsetRanges(spans)

    assert ranges.subtract(covered) == OffsetRanges()
    assert all(gap.size <= SMALL_GAP_OFFSETS for gap in covered.subtract(ranges))


@settings(max_examples=40)
@given(_many_ranges(), st.integers(1, 12))
def test_a_largest_size_cuts_and_never_merges(ranges: OffsetRanges, largest: int) -> None:
    spans = plan_spans(ranges, largest)

    assert all(span.size <= largest for span in spans)
    assert OffsetRanges(spans).merge() == ranges.merge()


def _spans(count: int) -> list[OffsetRange]:
    """So many spans, alternating between two partitions, the later ones first."""
    return [OffsetRange("o", i % 2, i * 100, i * 100 + 10) for i in reversed(range(count))]


@pytest.mark.parametrize(
    ("count", "preserve_order", "tasks"),
    [
        pytest.param(3, True, 2, id="few-in-order"),
        pytest.param(MOST_UNGROUPED_RANGES + 1, True, 2, id="many-in-order"),
        pytest.param(3, False, 3, id="few-in-any-order"),
        pytest.param(MOST_UNGROUPED_RANGES + 1, False, MOST_UNGROUPED_RANGES + 1, id="many-in-any-order"),
        pytest.param(0, True, 0, id="none"),
    ],
)
def test_spans_of_a_partition_share_a_task_to_keep_their_order(count: int, preserve_order: bool, tasks: int) -> None:
    """Whatever the order they are given in, a task reads one partition, from its smallest offset on."""
    found = tasks_of(_spans(count), preserve_order=preserve_order)

    assert len(found) == tasks
    assert [span for task in found for span in task] == sorted(_spans(count))
    assert all(len({(span.topic, span.partition) for span in task}) == 1 for task in found)
    # Records of a partition keep the order of the source unless ``preserve_order=False``.
    assert not preserve_order or tasks_of(_spans(count)) == found


def test_one_target_range_for_each_partition() -> None:
    """From the first record of any task to the last."""
    parts = [OffsetRange("b", 0, 5, 9), OffsetRange("a", 1, 0, 2), OffsetRange("b", 0, 3, 6)]

    assert merged(parts) == (OffsetRange("a", 1, 0, 2), OffsetRange("b", 0, 3, 9))
