"""Promises of :class:`~airflow_provider_kafka_spark.core.offsets.offset_set.OffsetSet`: it is as a set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.offset_set import OffsetSet


@given(st.integers(0, 50), st.integers(0, 60), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 40))))
def test_it_knows_what_a_set_knows(start: int, size: int, stretches: list[tuple[int, int]]) -> None:
    """Over the borders of its chunks, and with stretches that reach beyond the range."""
    seen = OffsetSet(OffsetRange("t", 0, start, start + size), chunk=8)
    left = set(range(start, start + size))
    for first, length in stretches:
        is_new = first in left
        assert seen.add(first) == is_new
        seen.add_range(first, first + length)
        left -= {first, *range(first, first + length)}
        assert seen.remaining == len(left)
    assert [o for r in seen.missing() for o in range(r.from_offset, r.until_offset)] == sorted(left)
