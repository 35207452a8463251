"""The broker of all measurements, and its topics: filled once, copied into new ones, checked and removed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from benchmarks.rounds import emit

_BROKER_PROPERTIES = {
    # By default a deleted topic keeps its disk space for a minute: three more copies would be made meanwhile.
    "log.segment.delete.delay.ms": "100",
    "num.io.threads": "4",
}
_names = itertools.count(1)


class WrongCopyError(Exception):
    """A variant did not do the work that it is timed for."""


def new_broker() -> KafkaBroker:
    """A broker of our own, to be used as a context manager."""
    return KafkaBroker(properties=_BROKER_PROPERTIES, jvm_options=("-Xms1g", "-Xmx1g"))


def fill(
    broker: KafkaBroker,
    topic: str,
    partitions: int,
    records: Iterable[Record],
    count: int,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Create a topic and write ``records``, of which there are ``count``.

    :param config: more librdkafka properties of the producer.
    """
    emit(f"  writing {count:,} records to {topic!r} ...")
    started = time.perf_counter()
    broker.create_topic(topic, partitions)
    broker.produce(topic, _with_progress(records, count), config)
    emit(f"  written in {time.perf_counter() - started:.0f} s")


@contextmanager
def fresh_topic(broker: KafkaBroker, partitions: int, suffix: str = "") -> Iterator[str]:
    """An empty topic that is always removed afterwards."""
    name = broker.create_topic(f"target-{next(_names)}{suffix}", partitions)
    try:
        yield name
    finally:
        broker.delete_topic(name)


def check_count(broker: KafkaBroker, topic: str, expected: int) -> None:
    """:raises WrongCopyError: if the topic does not hold as many records, but for the markers of transactions."""
    found = sum(end - start for start, end in broker.offsets(topic).values())
    if not expected <= found <= expected + expected // 1000 + 1000:
        raise WrongCopyError(f"The target {topic!r} must hold {expected:,} records after the copy; it holds {found:,}.")


def headers_of_first_record(broker: KafkaBroker, topic: str) -> int:
    """How many headers a copied record has, read from the target."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "benchmarks-look",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 64,
        }
    )
    try:
        partition = min(number for number, (start, end) in broker.offsets(topic).items() if start < end)
        consumer.assign([TopicPartition(topic, partition, 0)])
        for message in consumer.consume(1, timeout=30):
            return len(message.headers() or ())
    finally:
        consumer.close()
    raise WrongCopyError(f"The first record of {topic!r} did not arrive within 30 seconds.")


def _with_progress(records: Iterable[Record], count: int) -> Iterator[Record]:
    said = time.monotonic()
    for number, record in enumerate(records):
        if number % 10_000 == 0 and time.monotonic() - said > 10:
            said = time.monotonic()
            emit(f"    {number * 100 // count} %")
        yield record
