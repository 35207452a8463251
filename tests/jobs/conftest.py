"""The batch job, run in the tests' own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.handoff.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.in_process_jobs import InProcessSpark
from tests.in_process_jobs import in_process_spark as in_process_spark
from tests.jobs.runs import SMALL_COMMITS

Copy = Callable[..., JobReport]
#: Numbers of submissions only grow.
_numbers = count(int(time.time() * 1000))


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of few records."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SMALL_COMMITS)


@pytest.fixture
def run_copy(in_process_spark: InProcessSpark, kafka_broker: KafkaBroker) -> Copy:
    """Run the job in this process: ``run_copy(["orders:0:0:10"], topic="copy", where=...)``; all tries of a test are of
    one task instance.
    """
    instance = uuid4().hex[:16]

    def run(ranges: Sequence[str], run_id: str = "0123456789abcdef", **options: Any) -> JobReport:
        parsed = OffsetRanges.parse(ranges)
        spans = options.pop("spans", None) or plan_spans(parsed)
        login = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}
        source_options, sink_options = options.pop("source_options", {}), options.pop("sink_options", {})
        request_fields = {name: options.pop(name) for name in list(options) if name in JobRequest.__dataclass_fields__}
        request_fields.setdefault("submission", next(_numbers))
        request_fields.setdefault("instance", instance)
        request = JobRequest(
            run_id=run_id,
            plan_digest=" ".join(parsed.format()),
            ranges=tuple(parsed.format()),
            spans=spans,
            transform=Transform(**options),
            source_options={**source_defaults(spans, read_committed=True), **login, **source_options},
            sink_options={**sink_defaults(), **login, **sink_options},
            report_uri="",
            **request_fields,
        )
        return in_process_spark.report("batch", request)

    return run
