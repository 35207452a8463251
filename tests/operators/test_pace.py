"""Promises of a pace: it holds over the whole job, whatever its Spark tasks do."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import Batch, execute, pace_groups

RATE = 2_000


class Look(NamedTuple):
    """What the end of a topic was at some moment between two."""

    asked: float
    answered: float
    end: int


class Meter:
    """Looks at the end of a topic until it is left, inside ``with``."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.looks: list[Look] = []

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            asked = time.monotonic()
            end = sum(end for _, end in self._kafka.offsets(self._topic).values())
            self.looks.append(Look(asked, time.monotonic(), end))

    def fastest(self, seconds: float) -> float:
        """The highest rate over so long that is certain, in offsets per second: a slow look makes it lower."""
        rates = [
            (later.end - first.end) / (later.answered - first.asked)
            for i, first in enumerate(self.looks)
            for later in self.looks[i:]
            if later.asked - first.answered >= seconds
        ]
        return max(rates)

    def duration(self) -> float:
        """From the first record to the last, in seconds."""
        last = self.looks[-1].end
        return next(look.asked for look in self.looks if look.end == last) - next(
            look.asked for look in self.looks if look.end > 0
        )


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize(
    ("counts", "parameters"),
    [
        pytest.param([2_000, 8_000, 2_000], {}, id="one-task-is-left-at-the-end"),
        # A record of ten bytes has eight more in its batch.
        pytest.param(
            [5_000, 5_000],
            {"provenance": None, "max_records_per_second": None, "max_bytes_per_second": RATE * 18},
            id="batches-by-bytes",
        ),
    ],
)
def test_the_whole_job_keeps_the_pace(
    kafka: KafkaBroker,
    topic: TopicFactory,
    counts: list[int],
    parameters: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a tenth, over any three seconds; and it does not stand still, however slow the machine."""
    # Otherwise batches of a hundred small records are read record by record.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    source, target = topic(len(counts), suffix="source"), topic(len(counts), suffix="target")
    kafka.produce(
        source,
        [Record(value=b"%010d" % i, partition=p) for p, count in enumerate(counts) for i in range(count)],
        {"batch.num.messages": 100, "linger.ms": 1_000, "compression.type": "none"},
    )
    given = {"max_records_per_second": RATE, "preserve_partition": True, **parameters}

    with Meter(kafka, target) as meter:
        result = execute(Batch(task_id="task", topics=[source], target_topic=target, **given))

    records = sum(counts)
    assert result["records_written"] == records
    assert (result["batches_passed"] > 0) == ("provenance" in parameters)
    assert meter.fastest(3.0) < RATE * 1.1 + 500
    assert meter.duration() < 3 * records / RATE + 10
    assert pace_groups(kafka, target) == []
