"""What a plan costs that is larger than any that was tried, said before it starts. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

#: The largest plans of the benchmarks and the tests (``make bench``, section "Growth").
LARGEST_TRIED: Mapping[str, int] = {
    "Kafka partitions": 10_000,
    "ranges": 100_000,
    "source topics": 2_000,
    "target topics": 2_000,
    "pieces": 2_000,
    "consumer groups of progress": 1_000,
}
#: Of a piece with a few records, on two cores: 2,000 took 29 s where they shared a few tasks, and 322 s in one each.
_SECONDS_OF_PIECE, _SECONDS_OF_TASK = 0.015, 0.16


def cost_warnings(sizes: Mapping[str, int]) -> list[str]:
    """A warning if a plan is larger than any that was tried.

    :param sizes: by the names of :data:`LARGEST_TRIED`.

    >>> cost_warnings({"Kafka partitions": 10_000, "pieces": 2_000})
    []
    >>> print(*cost_warnings({"Kafka partitions": 12_000, "pieces": 7_500}))
    Larger than any plan that was tried: 12,000 Kafka partitions (10,000 were tried), 7,500 pieces (2,000 were \
tried). It costs some 7,500 transactions, which take about 0:01:52 on two cores without the records, or 0:20:00 where \
Spark SQL computes them. To cut it, plan fewer topics or partitions at a time, such as one task for each topic.
    """
    larger = [
        f"{sizes[name]:,} {name} ({most:,} were tried)"
        for name, most in LARGEST_TRIED.items()
        if sizes.get(name, 0) > most
    ]
    if not larger:
        return []
    pieces = sizes.get("pieces", 0)
    return [
        f"Larger than any plan that was tried: {', '.join(larger)}. It costs some {pieces:,} transactions, which take "
        f"about {_time_of(pieces, _SECONDS_OF_PIECE)} on two cores without the records, or "
        f"{_time_of(pieces, _SECONDS_OF_TASK)} where Spark SQL computes them. To cut it, plan fewer topics or "
        "partitions at a time, such as one task for each topic."
    ]


def _time_of(pieces: int, seconds: float) -> timedelta:
    return timedelta(seconds=round(pieces * seconds))
