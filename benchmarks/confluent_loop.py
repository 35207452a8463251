"""A consume-and-produce loop on confluent-kafka, as tuned as the Spark job, with acks of all replicas."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

_MIB = 1024 * 1024


def copy(broker: KafkaBroker, source: str, target: str) -> None:
    """Copy keys, values and headers; the partition is chosen anew by librdkafka's hash of the key.

    :raises RuntimeError: if a record could not be read or was not acknowledged.
    """
    from confluent_kafka import Consumer, Producer, TopicPartition

    ends = {number: end for number, (start, end) in broker.offsets(source).items() if start < end}
    left = sum(ends.values())
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "benchmarks-loop",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "fetch.wait.max.ms": 50,
            "fetch.min.bytes": _MIB,
            "max.partition.fetch.bytes": 8 * _MIB,
            "queued.min.messages": 200_000,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 512 * 1024,
            "queue.buffering.max.messages": 500_000,
            # Calling Python for each success would halve the speed.
            "delivery.report.only.error": True,
        }
    )
    failures: list[str] = []

    def failed(error: Any, _message: Any) -> None:
        failures.append(str(error))

    consumer.assign([TopicPartition(source, number, 0) for number in ends])
    try:
        while left:  # the caller bounds this
            messages = consumer.consume(10_000, timeout=1.0)
            for message in messages:
                if error := message.error():
                    raise RuntimeError(f"Reading {source!r} failed: {error}")
                headers: Any = message.headers()
                while True:
                    try:
                        producer.produce(target, message.value(), message.key(), headers=headers, on_delivery=failed)
                        break
                    except BufferError:
                        producer.poll(0.05)
            left -= len(messages)
        unsent = producer.flush(120)
    finally:
        consumer.close()
    if failures or unsent:
        raise RuntimeError(f"{len(failures)} records were refused and {unsent} not acknowledged: {failures[:1]}")
