"""The same copy on YARN with 1, 2 and 4 executors of one core: how it grows with them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.short_lived_jvm import OPTIONS_VARIABLE
from benchmarks import airflow_task
from benchmarks.environment import connect_to
from benchmarks.orders import mean_value_size, orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import check_count, fill, fresh_topic, new_broker
from tests.services.yarn_cluster import YarnCluster

SOURCE, PARTITIONS, EXECUTORS = "orders", 4, (1, 2, 4)
_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


@dataclass
class _Copies:
    """Copies in ``yarn client`` mode by whole tasks; remembers the seconds of the copy alone."""

    broker: KafkaBroker
    conf: dict[str, str]
    records: int
    folder: Path
    alone: dict[int, list[float]] = field(default_factory=dict)

    def variant(self, executors: int) -> Variant:
        def run() -> float:
            with fresh_topic(self.broker, PARTITIONS) as target:
                arguments: dict[str, Any] = {
                    "topics": [SOURCE],
                    "target_topic": target,
                    "conf": self.conf,
                    "num_executors": executors,
                    "executor_cores": 1,
                    "executor_memory": "700m",
                }
                seconds, result = airflow_task.run_in_child(airflow_task.BATCH, arguments, self.folder)
                check_count(self.broker, target, self.records)
                self.alone.setdefault(executors, []).append(result["seconds"])
                return seconds

        return Variant(f"{executors} executor{'s' if executors > 1 else ''} of one core", run, warm_up=False)


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Copy ``records`` orders with each number of executors."""
    emit(f"YARN: {records:,} records, {rounds} rounds")
    before = os.environ.get(_CONNECTION)
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        cluster = stack.enter_context(YarnCluster(memory_mb=8192))
        connect_to(broker.bootstrap_servers)
        os.environ.update(cluster.environment(), PYSPARK_PYTHON=sys.executable)
        os.environ[_CONNECTION] = json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}})
        # Those make short jobs shorter and long ones longer.
        conf = {name: value for name, value in cluster.spark_conf().items() if OPTIONS_VARIABLE not in name}
        try:
            fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
            copies = _Copies(broker, conf, records, folder)
            variants = [copies.variant(executors) for executors in EXECUTORS]
            alternate(variants, rounds, limit=max(600.0, records / 2_000))
        finally:
            os.environ.pop(_CONNECTION)
            if before is not None:
                os.environ[_CONNECTION] = before
            for name in cluster.environment():
                os.environ.pop(name, None)
        return _section(variants, copies, records, rounds)


def _section(variants: list[Variant], copies: _Copies, records: int, rounds: int) -> Section:
    rates = {executors: records / median(copies.alone[executors]) for executors in EXECUTORS}
    rows = [
        [
            variant.name,
            *median_and_range(variant),
            f"{median(copies.alone[executors]):.1f}",
            f"{rates[executors]:,.0f}",
            ratio_text(rates[executors], rates[EXECUTORS[0]]),
        ]
        for variant, executors in zip(variants, EXECUTORS, strict=True)
    ]
    chart = [
        "```mermaid",
        "xychart-beta",
        '    title "Records per second by executors"',
        f"    x-axis [{', '.join(map(str, EXECUTORS))}]",
        f"    bar [{', '.join(f'{rates[executors]:.0f}' for executors in EXECUTORS)}]",
        "```",
    ]
    return Section(
        "On YARN",
        f"{records:,} JSON orders of {mean_value_size():.0f} bytes on average from a topic of {PARTITIONS} partitions, "
        f"exactly once, in client mode. Median of {rounds_text(rounds)}. Seconds: the whole `execute`. Copy: from the "
        "driver's start to the end of the write, as the job reports it, with the wait for executors. The ratio is the "
        "speed of the copy against one executor. Broker, driver, YARN and all executors share the "
        f"{os.cpu_count()} cores of this machine, so the growth ends where those are used; one Kafka partition is one "
        "Spark partition, "
        f"so it ends at {PARTITIONS} executors in any case.",
        ["Executors", "Seconds", "Range", "Copy", "Records/s", "Ratio"],
        rows,
        notes=chart,
    )
