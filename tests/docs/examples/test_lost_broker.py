import pytest

from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster


def test_orders_survive_a_broker():
    with KafkaCluster() as cluster:
        cluster.create_topic("orders", 4)
        cluster.produce("orders", [Record(key=b"1", value=b"{}")], {"acks": "all"})
        cluster.kill(cluster.leader("orders", 0))
        # Run what you test here.
        assert len(cluster.consume("orders")) == 1


# The tests of KafkaCluster and of KafkaBroker prove the same of them.
pytestmark = [pytest.mark.broker, pytest.mark.long]
