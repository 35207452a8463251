"""What a copy of many partitions with few records each costs, and one of many ranges: seconds of the job, in a warm
session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from benchmarks import airflow_task
from benchmarks.bulk import copy_ours
from benchmarks.topics import fresh_topic
from benchmarks.warm_spark import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In each partition, and in each range and the gap after it.
_RECORDS, _RANGE = 5, 10


@contextmanager
def copies_at(broker: KafkaBroker) -> Iterator[tuple[Callable[[int], float], Callable[[int], float]]]:
    """Seconds of a copy of as many partitions to as many others, and of as many ranges of one partition."""
    with warm_session() as spark:
        # Classes are compiled and loaded before the first measurement.
        _of_partitions(broker, spark, 2)
        _of_ranges(broker, spark, 100)
        yield lambda count: _of_partitions(broker, spark, count), lambda count: _of_ranges(broker, spark, count)


def _of_partitions(broker: KafkaBroker, spark: SparkSession, count: int) -> float:
    with fresh_topic(broker, count, "-source") as source:
        broker.produce(source, (Record(b"k", b"v", partition=i % count) for i in range(_RECORDS * count)))
        ranges = [f"{source}:{i}:0:{_RECORDS}" for i in range(count)]
        return _seconds(broker, spark, ranges, count, _RECORDS * count)


def _of_ranges(broker: KafkaBroker, spark: SparkSession, count: int) -> float:
    with fresh_topic(broker, 1, "-source") as source:
        broker.produce(source, (Record(b"k", b"v") for _ in range(2 * _RANGE * count)))
        ranges = [f"{source}:0:{start}:{start + _RANGE}" for start in range(0, 2 * _RANGE * count, 2 * _RANGE)]
        return _seconds(broker, spark, ranges, 1, _RANGE * count)


def _seconds(broker: KafkaBroker, spark: SparkSession, ranges: list[str], partitions: int, records: int) -> float:
    """:param partitions: of the target.
    :param records: that are copied.
    """
    with fresh_topic(broker, partitions) as target:
        request = airflow_task.request_of(airflow_task.REPLAY, {"offset_ranges": ranges, "target_topic": target})
        started = time.perf_counter()
        copy_ours(spark, request, target, records)
        return time.perf_counter() - started
