"""Catching up by availableNow: our stream and a hand-written one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

from airflow_provider_kafka_spark.core.wire.protocol import StreamJob
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks import airflow_task, handwritten_stream
from benchmarks.environment import connect_to
from benchmarks.orders import mean_value_size, orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import WrongCopyError, check_count, fill, fresh_topic, new_broker
from benchmarks.warm_spark import connector_jars, warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, PARTITIONS = "orders", 4
_OURS, _BY_HAND = "our stream, warm", "hand-written stream, warm"
_BARE = f"{_OURS}, without the provenance header"
_WHOLE, _WHOLE_BY_HAND = "our operator, whole `execute`", "hand-written stream, whole `execute` of SparkSubmitOperator"


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Catch up with ``records`` orders in every way, ``rounds`` times each."""
    emit(f"Streams: {records:,} records, {rounds} rounds")
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        spark = stack.enter_context(warm_session())
        variants = _Streams(broker, spark, records, folder).variants()
        alternate(variants, rounds, limit=max(300.0, records / 5_000))
        return _section(variants, records, rounds)


class _Streams:
    """Each run has a target and a checkpoint of its own."""

    def __init__(self, broker: KafkaBroker, spark: SparkSession, records: int, folder: Path) -> None:
        self._broker = broker
        self._spark = spark
        self._records = records
        self._folder = folder
        self._numbers = count(1)

    def variants(self) -> list[Variant]:
        return [
            self._variant(_OURS, self._ours),
            self._variant(_BARE, lambda target, checkpoint: self._ours(target, checkpoint, provenance=None)),
            self._variant(_BY_HAND, self._by_hand),
            # A whole process is never warm.
            self._variant(_WHOLE, self._whole, warm_up=False),
            self._variant(_WHOLE_BY_HAND, self._whole_by_hand, warm_up=False),
        ]

    def _variant(self, name: str, copy_stream: Callable[[str, str], float], *, warm_up: bool = True) -> Variant:
        def run() -> float:
            with fresh_topic(self._broker, PARTITIONS, "") as target:
                seconds = copy_stream(target, str(self._folder / f"checkpoint-{next(self._numbers)}"))
                check_count(self._broker, target, self._records)
                return seconds

        return Variant(name, run, warm_up)

    def _arguments(self, target: str, checkpoint: str) -> dict[str, object]:
        return {
            "topics": [SOURCE],
            "target_topic": target,
            "checkpoint_location": checkpoint,
            "starting_offsets": "earliest",
        }

    def _ours(self, target: str, checkpoint: str, **more: object) -> float:
        from airflow_provider_kafka_spark.jobs import available_now
        from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

        arguments = {**self._arguments(target, checkpoint), **more}
        request = cast(StreamJob, airflow_task.request_of(airflow_task.AVAILABLE_NOW, arguments))
        started = time.perf_counter()
        report = available_now.copy_stream(SparkApplication(self._spark), request)
        seconds = time.perf_counter() - started
        if report.records_written != self._records:
            raise WrongCopyError(f"The report must count {self._records:,} records; it says {report}.")
        return seconds

    def _by_hand(self, target: str, checkpoint: str) -> float:
        started = time.perf_counter()
        handwritten_stream.copy_stream(self._spark, self._broker.bootstrap_servers, SOURCE, target, checkpoint)
        return time.perf_counter() - started

    def _whole(self, target: str, checkpoint: str) -> float:
        return airflow_task.execute_in_child(
            airflow_task.AVAILABLE_NOW, self._arguments(target, checkpoint), self._folder
        )

    def _whole_by_hand(self, target: str, checkpoint: str) -> float:
        arguments = {
            "application": handwritten_stream.__file__,
            "application_args": [self._broker.bootstrap_servers, SOURCE, target, checkpoint],
            "driver_class_path": ":".join(map(str, connector_jars())),
            "conf": {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"},
        }
        return airflow_task.execute_in_child(airflow_task.SPARK_SUBMIT, arguments, self._folder)


def _section(variants: list[Variant], records: int, rounds: int) -> Section:
    by_name = {variant.name: variant for variant in variants}
    rows = []
    for variant in variants:
        middle, extent = median_and_range(variant)
        baseline = by_name[_WHOLE_BY_HAND if variant.name in (_WHOLE, _WHOLE_BY_HAND) else _BY_HAND]
        rate = f"{records / variant.median:,.0f}"
        rows.append([variant.name, middle, extent, rate, ratio_text(baseline.median, variant.median)])
    return Section(
        "Catching up by availableNow",
        f"{records:,} JSON orders of {mean_value_size():.0f} bytes on average, each with a key and 2 headers, from a "
        f"topic of {PARTITIONS} partitions into an empty one on the same broker, as one micro-batch with a new "
        f"checkpoint. Median of {rounds_text(rounds)}. The ratio is the speed against the hand-written stream, warm "
        "against warm and whole against whole.",
        ["Variant", "Seconds", "Range", "Records/s", "Ratio"],
        rows,
        [
            Goal(
                "Our stream's speed against the hand-written stream, both warm",
                by_name[_BY_HAND].median / by_name[_OURS].median,
                1.7,
                True,
            ),
        ],
    )
