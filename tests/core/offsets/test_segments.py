"""Segments: the fewest that say the same, and the source of each record of a target."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import (
    Segment,
    SegmentIndex,
    joined,
    results_in,
    sources_of,
)

#: For each segment: the gaps before it in source and target, and its size.
PARTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=8)


def segment(source: int, size: int, target: int, partition: int = 0) -> Segment:
    return Segment(
        OffsetRange("orders", partition, source, source + size), OffsetRange("copy", partition, target, target + size)
    )


def segments_of(parts: list[tuple[int, int, int]], partition: int = 0) -> list[Segment]:
    found, source, target = [], 0, 0
    for gap, other, size in parts:
        found.append(segment(source + gap, size, target + other, partition))
        source, target = source + gap + size, target + other + size
    return found


def each_offset(segments: Any) -> dict[tuple[int, int], int]:
    """The source offset of each place in the target."""
    return {
        (s.target.partition, s.target.from_offset + i): s.source.from_offset + i
        for s in segments
        for i in range(s.source.size)
    }


@given(PARTS, PARTS, st.randoms())
def test_joined_segments_say_the_same(first: Any, second: Any, random: Any) -> None:
    segments = [*segments_of(first), *segments_of(second, 1)]
    random.shuffle(segments)

    found = joined(segments)

    assert each_offset(found) == each_offset(segments)
    assert not any(a.goes_on_in(b) for a in found for b in found)
    assert sources_of(segments).total == len(each_offset(segments))


@given(PARTS, PARTS)
def test_each_record_has_its_source(first: Any, second: Any) -> None:
    segments = [*segments_of(first), *segments_of(second, 1)]
    index, offsets = SegmentIndex(segments), each_offset(segments)

    for partition in (0, 1, 2):
        for offset in range(60):
            place = index.source_of(TopicPartition("copy", partition), offset)
            expected = offsets.get((partition, offset))
            assert place == (None if expected is None else ("orders", partition, expected))
    assert index.source_of(TopicPartition("orders", 0), 0) is None


@given(PARTS, PARTS)
def test_segments_of_several_results_may_overlap(first: Any, second: Any) -> None:
    """What any of them says of a place is found, also where a later one has ended."""
    segments = [*segments_of(first), *segments_of(second)]
    places = {place for one in segments for place in each_offset([one])}
    index = SegmentIndex(segments)

    assert {o for o in range(60) if index.source_of(TopicPartition("copy", 0), o)} == {o for _, o in places}


@pytest.mark.parametrize("form", ["result", "results", "json", "event-of-two"])
def test_segments_of_results(form: str) -> None:
    segments = (segment(0, 5, 7), segment(5, 2, 13))
    results = [{"segments": [s.to_dict()], "records_written": s.source.size} for s in segments]
    given = {"result": results[0], "results": [*results, {"records_written": 0}], "json": json.dumps(results)}
    given["event-of-two"] = {**results[0], "more": results[1:]}

    found = [Segment.from_dict(s) for result in results_in(given[form], "of") for s in result.get("segments", ())]
    assert found == list(segments[:1] if form == "result" else segments)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([], id="no-result"),
        pytest.param("{", id="no-json"),
        pytest.param({"segments": [{"topic": "orders"}]}, id="keys-missing"),
        pytest.param(
            {"segments": [{**segment(0, 5, 7).to_dict(), "target_from_offset": "7"}]}, id="text-for-an-offset"
        ),
        pytest.param({"segments": [{**segment(0, 5, 7).to_dict(), "target_topic": "a b"}]}, id="no-topic"),
        pytest.param({"records_written": 5}, id="no-segments"),
    ],
)
def test_what_has_no_segments(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^of must be the result of a copy with provenance='segments'"):
        results_in(value, "of")
