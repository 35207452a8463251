"""Whatever dies while a copy runs: with ``read_committed`` each record is there once, as it was, in its order."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.faults.drivers import Driver, request_for, suspended, wait_for_copies

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.fault]

RECORDS, PARTITIONS = 4_000, 2
#: How often each fault is tried; `make faults` tries more.
ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
SEED = int(os.environ.get("FAULT_SEED", "7"))

Start = Callable[..., Driver]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an attempt of a request."""
    drivers: list[Driver] = []

    def started(request: JobRequest, *, executors: bool = False) -> Driver:
        drivers.append(Driver(request, tmp_path / f"try-{len(drivers)}", executors))
        return drivers[-1].start()

    yield started
    for driver in drivers:
        driver.stop()


@pytest.fixture
def copy(kafka_broker: KafkaBroker, topic: TopicFactory) -> tuple[JobRequest, list[Record]]:
    """A copy that lasts for some seconds, and its records."""
    source, target = topic(PARTITIONS, suffix="source"), topic(PARTITIONS, suffix="target")
    # Retention would delete what is old.
    now = int(time.time() * 1000) - RECORDS
    records = [
        Record(b"k%d" % i, b"%d" % i, (("h", b"%d" % i),), timestamp=now + i, partition=i % PARTITIONS)
        for i in range(RECORDS)
    ]
    kafka_broker.produce(source, records, {"batch.num.messages": 20})
    ranges = [f"{source}:{p}:0:{RECORDS // PARTITIONS}" for p in range(PARTITIONS)]
    audit = {target: {str(p): 0 for p in range(PARTITIONS)}}
    return request_for(kafka_broker, ranges, target, audit_from=audit), records


def check(broker: KafkaBroker, request: JobRequest, records: list[Record], report: JobReport | None, log: str) -> None:
    """Each record once, byte by byte, with its timestamp, and in order within its partition."""
    assert report is not None, log[-3000:]
    assert report.failure is None, report.failure
    copies = broker.consume(request.transform.topic or "")
    # The same keys in as many partitions: a record keeps its order among those of its source partition.
    found: dict[int, list[tuple[object, ...]]] = {}
    for each in copies:
        number = int(each.value or b"") % PARTITIONS
        headers = tuple(h for h in each.headers if h[0] != PROVENANCE_HEADER)
        found.setdefault(number, []).append((each.key, each.value, headers, each.timestamp))
    expected = {
        number: [(r.key, r.value, r.headers, r.timestamp) for r in records if r.partition == number]
        for number in range(PARTITIONS)
    }
    assert {n: sorted(rs, key=lambda r: r[3]) for n, rs in found.items()} == expected  # type: ignore[arg-type,return-value]
    assert report.records_written == RECORDS
    assert sum(r.records_read for r in report.ranges) == RECORDS


def moment(number: int) -> int:
    """How many records are there when the fault comes."""
    return random.Random(SEED * 1000 + number).randrange(1, RECORDS // 2)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_executor_is_killed(
    kafka_broker: KafkaBroker, copy: tuple[JobRequest, list[Record]], start: Start, number: int
) -> None:
    """The same application heals it."""
    request, records = copy
    driver = start(request, executors=True)
    wait_for_copies(kafka_broker, request.transform.topic or "", moment(number))
    assert driver.kill_executor()

    report = driver.wait()

    check(kafka_broker, request, records, report, driver.log)


@pytest.mark.parametrize("victim", ["all", "python"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_driver_is_killed_and_tried_again(
    kafka_broker: KafkaBroker, copy: tuple[JobRequest, list[Record]], start: Start, number: int, victim: str
) -> None:
    """The retry goes on from the committed progress; a JVM that lives on for a moment is fenced."""
    request, records = copy
    first = start(request)
    wait_for_copies(kafka_broker, request.transform.topic or "", moment(number))
    first.signal(signal.SIGKILL) if victim == "all" else first.kill_python()

    second = start(_retry(request))
    report = second.wait()

    check(kafka_broker, request, records, report, second.log)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_suspended_driver_wakes_up_after_the_retry(
    kafka_broker: KafkaBroker, copy: tuple[JobRequest, list[Record]], start: Start, number: int
) -> None:
    """It is fenced, fails by name, and writes nothing more."""
    request, records = copy
    first = start(request)
    wait_for_copies(kafka_broker, request.transform.topic or "", moment(number))
    first.signal(signal.SIGSTOP)
    second = start(_retry(request))
    report = second.wait()
    check(kafka_broker, request, records, report, second.log)

    first.signal(signal.SIGCONT)
    late = first.wait()

    check(kafka_broker, request, records, report, second.log)
    assert late is not None
    assert late.failure is not None
    assert late.failure.error == "RunTakenOverError", late.failure


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_broker_is_suspended_for_a_while(
    kafka_broker: KafkaBroker, copy: tuple[JobRequest, list[Record]], start: Start, number: int
) -> None:
    """For less than its clients' time-outs: they wait, and go on."""
    request, records = copy
    driver = start(request)
    wait_for_copies(kafka_broker, request.transform.topic or "", moment(number))
    with suspended("kafka.Kafka"):
        time.sleep(random.Random(SEED + number).uniform(1, 8))

    report = driver.wait()

    check(kafka_broker, request, records, report, driver.log)


def _retry(request: JobRequest) -> JobRequest:
    return replace(request, is_retry=True)
