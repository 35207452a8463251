"""Promises of the cluster of three brokers, kept by real ones."""

from __future__ import annotations

from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster

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
def test_records_of_a_partition_without_a_leader_are_not_left_out(kafka_cluster: KafkaCluster) -> None:
    """Reading the rest alone would look as if records were lost."""
    alone, safe = new_topic(kafka_cluster, 3, replication=1), new_topic(kafka_cluster, 3)
    kafka_cluster.kill(kafka_cluster.leader(alone, 0))
    # Each broker led one of these partitions, so this ends when the killed one is fenced.
    kafka_cluster.produce(safe, [Record(value=b"x", partition=number) for number in range(3)], SAFE)

    client = BrokerClient(kafka_cluster.bootstrap_servers, timeout=2)

    with pytest.raises(LocalServiceError, match="the last answer was a partition without a leader"):
        client.consume(alone)
