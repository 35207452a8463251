"""Read single records on the driver, by the Java client and with the job's own login."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.provenance import Provenance, provenance_of
from airflow_provider_kafka_spark.jobs.kafka_admin import client_config, login_options

_SECONDS = 50.0
#: A leader that hangs leaves time for the next one, and a record of many bytes may come slowly.
_REQUEST_MS = 20_000
_POLL_MS = 200


class Look(enum.Enum):
    """What there is in place of a record."""

    #: A marker, a gap, or nothing at all.
    ABSENT = enum.auto()
    #: It has aged out, or the login may not read it.
    UNKNOWN = enum.auto()


class FoundRecord(NamedTuple):
    """:param provenance: what its last header says, if this package wrote it."""

    key: bytes | None
    value: bytes | None
    provenance: Provenance | None


#: By topic, partition and offset, which is below the end of the log.
ReadRecord = Callable[[str, int, int], "FoundRecord | Look"]


@contextmanager
def record_reader(jvm: Any, options: Mapping[str, str]) -> Iterator[ReadRecord]:
    """:param options: of Spark's Kafka source or sink; the login is taken from them.
    :raises BrokerUnavailableError: inside ``with``, if a broker does not answer.
    """
    own = {"kafka.max.poll.records": "1", "kafka.request.timeout.ms": str(_REQUEST_MS)}
    config = client_config(jvm, {**login_options(options), **own})
    config.put("auto.offset.reset", "none")
    config.put("enable.auto.commit", "false")
    bytes_of = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(config, bytes_of(), bytes_of())

    def read(topic: str, partition: int, offset: int) -> FoundRecord | Look:
        from py4j.protocol import Py4JJavaError

        place, places = jvm.org.apache.kafka.common.TopicPartition(topic, partition), jvm.java.util.ArrayList()
        places.add(place)
        consumer.assign(places)
        consumer.seek(place, offset)
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            try:
                records = consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MS)).records(place)
                if not records.isEmpty():
                    return _found(records.get(0), offset)
                if consumer.position(place) > offset:
                    return Look.ABSENT
            except Py4JJavaError:
                return Look.UNKNOWN
        raise BrokerUnavailableError(
            f"The leader of {topic}[{partition}] must answer within {_SECONDS:.0f} s; it did not. A retry looks again "
            "at what was delivered."
        )

    try:
        yield read
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))


def _found(record: Any, offset: int) -> FoundRecord | Look:
    if record.offset() != offset:
        return Look.ABSENT
    headers = record.headers().toArray()
    last = [(headers[len(headers) - 1].key(), headers[len(headers) - 1].value())] if len(headers) else None
    return FoundRecord(record.key(), record.value(), provenance_of(last))
