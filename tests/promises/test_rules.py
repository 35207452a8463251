"""Rules that the documentation promises and that no other file proves."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, RangeReport
from airflow_provider_kafka_spark.operators.proof import check_counts


def test_too_many_gaps_are_a_warning() -> None:
    """Nothing is counted again beyond a million offsets."""
    gap = RangeReport(OffsetRange("orders", 0, 0, 1_000_001), 1, 1)
    report = JobReport("run", "plan", (gap,), ("copy",), "local-1", "4.0.0", 1.0, None)
    nobody: Any = None

    (warning,) = check_counts(nobody, nobody, report, allow_duplicates=True)

    assert "with 1,000,001 offsets they are too many to be counted a second time" in warning
