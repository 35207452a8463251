"""What the rules cost at several sizes, without brokers and without Spark: the work of each curve.

``benchmarks/growth.py`` measures seconds and bytes of it; ``tests/core/test_growth.py`` counts what Python executes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from airflow_provider_kafka_spark.core.ledger import Delivery, EntryState, coverage, uncovered
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.coverage import stretches_of

#: What is done at a size. What it needs is made before, so that only the work is measured.
Work = Callable[[], object]


def overlapping_copies(count: int) -> Work:
    """Copies of which each begins within the last half of them."""
    copies = _copies(count)
    return lambda: uncovered(coverage(copies))


def coverage_json(count: int) -> Work:
    """What the command prints of such copies, in bytes."""
    copies = _copies(count)
    return lambda: len(json.dumps(stretches_of(coverage(copies), copies), indent=2))


def _copies(count: int) -> list[Delivery]:
    return [
        Delivery(
            run_id=f"{i:016x}",
            state=EntryState.COMPLETE,
            ranges=OffsetRanges([OffsetRange("orders", 0, i * 10, (i + count // 2) * 10 + 5)]),
            target_topics=("copy",),
            source="source:9092",
            target="target:9092",
        )
        for i in range(count)
    ]


#: By the name of the curve.
RULES: Mapping[str, Callable[[int], Work]] = {
    "coverage of copies that overlap": overlapping_copies,
    "bytes of `coverage --json`": coverage_json,
}
