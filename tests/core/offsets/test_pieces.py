from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.pieces import (
    MAX_BUNDLE_OFFSETS,
    SMALL_PIECE_OFFSETS,
    Piece,
    PlannedPart,
    bundled,
    cut,
)
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans, tasks_of

_SIZES = st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 3_000)), min_size=1, max_size=90)


def _ranges(sizes: list[tuple[int, int]], partitions: int) -> OffsetRanges:
    """Ranges with gaps before them, dealt out to partitions."""
    ends = [0] * partitions
    found = []
    for i, (gap, size) in enumerate(sizes):
        p = i % partitions
        found.append(OffsetRange("orders", p, ends[p] + gap, ends[p] + gap + size))
        ends[p] += gap + size
    return OffsetRanges(found)


def test_a_task_of_each_partition() -> None:
    ranges = OffsetRanges.parse(["o:0:0:5", "o:0:8:9", "o:1:3:4"])

    first, second = cut({r: i for i, r in enumerate(ranges)}, tasks_of(plan_spans(ranges)), {"o": "id"})

    assert first == Piece("o-id-0-0-9", tuple(ranges[:2]), (PlannedPart(0, 5, 0), PlannedPart(8, 9, 1)))
    assert second == Piece("o-id-1-3-4", (ranges[2],), (PlannedPart(3, 4, 2),))
    assert cut({ranges[2]: 0}, [[ranges[2]]], {})[0].name == "o-1-3-4", "without an id"


def test_a_stream_goes_on_under_one_name() -> None:
    """Its progress is that of the batches before."""
    r = OffsetRange("o", 0, 5, 9)

    (piece,) = cut({r: 0}, [[r]], {"o": "id"}, is_of_stream=True)

    assert piece.name == "o-id-0"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([5] * 8, [1] * 8, id="few"),
        pytest.param([SMALL_PIECE_OFFSETS + 1] * 20, [1] * 20, id="large"),
        pytest.param([5] * 2_000, [250] * 8, id="many-and-small"),
        pytest.param([5] * 10 + [10**6] + [5] * 10, [2, 3, 2, 3, 1, 2, 3, 2, 3], id="one-is-large"),
        pytest.param([SMALL_PIECE_OFFSETS] * 40, [4] * 10, id="as-many-as-a-task-may-read-again"),
        pytest.param(
            [1] * 90 + [SMALL_PIECE_OFFSETS] * 10, [12, 13, 12, 13, 12, 13, 12, 6, 4, 3], id="some-are-smaller"
        ),
    ],
)
def test_many_small_pieces_share_a_task(sizes: list[int], expected: list[int]) -> None:
    """Four tasks for each of two cores, and no piece in two of them."""
    spans = [OffsetRange("o", i, 0, size) for i, size in enumerate(sizes)]
    pieces = cut({span: i for i, span in enumerate(spans)}, [[span] for span in spans], {})

    tasks = bundled(pieces, 2)

    assert [len(task) for task in tasks] == expected
    assert sorted((piece for task in tasks for piece in task), key=lambda piece: piece.spans) == list(pieces)
    assert all(sum(piece.offsets for piece in task) <= MAX_BUNDLE_OFFSETS for task in tasks if len(task) > 1)


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([["o:0:0:5"]], id="not-all-covered"),
        pytest.param([["o:0:0:10"], ["o:0:0:10"]], id="one-name-twice"),
    ],
)
def test_no_plan_without_exactly_one_piece_for_each_offset(tasks: list[list[str]]) -> None:
    with pytest.raises(PlanError, match="exactly one of the pieces"):
        cut({OffsetRange("o", 0, 0, 10): 0}, [OffsetRanges.parse(task) for task in tasks], {})


@given(
    sizes=_SIZES,
    partitions=st.integers(1, 3),
    most=st.one_of(st.none(), st.integers(1, 2_000)),
    preserve_order=st.booleans(),
)
def test_any_cutting_gives_each_offset_to_one_piece_of_a_unique_name(
    sizes: list[tuple[int, int]], partitions: int, most: int | None, preserve_order: bool
) -> None:
    ranges = _ranges(sizes, partitions)
    most = None if most is None else max(most, ranges.total // 500)
    tasks = tasks_of(plan_spans(ranges, most), preserve_order=preserve_order)

    pieces = cut({r: i for i, r in enumerate(ranges)}, tasks, {"orders": "id"})

    assert len({piece.name for piece in pieces}) == len(pieces)
    parts = [
        OffsetRange(piece.topic, piece.partition, part.from_offset, part.until_offset)
        for piece in pieces
        for part in piece.parts
    ]
    assert OffsetRanges(parts).merge() == ranges.merge()
    assert all(
        ranges[part.index].from_offset <= part.from_offset < part.until_offset <= ranges[part.index].until_offset
        for piece in pieces
        for part in piece.parts
    )


@pytest.mark.parametrize("each", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_very_many_ranges(each: int) -> None:
    """The time is linear: this would not end in the tests' time if each range looked at all others."""
    ranges = OffsetRanges(OffsetRange("orders", p, 20_000 * i, 20_000 * i + 10) for p in range(10) for i in range(each))

    pieces = cut({r: i for i, r in enumerate(ranges)}, tasks_of(plan_spans(ranges)), {})

    assert sum(piece.offsets for piece in pieces) == 100 * each
