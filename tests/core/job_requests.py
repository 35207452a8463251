"""A request for a job that reads nothing, for tests that need any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, Submission, Transform

_REQUEST = CopyJob(
    run_id="0123456789abcdef",
    instance="instance",
    submission=Submission(1),
    plan_digest="digest",
    ranges=OffsetRanges(),
    spans=(),
    transform=Transform(),
    source_options={},
    sink_options={},
    report_uri="report.json",
)


def job_request(**fields: Any) -> CopyJob:
    return replace(_REQUEST, **fields)
