"""What a consumer has fetched, without a wait for more, or for what it can know before."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import confluent_kafka
from confluent_kafka import KafkaException

from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition

#: Messages that are taken from the client at once.
_BATCH = 10_000


def next_messages(
    consumer: confluent_kafka.Consumer, seconds: float, most: int = _BATCH
) -> list[confluent_kafka.Message]:
    """Whatever the client has fetched, as soon as that is anything.

    ``Consumer.consume`` returns when it has as many messages as it may return, or at its time-out: for less than that
    it always waits.

    :param seconds: to wait for the first message.
    :param most: how many are taken; the others stay with the client.
    """
    first = consumer.poll(seconds)
    if first is None or most == 1:
        return [] if first is None else [first]
    return [first, *consumer.consume(min(most - 1, _BATCH), timeout=0)]


def learn_topics(consumer: confluent_kafka.Consumer, partitions: Iterable[TopicPartition], seconds: float) -> None:
    """Let the client learn the leaders of all topics by one request, before it reads one topic after the other.

    It looks for the leaders of a topic that is new to it once a second only (librdkafka's ``rd_kafka_1s_tmr_cb``),
    except for those of its first assignment.

    :param seconds: for the answer; without one, the client learns the topics later.
    """
    first = {p.topic: p for p in partitions}
    if len(first) > 1:
        with suppress(KafkaException):
            consumer.offsets_for_times([confluent_kafka.TopicPartition(*p, 0) for p in first.values()], timeout=seconds)
