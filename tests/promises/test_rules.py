"""Rules that the documentation promises and that no other file proves."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.handoff.task_failures import failure_of_task
from airflow_provider_kafka_spark.core.handoff.writer_messages import TaskFailure
from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.protocol import JobReport, RangeReport
from airflow_provider_kafka_spark.operators.proof import check_counts


def test_too_many_gaps_are_a_warning() -> None:
    """Nothing is counted again beyond a million offsets."""
    gap = RangeReport(OffsetRange("orders", 0, 0, 1_000_001), 1, 1)
    report = JobReport("run", "plan", (gap,), ("copy",), "local-1", "4.0.0", 1.0, None)
    nobody: Any = None

    (warning,) = check_counts(nobody, nobody, report, allow_duplicates=True)

    assert "with 1,000,001 offsets they are too many to be counted a second time" in warning


def test_a_damaged_batch_fails_the_task_by_name() -> None:
    failed = failure_of_task(TaskFailure("source_damaged", "It is damaged.", "orders[0]@5", 0, None, "crc", False), {})

    assert failed.error == "SourceDamagedError"
