from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import OffsetRangeError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from tests.core.refusals import refuses

_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1

_TOPIC_NAMES = st.text("abyzABYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))


@st.composite
def _any_range(draw: st.DrawFn) -> OffsetRange:
    """A range of any topic, any partition and any offsets."""
    offsets = st.integers(0, _MAX_OFFSET)
    start, end = sorted((draw(offsets), draw(offsets)))
    return OffsetRange(draw(_TOPIC_NAMES), draw(st.integers(0, _MAX_PARTITION)), start, end)


@st.composite
def _small_range(draw: st.DrawFn) -> OffsetRange:
    """A range out of so few offsets and partitions that two of them often meet."""
    start = draw(st.integers(0, 30))
    return OffsetRange(
        draw(st.sampled_from(["a", "a-b"])), draw(st.integers(0, 1)), start, start + draw(st.integers(0, 12))
    )


@st.composite
def _small_ranges(draw: st.DrawFn) -> OffsetRanges:
    """A legal set of ranges of several topics and partitions: some touch, some are empty."""
    ranges: list[OffsetRange] = []
    for candidate in draw(st.lists(_small_range(), max_size=12)):
        try:
            OffsetRanges([*ranges, candidate])
        except OffsetRangeError:
            continue
        ranges.append(candidate)
    return OffsetRanges(ranges)


Cell = tuple[str, int, int]


def _cells(ranges: Iterable[OffsetRange]) -> set[Cell]:
    """Every single offset, counted the slow and obvious way."""
    return {(r.topic, r.partition, offset) for r in ranges for offset in range(r.from_offset, r.until_offset)}


@given(_any_range())
@example(OffsetRange("orders.eu-west_1", 3, 100, 200))
@example(OffsetRange("...", 0, 0, 1))
@example(OffsetRange("a" * 249, 0, 0, 1))
def test_parse_reads_back_what_format_wrote(r: OffsetRange) -> None:
    assert OffsetRange.parse(r.format()) == r
    assert OffsetRange.parse(r.to_dict()) == r
    assert OffsetRange.parse(r) is r


_MALFORMED = [
    pytest.param("orders:0:-1:5", ["three plain numbers", "orders:0:-1:5"], id="text-negative"),
    pytest.param("orders:0:9:5", ["must not be reversed", "from_offset=9", "orders[0]", "Swap"], id="text-reversed"),
    pytest.param("orders:0:007:9", ["three plain numbers"], id="text-leading-zeros"),
    pytest.param("orders:0:1:9\n", ["three plain numbers"], id="text-line-end"),
    pytest.param("orders:0:\u0661:\u0669", ["three plain numbers"], id="text-arabic-digits"),
    pytest.param("orders:0:0:9223372036854775808", ["until_offset", "9223372036854775807"], id="text-beyond-int64"),
    pytest.param("orders:2147483648:0:1", ["partition", "2147483647", "orders"], id="text-partition-beyond-int32"),
    pytest.param(":0:0:1", ["topic name", "''"], id="text-no-topic"),
    pytest.param("a:b:0:0:1", ["topic name", "'a:b'"], id="text-topic-with-colon"),
    pytest.param("a" * 250 + ":0:0:1", ["1 to 249"], id="text-topic-too-long"),
    pytest.param(7, ["got 7", "int"], id="number"),
    pytest.param(
        {"topic": "orders", "partition": 0, "from_offset": 0},
        ["missing ['until_offset']", "unknown []"],
        id="dict-lacks-a-key",
    ),
    pytest.param(
        {"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 1, 5: 6},
        ["unknown ['5']"],
        id="dict-number-as-key",
    ),
]


@pytest.mark.parametrize(("value", "fragments"), _MALFORMED)
def test_refuses_a_malformed_range(value: object, fragments: list[str]) -> None:
    with refuses(OffsetRangeError, *fragments):
        OffsetRange.parse(value)


@pytest.mark.parametrize("name", ["partition", "from_offset", "until_offset"])
@pytest.mark.parametrize(
    ("value", "shown", "kind"),
    [
        pytest.param(-1, "-1", "int", id="negative"),
        pytest.param("5", "'5'", "str", id="text"),
        pytest.param(5.0, "5.0", "float", id="whole-float"),
        pytest.param(True, "True", "bool", id="true"),
        pytest.param(2**63, "9223372036854775808", "int", id="beyond-int64"),
    ],
)
def test_refuses_what_is_no_offset(name: str, value: object, shown: str, kind: str) -> None:
    with refuses(OffsetRangeError, f"{name} must be an integer from 0 to ", f"got {shown} of type {kind} at orders"):
        OffsetRange.parse({"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 1, name: value})


def test_shows_a_range_to_a_person() -> None:
    r = OffsetRange("orders", 2, 1_000, 2_000_000)

    assert str(r) == "orders[2] 1,000 to 2,000,000"
    assert r.format() == "orders:2:1000:2000000"


@given(_any_range(), st.integers(1, 10**6))
def test_split_loses_nothing_and_keeps_to_the_size(r: OffsetRange, pieces: int) -> None:
    max_size = max(1, r.size // (pieces % 50 + 1))
    split = r.split(max_size)

    assert split[0].from_offset == r.from_offset
    assert split[-1].until_offset == r.until_offset
    assert all(a.until_offset == b.from_offset for a, b in itertools.pairwise(split))
    assert all(piece.size == max_size for piece in split[:-1])
    assert split[-1].size <= max_size
    assert {piece.topic_partition for piece in split} == {r.topic_partition}


@pytest.mark.parametrize("max_size", [0, "5", True])
def test_refuses_a_size_that_cuts_nothing(max_size: object) -> None:
    with pytest.raises(OffsetRangeError, match=r"size"):
        OffsetRange.parse("orders:0:0:7").split(max_size)  # type: ignore[arg-type]


def test_sorts_ranges_given_in_any_order() -> None:
    """Partition 10 comes after 2, and topics are kept apart."""
    ranges = OffsetRanges.parse(["b:0:0:1", "a:10:0:1", "a:2:5:9", "a:2:0:5"])

    assert ranges.format() == ["a:2:0:5", "a:2:5:9", "a:10:0:1", "b:0:0:1"]
    assert [(str(p), [r.format() for r in of]) for p, of in ranges.by_partition()] == [
        ("a[2]", ["a:2:0:5", "a:2:5:9"]),
        ("a[10]", ["a:10:0:1"]),
        ("b[0]", ["b:0:0:1"]),
    ]
    assert ranges.topic_partitions == (TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0))


@given(_small_ranges(), st.randoms())
def test_a_set_stays_the_same_set(ranges: OffsetRanges, random: Any) -> None:
    """In any order of the input, as texts, in another process, with its empty ranges."""
    shuffled = list(ranges)
    random.shuffle(shuffled)

    assert OffsetRanges(shuffled) == ranges
    assert OffsetRanges.parse(ranges.format()) == ranges
    for copied in (pickle.loads(pickle.dumps(ranges)), copy.deepcopy(ranges)):  # noqa: S301 - our own bytes
        assert isinstance(copied, OffsetRanges)
        assert copied == ranges


@pytest.mark.parametrize(
    ("values", "fragments"),
    [
        pytest.param(["orders:0:0:10", "orders:0:0:10"], ["'orders:0:0:10'", "given twice"], id="duplicate"),
        pytest.param(
            ["orders:0:0:10", "orders:0:9:20"],
            ["'orders:0:0:10' and 'orders:0:9:20' overlap", "merge_overlaps=True"],
            id="overlap-by-one",
        ),
        pytest.param(
            ["orders:0:0:10", "orders:0:5:5", "orders:0:7:9"],
            ["'orders:0:0:10' and 'orders:0:7:9' overlap"],
            id="overlap-hidden-behind-an-empty-range",
        ),
        pytest.param([["a:0:0:1"], ["b:0:0:1"]], ["got a list of 2 lists or results, as a mapped"], id="mapped-sensor"),
        pytest.param([{"ranges": [], "run_id": "1"}], ["Map over it: .expand(offset_ranges="], id="mapped-copy"),
        pytest.param("orders:0:0:10", ["must be a list", "'orders:0:0:10'"], id="one-text"),
        pytest.param(
            {"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 1}, ["must be a list"], id="one-dict"
        ),
    ],
)
def test_refuses_a_malformed_set(values: object, fragments: list[str]) -> None:
    """Duplicates and overlaps would write records twice: they are errors that name both ranges and the way out."""
    with refuses(OffsetRangeError, *fragments):
        OffsetRanges.parse(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(["o:0:0:100", "o:0:10:20"], ["o:0:0:100"], id="nested-keeps-the-larger-end"),
        pytest.param(["o:0:0:10", "o:0:10:20"], ["o:0:0:10", "o:0:10:20"], id="touching-stay-apart"),
        pytest.param(["o:0:0:10", "o:0:10:20", "o:0:5:15"], ["o:0:0:20"], id="bridge-unites-both"),
        pytest.param(["o:0:5:5", "o:0:5:5"], ["o:0:5:5"], id="empty"),
        pytest.param(["o:0:0:10", "o:0:5:15", "o:0:7:7"], ["o:0:0:15", "o:0:7:7"], id="empty-within-what-is-merged"),
    ],
)
def test_merge_overlaps_unites_only_what_overlaps(values: list[str], expected: list[str]) -> None:
    """Each record is read once; an empty range stays visible in a plan, once."""
    assert OffsetRanges.parse(values, merge_overlaps=True).format() == expected


@given(_small_ranges(), st.lists(_small_range(), max_size=8))
def test_the_algebra_is_that_of_single_offsets(a: OffsetRanges, others: list[OffsetRange]) -> None:
    """What is merged in, taken out or intersected with may overlap itself and come from any iterable, even one that is
    read once. A merged set has the fewest ranges. Of the others each range lies in one of the ranges that were asked
    for, and boundaries between those are the only places where two touch.
    """
    merged, rest, common = a.merge(iter(others)), a.subtract(iter(others)), a.intersect(iter(others))

    assert _cells(merged) == _cells(a) | _cells(others)
    assert _cells(rest) == _cells(a) - _cells(others)
    assert _cells(common) == _cells(a) & _cells(others)
    assert merged.total == len(_cells(merged))
    for found in (merged, rest, common):
        assert type(found) is OffsetRanges
        assert found == OffsetRanges(reversed(found))
        assert not any(r.is_empty for r in found)
        for one, other in itertools.pairwise(found):
            if (one.topic_partition, one.until_offset) == (other.topic_partition, other.from_offset):
                assert found is not merged
                assert a.index_of_range_holding(one) != a.index_of_range_holding(other)
    for piece in (*rest, *common):
        a.index_of_range_holding(piece)


@given(_small_ranges(), st.integers(1, 6))
def test_splitting_a_set_loses_nothing(ranges: OffsetRanges, max_size: int) -> None:
    split = ranges.split(max_size)

    assert _cells(split) == _cells(ranges)
    assert split == OffsetRanges(reversed(split))
    assert split.total == ranges.total
    assert all(piece.size <= max_size for piece in split)
    assert [r for r in split if r.is_empty] == [r for r in ranges if r.is_empty]


@given(_small_ranges(), _small_range())
@example(OffsetRanges.parse(["a:0:0:9", "a:0:5:5"]), OffsetRange("a", 0, 6, 7))
def test_finds_the_range_that_holds_a_piece(ranges: OffsetRanges, piece: OffsetRange) -> None:
    def holds(r: OffsetRange) -> bool:
        return (
            r.topic_partition == piece.topic_partition
            and r.from_offset <= piece.from_offset
            and piece.until_offset <= r.until_offset
        )

    try:
        found = ranges.index_of_range_holding(piece)
    except LookupError:
        assert not any(holds(r) for r in ranges)
    else:
        assert holds(ranges[found])


def test_finds_a_range_up_to_the_largest_offset() -> None:
    ranges = OffsetRanges([OffsetRange("o", 0, 0, _MAX_OFFSET)])

    assert ranges.index_of_range_holding(OffsetRange("o", 0, 1, _MAX_OFFSET)) == 0
