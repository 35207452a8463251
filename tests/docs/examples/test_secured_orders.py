import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker


def test_the_login_may_read_orders():
    with KafkaBroker(sasl_users={"etl": "secret"}, authorizer=True) as broker:
        connection = {"conn_type": "kafka", "extra": broker.sasl_client_config("etl", "SCRAM-SHA-512")}
        broker.add_acl("User:etl", "read", "topic", "orders")
        broker.create_topic("orders")

        assert "orders" in AdminClient(connection["extra"]).list_topics(timeout=20).topics


# The tests of KafkaCluster and of KafkaBroker prove the same of them.
pytestmark = [pytest.mark.broker, pytest.mark.long]
