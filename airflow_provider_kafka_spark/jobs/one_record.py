"""Read single records on the driver, by the Java client and with the job's own login."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_kafka_spark.jobs.kafka_admin import client_config, login_options

#: For all partitions together: without an answer nothing is known of the others.
_SECONDS = 30.0
_POLL_MS = 500

#: Key and value by topic, partition and offset; None if there is no such record, or nobody says what is there.
ReadRecord = Callable[[str, int, int], "tuple[bytes | None, bytes | None] | None"]


@contextmanager
def record_reader(jvm: Any, options: Mapping[str, str]) -> Iterator[ReadRecord]:
    """:param options: of Spark's Kafka source or sink; the login is taken from them."""
    config = client_config(jvm, {**login_options(options), "kafka.max.poll.records": "1"})
    config.put("auto.offset.reset", "none")
    config.put("enable.auto.commit", "false")
    bytes_of = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(config, bytes_of(), bytes_of())
    deadline = time.monotonic() + _SECONDS

    def read(topic: str, partition: int, offset: int) -> tuple[bytes | None, bytes | None] | None:
        from py4j.protocol import Py4JJavaError

        place = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        places = jvm.java.util.ArrayList()
        places.add(place)
        consumer.assign(places)
        consumer.seek(place, offset)
        while time.monotonic() < deadline:
            try:
                records = consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MS)).records(place)
            except Py4JJavaError:
                # It has aged out, or the login may not read it.
                return None
            if not records.isEmpty():
                found = records.get(0)
                return (found.key(), found.value()) if found.offset() == offset else None
        return None

    try:
        yield read
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))
