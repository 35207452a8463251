"""Client settings for the plan. No I/O.

Measured on realistic records (docs/explanation/performance.md): large fetches are faster on long ranges. They
waste time and memory on many short ones, because each seek discards the rest of a fetch and each cached consumer keeps
its buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange

_KIB, _MIB = 1024, 1024 * 1024
#: Spans of fewer offsets are fetched in small pieces.
_LONG_SPAN_OFFSETS = 20_000
#: Of more short spans than this, none may wait for the rest of a fetch that its log does not have.
_MOST_WAITS = 100
#: What compresses the batches of the target, which the driver decides: see ``core.copies.batch_path.codec_for``.
COMPRESSION, DEFAULT_CODEC = "kafka.compression.type", "lz4"
_MEMORY, _MAX_REQUEST = "kafka.buffer.memory", "kafka.max.request.size"
#: How many records are unpacked together at most, and the option that says it.
MOST_POLLED, POLLED = 10_000, "kafka.max.poll.records"

#: Jobs of fewer offsets end before the JVM's second compiler pays off.
_SMALL_JOB_OFFSETS = 100_000


def spark_defaults() -> dict[str, str]:
    """Spark's own settings of the connector, of SQL and of its UI, before the author's own.

    The UI has no login, so ending a job there is disabled, and so are thread dumps and heap histograms, each of which
    stops a JVM for seconds.

    Every offset is read once, so fetched records that are kept for another reader only fill the memory: a plan of 200
    short spans ran out of a 3 GB heap with the defaults (64 consumers, 5 min).
    """
    return {
        "spark.ui.killEnabled": "false",
        "spark.ui.threadDumpsEnabled": "false",
        "spark.ui.heapHistogramEnabled": "false",
        "spark.kafka.consumer.cache.capacity": "16",
        "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
        # Otherwise it is that of the driver's machine, and hour(timestamp) depends on the machine.
        "spark.sql.session.timeZone": "UTC",
    }


def local_defaults(job_folder: str) -> dict[str, str]:
    """Further Spark settings for a local master, before the author's own.

    :param job_folder: readable by the worker's user only. Spark creates its folder of blocks, which contain records,
        readable for all users.
    """
    return {
        # On one machine heartbeats are cheap, and they carry the progress.
        "spark.executor.heartbeatInterval": "2s",
        "spark.local.dir": job_folder,
        # All users of the machine can reach the ports. Spark creates a secret, which stays in the driver's memory.
        "spark.authenticate": "true",
    }


def is_small(offsets: int) -> bool:
    """Whether the start of the JVM takes longer than a copy of this many offsets."""
    return offsets <= _SMALL_JOB_OFFSETS


def source_defaults(spans: Sequence[OffsetRange], *, read_committed: bool) -> dict[str, str]:
    """Options of the Kafka source, before the author's own."""
    total = sum(span.size for span in spans)
    long_spans = not spans or total / len(spans) >= _LONG_SPAN_OFFSETS
    may_wait = sum(span.size < _LONG_SPAN_OFFSETS for span in spans) <= _MOST_WAITS
    return {
        "kafka.isolation.level": "read_committed" if read_committed else "read_uncommitted",
        POLLED: str(MOST_POLLED) if long_spans else "1000",
        "kafka.fetch.min.bytes": str(_MIB if long_spans and may_wait else 1),
        "kafka.max.partition.fetch.bytes": str(8 * _MIB if long_spans else 256 * _KIB),
        "kafka.fetch.max.wait.ms": "50",
        "kafka.receive.buffer.bytes": str(_MIB),
    }


def batches_memory(sink_options: Mapping[str, str], largest: int) -> str:
    """``buffer.memory`` for a producer that gets ready-made batches, which cost it nothing to queue: what is queued has
    to be written before its transaction or its delivery times out, also to a slow target.

    A batch of the source that is larger goes as bytes, in new batches; a record is a batch of its own at the largest.

    :param sink_options: the defaults included.
    :param largest: bytes of a batch at most.
    """
    defaults = sink_defaults()
    default = defaults[_MEMORY]
    given = sink_options.get(_MEMORY, default)
    if given != default:
        return given
    wanted = min(max(16 * _MIB, 4 * largest), int(default))
    return str(max(wanted, int(sink_options.get(_MAX_REQUEST, defaults[_MAX_REQUEST]))))


def sink_defaults() -> dict[str, str]:
    """Options of the Kafka sink, before the author's own."""
    return {
        # Explicit, because a producer silently disables idempotence with other values of acks.
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.linger.ms": "20",
        "kafka.batch.size": str(512 * _KIB),
        _MEMORY: str(128 * _MIB),
        _MAX_REQUEST: str(8 * _MIB),
        # A transactional producer sleeps once for this time after it has found a coordinator: twice in each task.
        # Repeated failures wait longer and longer, up to retry.backoff.max.ms.
        "kafka.retry.backoff.ms": "2",
    }
