"""Progress of one plan as that of another: each piece goes on after what was delivered of it, or nothing is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, cut
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.runs.carried_progress import ProvedDelivery, SlotProgress, carried

RUNS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(0, 50)), max_size=10)


def pieces_of(*texts: str, cut_at: int | None = None) -> tuple[Piece, ...]:
    """A piece for each partition, or for each so many offsets."""
    ranges = OffsetRanges.parse(texts)
    spans = ranges if cut_at is None else ranges.split(cut_at)
    tasks = [[span] for span in spans] if cut_at is not None else [list(group) for _, group in spans.by_partition()]
    return cut({r: i for i, r in enumerate(ranges)}, tasks, {})


def slots_of(pieces: tuple[Piece, ...], *positions: int) -> list[SlotProgress]:
    """Slots of pieces whose records are 1,000 offsets further in the target."""
    return [
        SlotProgress(p.name, at, True, ((p.from_offset, at, p.from_offset + 1_000),) if at > p.from_offset else ())
        for p, at in zip(pieces, positions, strict=True)
    ]


def positions(found: tuple[SlotProgress, ...] | None) -> list[int] | None:
    return None if found is None else [slot.position for slot in found]


@pytest.mark.parametrize(
    ("before", "at", "after", "stands"),
    [
        pytest.param(["orders:0:0:100"], [60], ["orders:0:0:200"], [60], id="the-end-has-moved"),
        pytest.param(["orders:0:0:100"], [60], ["orders:0:20:100"], [60], id="the-start-has-moved"),
        pytest.param(["orders:0:50:100"], [60], ["orders:0:0:100"], None, id="an-earlier-start"),
        pytest.param(["orders:0:0:100"], [0], ["orders:0:0:200"], [0], id="nothing-was-done"),
        pytest.param(["orders:0:0:100"], [60], ["orders:0:0:200", "orders:1:0:9"], [60, 0], id="a-new-partition"),
        pytest.param(["orders:0:0:100", "orders:1:0:50"], [60, 7], ["orders:1:0:50"], None, id="a-partition-less"),
        pytest.param(["orders:0:0:100", "orders:1:0:50"], [0, 7], ["orders:1:0:50"], [7], id="a-partition-not-begun"),
        pytest.param(["orders:0:0:100"], [60], ["orders:0:0:50"], None, id="an-earlier-end"),
        pytest.param(["payments:0:0:100"], [60], ["orders:0:0:100"], None, id="another-topic"),
    ],
)
def test_a_plan_goes_on(before: list[str], at: list[int], after: list[str], stands: list[int] | None) -> None:
    found = carried(pieces_of(*after), slots_of(pieces_of(*before), *at))

    assert positions(found) == stands


def test_a_plan_that_is_cut_otherwise() -> None:
    """Small pieces go on after a large one; a large one only where what was done of the small ones has one end."""
    large, small = pieces_of("orders:0:0:100"), pieces_of("orders:0:0:100", cut_at=50)

    assert positions(carried(small, slots_of(large, 70))) == [50, 70]
    assert positions(carried(large, slots_of(small, 50, 70))) == [70]
    assert positions(carried(large, slots_of(small, 20, 70))) is None


def test_ranges_with_gaps() -> None:
    """Where a piece leaves offsets out, its position does not tell what it has copied; as the next one it may stand."""
    gaps, whole = pieces_of("orders:0:0:10", "orders:0:50:100"), pieces_of("orders:0:0:100")

    (slot,) = slots_of(gaps, 60)
    assert carried(whole, [SlotProgress(slot.name, 60, False, slot.runs)]) is None
    found = carried(gaps, slots_of(whole, 10))
    assert positions(found) == [50]
    assert found is not None
    assert not found[0].is_whole
    assert found[0].runs == ((0, 10, 1_000),)


def test_what_lies_in_a_hole_of_the_next_plan_would_be_forgotten() -> None:
    """Unless the worker knows of it."""
    gaps, whole = pieces_of("orders:0:0:10", "orders:0:50:100"), pieces_of("orders:0:0:100")
    segment = Segment(OffsetRange("orders", 0, 0, 50), OffsetRange("copy", 0, 1_000, 1_050))

    found = carried(gaps, slots_of(whole, 60), ProvedDelivery(OffsetRanges.parse(["orders:0:0:50"]), (segment,)))

    assert carried(gaps, slots_of(whole, 60)) is None
    assert positions(found) == [60]
    assert found is not None
    assert found[0].runs == ((0, 10, 1_000), (50, 60, 1_050))


def test_runs_go_along() -> None:
    """Those of the piece, up to where it stands; several say the same once. A slot without them leaves them unknown."""
    before, after = pieces_of("orders:0:0:100"), pieces_of("orders:0:20:200")
    proved = Segment(OffsetRange("orders", 0, 0, 50), OffsetRange("copy", 0, 1_000, 1_050))

    (found,) = (
        carried(after, slots_of(before, 60), ProvedDelivery(OffsetRanges.parse(["orders:0:0:50"]), (proved,))) or ()
    )
    (unknown,) = carried(after, [SlotProgress(before[0].name, 60, True, None)]) or ()

    assert (found.position, found.runs) == (60, ((20, 50, 1_020), (50, 60, 1_050)))
    assert (unknown.position, unknown.runs) == (60, None)


@pytest.mark.parametrize("known", [True, False])
def test_a_proved_delivery(known: bool) -> None:
    segment = Segment(OffsetRange("orders", 1, 0, 90), OffsetRange("copy", 1, 7, 97))
    proved = ProvedDelivery(OffsetRanges.parse(["orders:1:0:100"]), (segment,) if known else None)

    found = carried(pieces_of("orders:0:0:5", "orders:1:0:150"), [], proved)

    assert positions(found) == [0, 100]
    assert found is not None
    assert [slot.runs for slot in found] == [(), ((0, 90, 7),) if known else None]


@given(RUNS, st.booleans())
def test_a_slot_is_read_back(parts: list[tuple[int, int, int]], is_whole: bool) -> None:
    runs, source, target = [], 0, 0
    for gap, size, other in parts:
        runs.append((source + gap, source + gap + size, target + other))
        source, target = source + gap + size, target + other + size
    slot = SlotProgress("orders-0-0-600", source, is_whole, tuple(runs))

    assert SlotProgress.parse(source, slot.format("copy", 0)) == slot


def test_too_many_runs_are_unknown() -> None:
    """Brokers take metadata of 4,096 bytes."""
    slot = SlotProgress("orders-0-0-99999", 9_000, True, tuple((i * 3, i * 3 + 1, i * 7) for i in range(1_000)))

    text = slot.format("copy", 0)

    assert len(text) < 3_600
    assert SlotProgress.parse(9_000, text) == SlotProgress("orders-0-0-99999", 9_000, True, None)


@pytest.mark.parametrize("text", ["=0 f x!", "=!?", "=\ufffd", "", "copy 0 0 1\n"])
def test_a_damaged_slot_has_unknown_runs(text: str) -> None:
    assert SlotProgress.parse(5, f"orders-0-0-9\n{text}\0").runs is None
