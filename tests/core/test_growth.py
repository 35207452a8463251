"""Twice the work costs twice as much: counted in what Python executes, or in bytes, and never in time.

Sorting is more than straight, and small sizes are less; a loop within a loop has an exponent of nearly 2.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from benchmarks.growing_rules import RULES

_SIZES = (70, 280)
_MOST = 1.25


@pytest.mark.parametrize("name", RULES)
def test_ten_times_the_work_costs_about_ten_times_as_much(name: str) -> None:
    small, large = (_cost(RULES[name](size)) for size in _SIZES)

    exponent = math.log(large / small) / math.log(_SIZES[1] / _SIZES[0])
    assert exponent < _MOST, f"{small:,} at {_SIZES[0]}, {large:,} at {_SIZES[1]}"


def test_a_plan_makes_each_range_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is checked when it is made: by the plan, and when the plan is read again."""
    partitions, made, check = 2_000, 0, OffsetRange.__post_init__

    def counted(self: OffsetRange) -> None:
        nonlocal made
        made += 1
        check(self)

    work = RULES["plan of many partitions"](partitions)
    monkeypatch.setattr(OffsetRange, "__post_init__", counted)
    work()

    assert made < 2.1 * partitions


def _cost(work: Callable[[], object]) -> int:
    """The bytes that the work returns, or the instructions that Python executes for it."""
    count = 0

    def traced(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        returned = work()
    finally:
        sys.settrace(before)
    return returned if isinstance(returned, int) else count
