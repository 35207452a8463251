"""The producer by which a driver claims a run. It sends no record: it commits offsets of groups, in transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_kafka_spark.core.errors import RunTakenOverError
from airflow_provider_kafka_spark.jobs.kafka_admin import Offsets

_CLOSE_SECONDS = 5
#: Classes of Kafka's client (3.9) for a producer whose transactional id another one has opened since.
_FENCED = ("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException")


class OwnerProducer:
    """A transactional producer. Opening it fences all earlier ones of the same id, so that of several drivers only the
    latest one can commit: a compare-and-set.

    :param config: a Java map, with the login.
    :raises Py4JJavaError: what Kafka's client raised.
    """

    def __init__(self, jvm: Any, config: Any, transactional_id: str) -> None:
        self._jvm = jvm
        config.put("transactional.id", transactional_id)
        serializer = jvm.org.apache.kafka.common.serialization.ByteArraySerializer
        self._producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(config, serializer(), serializer())
        try:
            self._producer.initTransactions()
        except BaseException:
            self.close()
            raise

    def commit(self, groups: Mapping[str, Offsets]) -> None:
        """Commit the offsets of all groups, or of none.

        :raises RunTakenOverError: if another driver has opened the id since.
        """
        kafka = self._jvm.org.apache.kafka.clients
        with _fenced_by_another_driver():
            self._producer.beginTransaction()
            for group, offsets in groups.items():
                self._producer.sendOffsetsToTransaction(
                    java_offsets(self._jvm, offsets), kafka.consumer.ConsumerGroupMetadata(group)
                )
            self._producer.commitTransaction()

    def close(self) -> None:
        """End it, whatever brokers do."""
        self._producer.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))


def java_offsets(jvm: Any, offsets: Offsets) -> Any:
    """Offsets by partition as Kafka's client takes them."""
    kafka, found = jvm.org.apache.kafka, jvm.java.util.HashMap()
    for (topic, number), committed in offsets.items():
        found.put(
            kafka.common.TopicPartition(topic, number),
            kafka.clients.consumer.OffsetAndMetadata(committed.offset, committed.metadata),
        )
    return found


@contextmanager
def _fenced_by_another_driver() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() not in _FENCED:
            raise
        raise RunTakenOverError(
            "Only the latest driver of a run may write; another one has taken over the run while this one claimed it. "
            "This one no longer writes."
        ) from error
