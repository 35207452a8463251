"""Transactions that commit offsets and stay open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker


@contextmanager
def open_commit(broker: KafkaBroker, group: str, offsets: Mapping[str, tuple[int, str]]) -> Iterator[Producer]:
    """A producer whose open transaction has sent offsets; it is to end it.

    :param offsets: the offset and its metadata for the first partition of topics.
    """
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": f"open-{uuid4().hex[:8]}"})
    consumer = Consumer({**servers, "group.id": group})
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        places = [TopicPartition(topic, 0, offset, metadata=text) for topic, (offset, text) in offsets.items()]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        yield producer
    finally:
        consumer.close()
