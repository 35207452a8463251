"""What a copy of many partitions with few records each costs: seconds of the job, in a warm session."""

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

_RECORDS = 5


@contextmanager
def copies_at(broker: KafkaBroker) -> Iterator[Callable[[int], float]]:
    """Seconds of a copy of as many partitions to as many others."""
    with warm_session() as spark:
        # Classes are compiled and loaded before the first measurement.
        _seconds(broker, spark, 2)
        yield lambda count: _seconds(broker, spark, count)


def _seconds(broker: KafkaBroker, spark: SparkSession, count: int) -> float:
    with fresh_topic(broker, count, "-source") as source, fresh_topic(broker, count) as target:
        broker.produce(source, (Record(b"k", b"v", partition=i % count) for i in range(_RECORDS * count)))
        ranges = [f"{source}:{i}:0:{_RECORDS}" for i in range(count)]
        request = airflow_task.request_of(airflow_task.REPLAY, {"offset_ranges": ranges, "target_topic": target})
        started = time.perf_counter()
        copy_ours(spark, request, target, _RECORDS * count)
        return time.perf_counter() - started
