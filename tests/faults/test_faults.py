"""Whatever dies while a copy runs: with ``read_committed`` each record is there once, as it was, in its order."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.faults.drivers import Start, suspended
from tests.faults.proof import Copy, assert_failed
from tests.faults.slow_copy import PARTITIONS, RECORDS, SEED, each_round, impatient, new_copy, retry, wait_for_moment

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.fault]


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
    # SIGTERM ended its JVM: neither the copy nor the fence by the retry did.
    assert first.exit_code() == 128 + signal.SIGTERM
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
