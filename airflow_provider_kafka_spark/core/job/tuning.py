"""Client settings that fit the plan. No I/O.

Measured on realistic records (docs/performance.md): big fetches win on long ranges, and waste time and memory on many
short ones, because each seek throws the rest of a fetch away and each cached consumer keeps its buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_kafka_spark.core.spans import Span

_KIB, _MIB = 1024, 1024 * 1024
#: A span of fewer offsets is fetched in small pieces.
_LONG_SPAN_OFFSETS = 20_000


#: Jobs of fewer offsets end before the JVM's second compiler would pay for itself.
_SMALL_JOB_OFFSETS = 100_000


def spark_defaults() -> dict[str, str]:
    """Spark's own settings of the connector, of SQL and of its UI, before the author's own.

    The UI has no login, so nobody ends a job there.

    Every offset is read once, so that fetched records kept for another reader only fill the memory: a plan of 200 short
    spans ran out of a 3 GB heap with the defaults (64 consumers, 5 min).
    """
    return {
        "spark.ui.killEnabled": "false",
        "spark.kafka.consumer.cache.capacity": "16",
        "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
        # Otherwise it is that of the driver's machine, and hour(timestamp) another one on another machine.
        "spark.sql.session.timeZone": "UTC",
    }


def local_defaults(job_folder: str) -> dict[str, str]:
    """What Spark needs besides on a local master, before the author's own.

    :param job_folder: that only the worker's user can read. Spark makes its folder of blocks, which hold records,
        readable for everybody.
    """
    return {
        # On one machine heartbeats cost nothing, and progress is known by them.
        "spark.executor.heartbeatInterval": "2s",
        "spark.local.dir": job_folder,
        # Everybody on the machine reaches the ports. Spark makes a secret of its own, which stays in the driver's
        # memory.
        "spark.authenticate": "true",
    }


def is_small(offsets: int) -> bool:
    """Whether the start of the JVM outweighs a copy of so many offsets."""
    return offsets <= _SMALL_JOB_OFFSETS


def source_defaults(spans: Sequence[Span], *, read_committed: bool) -> dict[str, str]:
    """Options of the Kafka source, before the author's own."""
    total = sum(span.until_offset - span.from_offset for span in spans)
    long_spans = not spans or total / len(spans) >= _LONG_SPAN_OFFSETS
    return {
        "kafka.isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "kafka.max.poll.records": "10000" if long_spans else "1000",
        "kafka.fetch.min.bytes": str(_MIB if long_spans else 1),
        "kafka.max.partition.fetch.bytes": str(8 * _MIB if long_spans else 256 * _KIB),
        "kafka.fetch.max.wait.ms": "50",
        "kafka.receive.buffer.bytes": str(_MIB),
    }


def sink_defaults() -> dict[str, str]:
    """Options of the Kafka sink, before the author's own."""
    return {
        # Explicit, because a producer switches idempotence off in silence when acks is anything else.
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "20",
        "kafka.batch.size": str(512 * _KIB),
        "kafka.buffer.memory": str(128 * _MIB),
        "kafka.max.request.size": str(8 * _MIB),
    }
