"""Whatever dies while a copy runs: with ``read_committed`` each record is there once, as it was, in its order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.faults.drivers import Driver, request_for, suspended, wait_for_copies
from tests.faults.proof import Copy, assert_failed

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.fault]

RECORDS, PARTITIONS = 4_000, 2
#: How often each fault is tried; `make faults` tries more.
ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
SEED = int(os.environ.get("FAULT_SEED", "7"))

Start = Callable[..., Driver]
each_round = pytest.mark.parametrize("number", range(ROUNDS))


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
def copy(kafka_broker: KafkaBroker, record_property: Callable[[str, object], None]) -> Copy:
    """A copy that lasts for some seconds, and its records."""
    return new_copy(kafka_broker, record_property)


@pytest.fixture(scope="module")
def frail_broker() -> Iterator[KafkaBroker]:
    """One that may be killed."""
    # It comes back when its earlier session has ended.
    with KafkaBroker(properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}) as broker:
        yield broker


def new_copy(broker: KafkaBroker, tell: Callable[[str, object], None]) -> Copy:
    source, target = (broker.create_topic(f"{name}-{uuid4().hex[:8]}", PARTITIONS) for name in ("source", "target"))
    # Retention would delete what is old.
    now = int(time.time() * 1000) - RECORDS
    records = [
        Record(b"k%d" % i, b"%d" % i, (("h", b"%d" % i),), timestamp=now + i, partition=i % PARTITIONS)
        for i in range(RECORDS)
    ]
    broker.produce(source, records, {"batch.num.messages": 20})
    ranges = [f"{source}:{p}:0:{RECORDS // PARTITIONS}" for p in range(PARTITIONS)]
    audit = {target: {str(p): 0 for p in range(PARTITIONS)}}
    return Copy(broker, request_for(broker, ranges, target, audit_from=audit), records, tell)


def wait_for_moment(copy: Copy, number: int) -> None:
    """Return when as many records are there as the seed says."""
    count = random.Random(SEED * 1000 + number).randrange(1, RECORDS // 2)
    wait_for_copies(copy.broker, copy.target, count)


def impatient(request: JobRequest) -> JobRequest:
    """Its clients give up soon."""
    soon = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "4000"}
    producer = {"kafka.delivery.timeout.ms": "4000", "kafka.max.block.ms": "4000", "kafka.request.timeout.ms": "2000"}
    return replace(
        request,
        source_options={**request.source_options, **soon},
        sink_options={**request.sink_options, **producer},
    )


def retry(request: JobRequest) -> JobRequest:
    return replace(request, is_retry=True)


@each_round
def test_an_executor_is_killed(copy: Copy, start: Start, number: int) -> None:
    """The same application heals it."""
    driver = start(copy.request, executors=True)
    wait_for_moment(copy, number)
    assert driver.kill_executor()

    copy.check(driver.wait(), driver.log, "Spark's next attempt of the task")


@each_round
def test_the_whole_driver_is_killed(copy: Copy, start: Start, number: int) -> None:
    """The retry goes on from the committed progress."""
    first = start(copy.request)
    wait_for_moment(copy, number)
    first.signal(signal.SIGKILL)

    second = start(retry(copy.request))

    copy.check(second.wait(), second.log, "the retry")


@each_round
def test_the_python_of_the_driver_is_killed(copy: Copy, start: Start, number: int) -> None:
    """Its JVM lives on until it notices, and is fenced."""
    first = start(copy.request)
    wait_for_moment(copy, number)
    first.kill_python()

    second = start(retry(copy.request))

    copy.check(second.wait(), second.log, "the retry, which fences the JVM")


@each_round
def test_the_process_of_the_airflow_task_is_killed(copy: Copy, start: Start, number: int) -> None:
    """Its driver ends, the JVM first."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        first = start(replace(copy.request, owner_pid=worker.pid))
        wait_for_moment(copy, number)
        worker.kill()

    second = start(retry(copy.request))

    copy.check(second.wait(), second.log, "the retry")
    late = first.wait()
    assert late is None or late.failure is not None
    assert not first.processes()


@each_round
def test_a_suspended_driver_wakes_up_after_the_retry(copy: Copy, start: Start, number: int) -> None:
    """It is fenced, fails by name, and writes nothing more."""
    first = start(copy.request)
    wait_for_moment(copy, number)
    first.signal(signal.SIGSTOP)
    second = start(retry(copy.request))
    report = second.wait()

    first.signal(signal.SIGCONT)
    late = first.wait()

    copy.check(report, second.log, "the retry, which fences it")
    assert_failed(late, "RunTakenOverError")


@each_round
def test_the_broker_is_suspended_for_a_while(copy: Copy, start: Start, number: int) -> None:
    """For less than its clients' time-outs: they wait, and go on."""
    driver = start(copy.request)
    wait_for_moment(copy, number)
    with suspended("kafka.Kafka"):
        time.sleep(random.Random(SEED + number).uniform(1, 8))

    copy.check(driver.wait(), driver.log, "Kafka's clients, which wait")


@each_round
def test_the_broker_is_suspended_for_longer_than_its_clients_wait(copy: Copy, start: Start, number: int) -> None:
    """The first try fails by name."""
    request = impatient(copy.request)
    first = start(request)
    wait_for_moment(copy, number)
    with suspended("kafka.Kafka"):
        report = first.wait()

    second = start(retry(request))

    assert_failed(report, "BrokerUnavailableError")
    copy.check(second.wait(), second.log, "the retry")


@each_round
def test_the_broker_is_killed_and_started_again(
    frail_broker: KafkaBroker, record_property: Callable[[str, object], None], start: Start, number: int
) -> None:
    """Kafka's clients connect again, and the transactions go on."""
    copy = new_copy(frail_broker, record_property)
    driver = start(copy.request)
    wait_for_moment(copy, number)
    frail_broker.kill()
    time.sleep(random.Random(SEED + number).uniform(0, 3))
    frail_broker.restart()

    copy.check(driver.wait(), driver.log, "Kafka's clients, which connect again")


@each_round
def test_the_target_is_deleted_and_created_again(copy: Copy, start: Start, number: int) -> None:
    """The first try fails by name; the retry writes everything to the new topic."""
    request = impatient(copy.request)
    first = start(request)
    wait_for_moment(copy, number)
    copy.broker.delete_topic(copy.target)
    report = first.wait()
    copy.broker.create_topic(copy.target, PARTITIONS)

    second = start(retry(request))

    assert_failed(report, "TargetError")
    copy.check(second.wait(), second.log, "the retry")


@each_round
def test_partitions_are_added_to_source_and_target(copy: Copy, start: Start, number: int) -> None:
    """The plan has fixed what is read; the producer learns of new partitions while it writes."""
    driver = start(copy.request)
    wait_for_moment(copy, number)
    copy.broker.add_partitions(copy.request.offset_ranges[0].topic, PARTITIONS + 1)
    copy.broker.add_partitions(copy.target, PARTITIONS + 1)

    copy.check(driver.wait(), driver.log, "nothing to heal")


@each_round
def test_the_source_ages_out_while_it_is_read(copy: Copy, start: Start, number: int) -> None:
    """Records that nobody can have any more are an error by name, and no retry passes over them."""
    source = copy.request.offset_ranges[0].topic
    driver = start(copy.request)
    wait_for_moment(copy, number)
    copy.broker.delete_records(source, dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS - 1))

    second = driver.wait(), start(retry(copy.request)).wait()

    for report in second:
        assert_failed(report, "DataLossError")
