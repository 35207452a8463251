"""Rules that the documentation promises and that no other file proves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, RangeReport
from airflow_provider_kafka_spark.operators.proof import check_counts


def test_a_record_that_is_there_and_was_not_read_is_an_error() -> None:
    """A second client counts it."""
    gap = OffsetRange("orders", 0, 0, 10)
    report = JobReport("run", "plan", (RangeReport(gap, 8, 8),), ("copy",), "local-1", "4.0.0", 1.0, None)
    source: Any = SimpleNamespace(count_records=lambda ranges, **_: dict.fromkeys(ranges, 9))
    planned: Any = SimpleNamespace(rules=ReadRules())

    with pytest.raises(DeliveryError, match=r"local-1\): orders\[0\] 0 to 10: 8 read, 9 there\. A retry"):
        check_counts(source, planned, report, allow_duplicates=True)


def test_too_many_gaps_are_a_warning() -> None:
    """Nothing is counted again beyond a million offsets."""
    gap = RangeReport(OffsetRange("orders", 0, 0, 1_000_001), 1, 1)
    report = JobReport("run", "plan", (gap,), ("copy",), "local-1", "4.0.0", 1.0, None)
    nobody: Any = None

    (warning,) = check_counts(nobody, nobody, report, allow_duplicates=True)

    assert "with 1,000,001 offsets they are too many to be counted a second time" in warning
