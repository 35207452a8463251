"""The batch job, run in the tests' own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.protocol import JobReport
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.in_process_jobs import InProcessSpark
from tests.in_process_jobs import in_process_spark as in_process_spark
from tests.jobs.runs import SMALL_COMMITS, copy_request

Copy = Callable[..., JobReport]
#: Numbers of submissions only grow.
_numbers = count(int(time.time() * 1000))


@pytest.fixture(scope="package")
def second_broker() -> Iterator[KafkaBroker]:
    """One that a test may suspend, and that allows only short transactions."""
    with KafkaBroker(properties={"transaction.max.timeout.ms": "20000"}) as broker:
        yield broker


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
        options.setdefault("submission", next(_numbers))
        return in_process_spark.report(
            "batch", copy_request(kafka_broker, ranges, run_id=run_id, **{"instance": instance, **options})
        )

    return run
