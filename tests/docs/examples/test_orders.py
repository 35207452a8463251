import pytest

from airflow_provider_kafka_spark.testing.broker_client import Record


def test_orders_arrive(kafka_broker, topic):
    orders = topic(partitions=4)  # named after the test, and deleted after it
    kafka_broker.produce(orders, [Record(key=b"1", value=b"{}", partition=0)])
    # Run what you test here.
    assert len(kafka_broker.consume(orders)) == 1


pytestmark = pytest.mark.broker
