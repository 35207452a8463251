"""Many ranges against one range of each partition, with as many records in all: our job, warm."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks import airflow_task
from benchmarks.environment import connect_to
from benchmarks.orders import orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import WrongCopyError, check_count, fill, fresh_topic, new_broker
from benchmarks.warm_spark import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, PARTITIONS, COPIED = "orders", 8, 200_000
_LIMIT_SECONDS = 300.0


@dataclass(frozen=True)
class _Shape:
    """Ranges of one size at one distance, spread evenly over the partitions."""

    name: str
    ranges: int
    gap: int

    @property
    def size(self) -> int:
        return COPIED // self.ranges

    @property
    def offsets_per_partition(self) -> int:
        """What the topic must hold for the ranges to fit."""
        return self.ranges // PARTITIONS * (self.size + self.gap)

    def format(self) -> list[str]:
        starts = range(0, self.offsets_per_partition, self.size + self.gap)
        return [f"{SOURCE}:{p}:{start}:{start + self.size}" for p in range(PARTITIONS) for start in starts]


_CONTIGUOUS = _Shape("1 range of each partition", PARTITIONS, 0)
_MANY = _Shape("1,000 ranges of 200, gaps of 200", 1_000, 200)
_SPARSE = _Shape("200 ranges of 1,000, gaps of 20,000", 200, 20_000)
_SHAPES = (_CONTIGUOUS, _MANY, _SPARSE)


def measure(rounds: int) -> Section:
    """Copy 200,000 records as 8, 1,000 and 200 ranges."""
    emit(f"Ranges: {COPIED:,} records, {rounds} rounds")
    held = max(shape.offsets_per_partition for shape in _SHAPES) * PARTITIONS
    with new_broker() as broker:
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(held, PARTITIONS), held)
        with warm_session() as spark:
            variants = [_variant(broker, spark, shape) for shape in _SHAPES]
            alternate(variants, rounds, _LIMIT_SECONDS)
    contiguous, many, _ = variants
    return Section(
        "Many ranges",
        f"{COPIED:,} records of a topic of {PARTITIONS} partitions with {held:,} orders, as offset ranges of "
        "different shapes: our job, as the replay operator submits it, in a warm session, median of "
        f"{rounds_text(rounds)}. The ratio is the time against one range of each partition.",
        ["Ranges", "Seconds", "Range", "Ratio"],
        [[v.name, *median_and_range(v), ratio_text(v.median, contiguous.median)] for v in variants],
        [Goal("Time of 1,000 ranges against one range of each partition", many.median / contiguous.median, 1.3, False)],
    )


def _variant(broker: KafkaBroker, spark: SparkSession, shape: _Shape) -> Variant:
    from airflow_provider_kafka_spark.jobs import batch
    from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

    with fresh_topic(broker, PARTITIONS) as target:
        arguments = {"offset_ranges": shape.format(), "target_topic": target}
        request = airflow_task.request_of(airflow_task.REPLAY, arguments)

    def run() -> float:
        with fresh_topic(broker, PARTITIONS) as target:
            started = time.perf_counter()
            report = batch.copy(
                SparkApplication(spark), replace(request, transform=replace(request.transform, topic=target))
            )
            seconds = time.perf_counter() - started
            check_count(broker, target, COPIED)
            if len(report.ranges) != shape.ranges or report.records_written != COPIED:
                raise WrongCopyError(
                    f"The report must count {COPIED:,} records in {shape.ranges:,} ranges; it says {report}."
                )
            return seconds

    return Variant(shape.name, run)
