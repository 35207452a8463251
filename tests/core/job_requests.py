"""A request for a job that reads nothing, for tests that need any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_kafka_spark.core.wire.protocol import JobRequest, Transform

_REQUEST = JobRequest(
    run_id="0123456789abcdef",
    instance="instance",
    submission=1,
    plan_digest="digest",
    ranges=(),
    spans=(),
    transform=Transform(),
    source_options={},
    sink_options={},
    report_uri="report.json",
)


def job_request(**fields: Any) -> JobRequest:
    return replace(_REQUEST, **fields)
