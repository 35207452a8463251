"""Read the records of an offset range, with a bound on each wait. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.next_messages import next_messages
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange

#: A range may end without a record, which only the position shows: it is looked at so often.
_POSITION_SECONDS = 0.02


def read_range(
    client: KafkaClient, consumer: confluent_kafka.Consumer, r: OffsetRange, action: str
) -> Iterator[tuple[int, confluent_kafka.Message]]:
    """The records of a range, each with its offset.

    :param consumer: any that joins no group; its assignment is replaced.
    :param action: of the caller, for a message, such as ``"counting records"``.
    :raises BrokerError: if the broker refuses it, or stops answering for as long as the time-out.
    """
    consumer.assign([confluent_kafka.TopicPartition(r.topic, r.partition, r.from_offset)])
    deadline, reached = time.monotonic() + client.timeout, r.from_offset
    while True:
        for message in next_messages(consumer, _POSITION_SECONDS):
            error = message.error()
            # No group is joined, although the client requests one.
            if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue
            if error is not None:
                raise client.to_error(KafkaException(error), f"{action} of {r}", f"READ on topic {r.topic!r}")
            offset = message.offset()
            if offset is not None and r.from_offset <= offset < r.until_offset:
                yield offset, message
        # The position also moves over gaps, so it shows the end even without records.
        (position,) = consumer.position([confluent_kafka.TopicPartition(r.topic, r.partition)])
        if position.offset >= r.until_offset:
            return
        if position.offset > reached:
            reached, deadline = position.offset, time.monotonic() + client.timeout
        if time.monotonic() > deadline:
            raise BrokerUnavailableError(
                f"{action.capitalize()} of {r} came to a stop at offset {position.offset} for {client.timeout:.0f} s "
                f"(connection {client.conn_id!r}, {client.config.bootstrap_servers}). Is the partition's leader up?"
            )
