"""Whatever happens to one of three brokers while a copy runs: each record is there once, as it was, in its order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_kafka_spark.core.run_identity import run_prefix
from airflow_provider_kafka_spark.testing.kafka_cluster import NODES, KafkaCluster
from tests.faults.drivers import Start, wait_for_copies
from tests.faults.proof import Copy
from tests.faults.slow_copy import SEED, each_round, new_copy, wait_for_moment

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.fault]


@pytest.fixture
def copy(kafka_cluster: KafkaCluster, record_property: Callable[[str, object], None]) -> Copy:
    """A copy within the cluster that lasts for some seconds, and its records."""
    return new_copy(kafka_cluster, record_property)


@each_round
def test_the_leader_of_a_target_partition_is_killed_and_started_again(
    kafka_cluster: KafkaCluster, copy: Copy, start: Start, number: int
) -> None:
    """The producer sends the rest to the next leader."""
    driver = start(copy.request)
    wait_for_moment(copy, number)
    leader = kafka_cluster.leader(copy.target, 0)
    kafka_cluster.kill(leader)
    time.sleep(random.Random(SEED + number).uniform(0, 3))
    kafka_cluster.start_node(leader)

    copy.check(driver.wait(), driver.log, "Kafka's clients, which find the next leader")


@each_round
def test_the_transaction_coordinator_is_killed(
    kafka_cluster: KafkaCluster, copy: Copy, start: Start, number: int
) -> None:
    """Its successor knows the open transactions. It stays away until the copy has ended."""
    driver = start(copy.request)
    wait_for_moment(copy, number)
    coordinator = kafka_cluster.transaction_coordinator(_transactional_ids(copy)[0])
    assert_unfinished(copy)
    kafka_cluster.kill(coordinator)

    copy.check(driver.wait(), driver.log, "Kafka's clients, which find the next coordinator")


@each_round
def test_all_brokers_are_restarted_one_after_the_other(
    kafka_cluster: KafkaCluster, copy: Copy, start: Start, number: int
) -> None:
    """As by an upgrade: each leaves in order, and the next follows when all replicas are in sync."""
    copy = slower(copy)
    driver = start(copy.request)
    wait_for_copies(copy.broker, copy.target, 1)
    for node in random.Random(SEED + number).sample(NODES, len(NODES)):
        kafka_cluster.wait_until_in_sync()
        assert_unfinished(copy)
        kafka_cluster.restart(node)

    copy.check(driver.wait(), driver.log, "Kafka's clients, which follow the leaders")


@each_round
def test_a_broker_is_suspended_for_longer_than_requests_wait(
    kafka_cluster: KafkaCluster, copy: Copy, start: Start, number: int
) -> None:
    """A leader hangs until the copy has ended, and wakes up as one that others have replaced."""
    soon = {"kafka.request.timeout.ms": "2000"}
    request = replace(
        copy.request,
        source_options={**copy.request.source_options, **soon},
        sink_options={**copy.request.sink_options, **soon},
    )
    driver = start(request)
    wait_for_moment(copy, number)
    with kafka_cluster.suspended(kafka_cluster.leader(copy.target, 0)):
        report = driver.wait()

    kafka_cluster.wait_until_in_sync(copy.target)
    copy.check(report, driver.log, "Kafka's clients, which find the next leader")


@each_round
def test_a_leader_is_moved(kafka_cluster: KafkaCluster, copy: Copy, start: Start, number: int) -> None:
    """As by a preferred election: nothing dies."""
    driver = start(copy.request)
    wait_for_moment(copy, number)
    leader = kafka_cluster.leader(copy.target, 0)
    kafka_cluster.move_leader(copy.target, 0, next(node for node in NODES if node != leader))
    assert_unfinished(copy)

    copy.check(driver.wait(), driver.log, "Kafka's clients, which follow the leader")


@each_round
def test_a_partition_is_reassigned(
    kafka_cluster: KafkaCluster, record_property: Callable[[str, object], None], start: Start, number: int
) -> None:
    """Its leader loses its replica to a broker that had none."""
    copy = new_copy(kafka_cluster, record_property, replication=2)
    leader, follower = kafka_cluster.replicas(copy.target, 0)
    (other,) = set(NODES) - {leader, follower}
    driver = start(copy.request)
    wait_for_moment(copy, number)
    kafka_cluster.reassign(copy.target, 0, [other, follower])
    assert_unfinished(copy)

    copy.check(driver.wait(), driver.log, "Kafka's clients, which follow the leader")


def slower(copy: Copy) -> Copy:
    """It lasts for as long as three brokers need to restart."""
    options = {**copy.request.source_options, "kafka.fetch.max.wait.ms": "300"}
    return replace(copy, request=replace(copy.request, source_options=options))


def assert_unfinished(copy: Copy) -> None:
    """The fault came while records were still being written."""
    ends = copy.broker.offsets(copy.target).values()
    assert sum(end - start for start, end in ends) < len(copy.records), "the copy ended before the fault"


def _transactional_ids(copy: Copy) -> list[str]:
    """Those of the copy, as the cluster keeps them: a key is a version of two bytes, the length of the id, and it."""
    ids = {(record.key or b"")[4:].decode() for record in copy.broker.consume("__transaction_state")}
    return sorted(found for found in ids if found.startswith(run_prefix(copy.request.run_id)))
