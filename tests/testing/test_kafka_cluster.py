"""Promises of the cluster of three brokers, kept by real ones."""

from __future__ import annotations

from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.broker_process import BrokerProcess
from airflow_provider_kafka_spark.testing.kafka_cluster import NODES, KafkaCluster

pytestmark = pytest.mark.broker

#: A producer as those of jobs: each record once, in order, on all replicas in sync, whoever leads.
SAFE = {"enable.idempotence": True, "acks": "all", "message.send.max.retries": 1000}


def new_topic(cluster: KafkaCluster, partitions: int = 1, replication: int = -1) -> str:
    return cluster.create_topic(f"topic-{uuid4().hex[:8]}", partitions, replication=replication)


@pytest.mark.long
def test_acknowledged_records_survive_the_sigkill_of_their_leader(kafka_cluster: KafkaCluster) -> None:
    """A topic has a replica on each broker, unless fewer are asked for. Others lead meanwhile; the killed broker comes
    back in sync. A broker that is not there is an error.
    """
    topic, two = new_topic(kafka_cluster), new_topic(kafka_cluster, replication=2)
    assert sorted(kafka_cluster.replicas(topic, 0)) == [1, 2, 3]
    assert len(kafka_cluster.replicas(two, 0)) == 2
    kafka_cluster.produce(topic, [Record(value=b"before")], SAFE)
    leader = kafka_cluster.leader(topic, 0)
    with pytest.raises(OptionError, match=r"node must be one of \(1, 2, 3\).*got 4"):
        kafka_cluster.kill(4)
    with pytest.raises(LocalServiceError, match="KafkaCluster must run"):
        KafkaCluster().kill(1)

    kafka_cluster.kill(leader)
    kafka_cluster.produce(topic, [Record(value=b"after")], SAFE)

    assert kafka_cluster.leader(topic, 0) != leader
    assert leader not in kafka_cluster.running()
    kafka_cluster.start_node(leader)
    kafka_cluster.wait_until_in_sync(topic)
    assert [record.value for record in kafka_cluster.consume(topic)] == [b"before", b"after"]


@pytest.mark.long
def test_a_partition_moves_with_its_records(kafka_cluster: KafkaCluster) -> None:
    """Its leader to any broker, its replicas to the named ones, in sync. A broker that is restarted leaves in order and
    comes back at its address, with its data.
    """
    topic = new_topic(kafka_cluster)
    kafka_cluster.produce(topic, [Record(value=b"x")], SAFE)
    for node in NODES:
        kafka_cluster.move_leader(topic, 0, node)
        assert kafka_cluster.leader(topic, 0) == node
    others = [node for node in NODES if node != kafka_cluster.leader(topic, 0)]
    kafka_cluster.reassign(topic, 0, others)
    assert kafka_cluster.replicas(topic, 0) == others
    leader, before = kafka_cluster.leader(topic, 0), kafka_cluster.bootstrap_servers
    assert leader in others
    kafka_cluster.restart(leader)
    kafka_cluster.wait_until_in_sync(topic)
    assert kafka_cluster.bootstrap_servers == before
    kafka_cluster.move_leader(topic, 0, leader)
    assert len(kafka_cluster.consume(topic)) == 1


@pytest.mark.long
def test_coordinators_are_those_that_the_brokers_name(kafka_cluster: KafkaCluster) -> None:
    """The computed ones, for groups and for transactional ids."""
    topic = new_topic(kafka_cluster)
    names = [f"coordinated-{number}" for number in range(4)]
    properties = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    for name in names:
        with kafka_cluster.group_member(name, topic):
            pass
    with KafkaJvm(properties, "the cluster", timeout=60, jars=BrokerProcess.jars()) as jvm:
        admin = jvm.admin()
        groups = jvm.get(admin.describeConsumerGroups(names).all(), "describing groups")
        jvm.get(admin.fenceProducers(names).all(), "using the ids")
        transactions = jvm.get(admin.describeTransactions(names).all(), "describing transactions")
        assert [kafka_cluster.group_coordinator(name) for name in names] == [
            groups[name].coordinator().id() for name in names
        ]
        assert [kafka_cluster.transaction_coordinator(name) for name in names] == [
            transactions[name].coordinatorId() for name in names
        ]


@pytest.mark.long
def test_records_of_a_partition_without_a_leader_are_not_left_out(kafka_cluster: KafkaCluster) -> None:
    """Reading the rest alone would look as if records were lost."""
    alone, safe = new_topic(kafka_cluster, 3, replication=1), new_topic(kafka_cluster, 3)
    kafka_cluster.kill(kafka_cluster.leader(alone, 0))
    # Each broker led one of these partitions, so this ends when the killed one is fenced.
    kafka_cluster.produce(safe, [Record(value=b"x", partition=number) for number in range(3)], SAFE)

    client = BrokerClient(kafka_cluster.bootstrap_servers, timeout=2)

    with pytest.raises(LocalServiceError, match="the last answer was a partition without a leader"):
        client.consume(alone)
