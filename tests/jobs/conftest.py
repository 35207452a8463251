"""The batch job, run in the tests' own process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.in_process_jobs import InProcessSpark
from tests.in_process_jobs import in_process_spark as in_process_spark
from tests.jobs.runs import REFUSES_LARGE, SMALL_COMMITS, TAKES_LARGE, copy_request, values
from tests.operators.copy_task import new_task as new_task

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


@dataclass
class Pair:
    """A source and a target of one partition each, and tries of one task that copies from the one to the other."""

    broker: KafkaBroker
    source: str
    target: str
    run: Copy

    def fill(self, records: Sequence[Record], *, in_batch: int | None = None) -> None:
        """The source gets records, in batches of so many if that matters."""
        self.broker.produce(self.source, records, {} if in_batch is None else {"batch.num.messages": in_batch})

    def copy(self, until: int, **options: Any) -> JobReport:
        """A try that copies all before an offset."""
        return self.run([f"{self.source}:0:0:{until}"], **{"topic": self.target, **options})

    def retry(self, until: int, **options: Any) -> JobReport:
        """A further try, which would find by the target's records what the first one has delivered."""
        return self.copy(until, **{"is_retry": True, "target_starts": {self.target: {"0": 0}}, **options})

    def refused(self, run: Callable[[], object], match: str | None = None) -> None:
        """A try that the target ends at the first large record, which it takes from then on."""
        self.broker.alter_topic(self.target, REFUSES_LARGE)
        with pytest.raises(TargetError, match=match):
            run()
        self.broker.alter_topic(self.target, TAKES_LARGE)

    def recreate_target(self) -> None:
        self.broker.delete_topic(self.target)
        self.broker.create_topic(self.target, 1)

    def values(self) -> list[bytes | None]:
        """What a reader of committed records sees in the target."""
        return values(self.broker, self.target)

    def assert_each_once(self) -> None:
        """The target has what a reader of committed records sees in the source, in any order."""
        assert Counter(self.values()) == Counter(values(self.broker, self.source))


@pytest.fixture
def pair(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> Pair:
    return Pair(kafka_broker, topic(suffix="source"), topic(suffix="target"), run_copy)
