"""A small replay as a task runs it: starting costs more than copying."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.settings import maven_repository
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from benchmarks import airflow_task, handwritten_job
from benchmarks.environment import connect_to
from benchmarks.orders import orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import check_count, fill, fresh_topic, new_broker
from benchmarks.warm_spark import connector_jars

SOURCE, PARTITIONS = "orders", 4
_IN_TOPIC, _FROM, _UNTIL = 40_000, 3_000, 3_250
_COPIED = (_UNTIL - _FROM) * PARTITIONS
_LIMIT_SECONDS = 600.0
_OURS = "ReplayOffsetRangesOperator"
_PACKAGES = "SparkSubmitOperator with `packages`, hand-written job"
_FEWER_PACKAGES = "the same, with `exclude_packages` for what Spark has already"
_ON_CLASS_PATH = "the same, with the jars on `driver_class_path` instead of `packages`"


def measure(rounds: int, folder: Path) -> Section:
    """Replay 250 records of each of 4 partitions, through whole tasks."""
    emit(f"Replay: {_COPIED:,} records, {rounds} rounds")
    with new_broker() as broker:
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(_IN_TOPIC, PARTITIONS), _IN_TOPIC)
        variants = _variants(broker, folder)
        alternate(variants, rounds, _LIMIT_SECONDS)
    ours, packages = variants[0], variants[1]
    return Section(
        "Small replay",
        f"{_COPIED:,} records, {_UNTIL - _FROM} of each of {PARTITIONS} partitions: the whole `execute` of the task, "
        f"median of {rounds_text(rounds)}, each in a process that has Airflow and the operator imported already. All "
        "jars are in their caches after the warm-up. The ratio is the time against SparkSubmitOperator with "
        "`packages`.",
        ["Variant", "Seconds", "Range", "Ratio"],
        [[v.name, *median_and_range(v), ratio_text(v.median, packages.median)] for v in variants],
        [
            Goal(
                "Our operator's time against SparkSubmitOperator's with `packages`",
                ours.median / packages.median,
                0.28,
                False,
            )
        ],
    )


def _variants(broker: KafkaBroker, folder: Path) -> list[Variant]:
    ranges = [f"{SOURCE}:{number}:{_FROM}:{_UNTIL}" for number in range(PARTITIONS)]
    packages: dict[str, Any] = {
        "packages": find_spark_home().connector_coordinates[0],
        # Ivy keeps what it fetched here instead of in the user's home.
        "conf": {"spark.jars.ivy": str(cache_root() / "spark-ivy")},
    }
    if mirror := maven_repository():
        packages["repositories"] = mirror
    excludes = ",".join(CONNECTOR_EXCLUDES)
    class_path = ":".join(map(str, connector_jars()))

    def variant(name: str, run: Callable[[str], float]) -> Variant:
        def timed() -> float:
            with fresh_topic(broker, PARTITIONS) as target:
                seconds = run(target)
                check_count(broker, target, _COPIED)
                return seconds

        return Variant(name, timed)

    def ours(target: str) -> float:
        arguments = {"offset_ranges": ranges, "target_topic": target}
        return airflow_task.execute_in_child(airflow_task.REPLAY, arguments, folder)

    def by_hand(arguments: Mapping[str, Any]) -> Callable[[str], float]:
        starting, ending = (
            json.dumps({SOURCE: {str(number): offset for number in range(PARTITIONS)}}) for offset in (_FROM, _UNTIL)
        )
        job = [broker.bootstrap_servers, SOURCE]
        return lambda target: airflow_task.execute_in_child(
            airflow_task.SPARK_SUBMIT,
            {
                "application": handwritten_job.__file__,
                "application_args": [*job, target, starting, ending],
                **arguments,
            },
            folder,
        )

    return [
        variant(_OURS, ours),
        variant(_PACKAGES, by_hand(packages)),
        variant(_FEWER_PACKAGES, by_hand({**packages, "exclude_packages": excludes})),
        variant(_ON_CLASS_PATH, by_hand({"driver_class_path": class_path})),
    ]
