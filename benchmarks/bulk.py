"""A bulk copy of realistic orders: our job, the job people write by hand, and the other tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

from benchmarks import airflow_task, confluent_loop, handwritten_job, kcat
from benchmarks.mirror_maker import MirrorMaker
from benchmarks.orders import mean_value_size, orders
from benchmarks.rounds import Variant, alternate, say, unavailable
from benchmarks.surroundings import connect_to
from benchmarks.table import Goal, Section, median_and_range, ratio_text
from benchmarks.topics import WrongCopyError, check_count, fill, fresh_topic, headers_of_first_record, new_broker
from benchmarks.warm_spark import connector_jars, warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, PARTITIONS = "orders", 4
_OURS = "our job, warm"
_BY_HAND = "hand-written job, warm"
_WHOLE, _WHOLE_BY_HAND = "our operator, whole `execute`", "hand-written job, whole `execute` of SparkSubmitOperator"


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Copy ``records`` orders in every way, ``rounds`` times each."""
    say(f"Bulk: {records:,} records, {rounds} rounds")
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        spark = stack.enter_context(warm_session())
        copies = _Copies(broker, records, folder)
        variants = _variants(copies, spark, stack)
        alternate(variants, rounds, limit=max(300.0, records / 5_000))
        return _section(variants, copies, records, rounds)


class _Copies:
    """One copy into a fresh target, timed and checked; remembers how many headers each variant leaves."""

    def __init__(self, broker: KafkaBroker, records: int, folder: Path) -> None:
        self.broker = broker
        self.records = records
        self.folder = folder
        self.headers: dict[str, int] = {}

    def variant(self, name: str, copy: Callable[[str], float | None], *, warm_up: bool = True, prefix: str = "") -> Variant:
        """:param copy: copies into the topic that it is given; returns its own seconds, or None to be timed here."""

        def run() -> float:
            with self._target(prefix) as target:
                started = time.perf_counter()
                told = copy(target)
                seconds = time.perf_counter() - started if told is None else told
                check_count(self.broker, target, self.records)
                self.headers[name] = headers_of_first_record(self.broker, target)
                return seconds

        return Variant(name, run, warm_up)

    def _target(self, prefix: str) -> AbstractContextManager[str]:
        return fresh_topic(self.broker, PARTITIONS, prefix)


def _variants(copies: _Copies, spark: SparkSession, stack: ExitStack) -> list[Variant]:
    broker, bootstrap = copies.broker, copies.broker.bootstrap_servers
    jars = ":".join(map(str, connector_jars()))
    # The same settings of Spark itself as the operator's, so that only the jobs differ.
    conf = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}

    def ours(request: JobRequest) -> Callable[[str], None]:
        return lambda target: _copy_ours(spark, request, target, copies.records)

    def whole(target: str) -> float:
        arguments = {"topics": [SOURCE], "target_topic": target}
        return airflow_task.execute_in_child(airflow_task.BATCH, arguments, copies.folder)

    def whole_by_hand(target: str) -> float:
        arguments = {
            "application": handwritten_job.__file__,
            "application_args": [bootstrap, SOURCE, target],
            "driver_class_path": jars,
            "conf": conf,
        }
        return airflow_task.execute_in_child(airflow_task.SPARK_SUBMIT, arguments, copies.folder)

    return [
        copies.variant(_OURS, ours(_request(broker))),
        copies.variant(f"{_OURS}, without the provenance header", ours(_request(broker, provenance_headers=False))),
        copies.variant(_BY_HAND, lambda target: handwritten_job.copy(spark, bootstrap, SOURCE, target)),
        _kcat(copies),
        copies.variant("confluent-kafka loop in Python", lambda target: confluent_loop.copy(broker, SOURCE, target)),
        _mirror_maker(copies, stack),
        # A whole process is never warm.
        copies.variant(_WHOLE, whole, warm_up=False),
        copies.variant(_WHOLE_BY_HAND, whole_by_hand, warm_up=False),
    ]


def _request(broker: KafkaBroker, *, provenance_headers: bool = True) -> JobRequest:
    with fresh_topic(broker, PARTITIONS) as target:
        arguments = {"topics": [SOURCE], "target_topic": target, "provenance_headers": provenance_headers}
        return airflow_task.request_of(airflow_task.build_operator(airflow_task.BATCH, arguments))


def _copy_ours(spark: SparkSession, request: JobRequest, target: str, records: int) -> None:
    from airflow_provider_kafka_spark.jobs import batch

    report = batch.copy(spark, replace(request, transform=replace(request.transform, topic=target)))
    if (report.records_read, report.records_written) != (records, records):
        raise WrongCopyError(f"The report must count {records:,} records; it says {report}.")


def _kcat(copies: _Copies) -> Variant:
    program = kcat.find_kcat()
    if program is None:
        return unavailable("`kcat -C \\| kcat -P`", "kcat is not installed")
    return copies.variant("`kcat -C \\| kcat -P`", lambda target: kcat.copy(program, copies.broker, SOURCE, target))


def _mirror_maker(copies: _Copies, stack: ExitStack) -> Variant:
    say("  starting MirrorMaker ...")
    mirror = stack.enter_context(MirrorMaker(copies.broker, copies.folder))
    aliases: list[str] = []

    def copy_to(name: str) -> float:
        return mirror.copy(name.removesuffix(f".{SOURCE}"), SOURCE, PARTITIONS, copies.records)

    del aliases
    return copies.variant("MirrorMaker 2, warm", copy_to)
