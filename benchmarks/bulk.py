"""A bulk copy of realistic orders: our job, a hand-written job, and other tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobReport
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks import airflow_task, confluent_loop, handwritten_job, java_loop, kcat
from benchmarks.environment import connect_to
from benchmarks.mirror_maker import MirrorMaker
from benchmarks.orders import mean_value_size, orders
from benchmarks.rounds import Variant, alternate, emit, unavailable
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import WrongCopyError, check_count, fill, fresh_topic, headers_of_first_record, new_broker
from benchmarks.warm_spark import connector_jars, warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, PARTITIONS = "orders", 4
_OURS = "our job, exactly once, warm"
_AT_LEAST_ONCE = "our job, at least once, warm"
_BATCHES = "our job, exactly once by batches, warm"
_BY_HAND = "hand-written job, warm"
_SQL, _SQL_BY_HAND = "our job with SQL, exactly once, warm", "hand-written job with the same SQL, warm"
#: Every record passes, and every value is changed.
_WHERE, _VALUE = "get_json_object(string(value), '$.order_id') is not null", "concat(string(value), ' ')"
KCAT, MIRROR_MAKER = "`kcat -C \\| kcat -P`", "MirrorMaker 2, warm"
_LOOP = "confluent-kafka loop in Python"
_LIMIT = "the limit: a loop on Kafka's Java clients, warm"
_WHOLE, _WHOLE_BY_HAND = "our operator, whole `execute`", "hand-written job, whole `execute` of SparkSubmitOperator"


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Copy ``records`` orders in every way, ``rounds`` times each."""
    emit(f"Bulk: {records:,} records, {rounds} rounds")
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        spark = stack.enter_context(warm_session())
        copies = Copies(broker, records, folder)
        variants = _variants(copies, spark, stack)
        alternate(variants, rounds, limit=max(300.0, records / 5_000))
        return _section(variants, copies, records, rounds)


class Copies:
    """One copy into a fresh target, timed and checked; remembers how many headers each variant leaves."""

    def __init__(self, broker: KafkaBroker, records: int, folder: Path) -> None:
        self.broker = broker
        self.records = records
        self.folder = folder
        self.headers: dict[str, int] = {}

    def variant(
        self, name: str, copy: Callable[[str], float | None], *, warm_up: bool = True, suffix: str = ""
    ) -> Variant:
        """:param copy: copies into the given topic; returns its own seconds, or None to be timed here."""

        def run() -> float:
            with fresh_topic(self.broker, PARTITIONS, suffix) as target:
                started = time.perf_counter()
                own_seconds = copy(target)
                seconds = time.perf_counter() - started if own_seconds is None else own_seconds
                check_count(self.broker, target, self.records)
                self.headers[name] = headers_of_first_record(self.broker, target)
                return seconds

        return Variant(name, run, warm_up)


def _variants(copies: Copies, spark: SparkSession, stack: ExitStack) -> list[Variant]:
    broker, bootstrap = copies.broker, copies.broker.bootstrap_servers
    jars = ":".join(map(str, connector_jars()))
    # The same settings of Spark itself as the operator's, so that only the jobs differ.
    conf = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}

    def ours(request: CopyJob) -> Callable[[str], None]:
        def copy(target: str) -> None:
            copy_ours(spark, request, target, copies.records)

        return copy

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
        copies.variant(_OURS, ours(request_of(broker))),
        copies.variant(_AT_LEAST_ONCE, ours(request_of(broker, delivery="at_least_once"))),
        copies.variant(
            f"{_AT_LEAST_ONCE}, without the provenance header",
            ours(request_of(broker, delivery="at_least_once", provenance=None)),
        ),
        copies.variant(_BATCHES, ours(request_of(broker, provenance=None, preserve_partition=True))),
        copies.variant(_LIMIT, _limit(broker, spark)),
        copies.variant(_BY_HAND, lambda target: handwritten_job.copy(spark, bootstrap, SOURCE, target)),
        copies.variant(_SQL, ours(request_of(broker, where=_WHERE, columns={"value": _VALUE}))),
        copies.variant(
            _SQL_BY_HAND,
            lambda target: handwritten_job.copy(spark, bootstrap, SOURCE, target, where=_WHERE, value=_VALUE),
        ),
        kcat_variant(copies),
        copies.variant(_LOOP, lambda target: confluent_loop.copy(broker, SOURCE, target)),
        mirror_maker_variant(copies, stack),
        # A whole process is never warm.
        copies.variant(_WHOLE, whole, warm_up=False),
        copies.variant(_WHOLE_BY_HAND, whole_by_hand, warm_up=False),
    ]


def request_of(broker: KafkaBroker, source: str = SOURCE, **options: Any) -> CopyJob:
    """What the operator would submit to copy ``source``.

    :param options: of the operator, instead of its defaults.
    """
    with fresh_topic(broker, PARTITIONS) as target:
        arguments = {"topics": [source], "target_topic": target, **options}
        return airflow_task.request_of(airflow_task.BATCH, arguments)


def _limit(broker: KafkaBroker, spark: SparkSession) -> Callable[[str], None]:
    loop, request = java_loop.compiled(spark), request_of(broker, delivery="at_least_once")
    ends = {number: end for number, (_, end) in broker.offsets(SOURCE).items()}
    return lambda target: java_loop.copy(loop, spark, request, SOURCE, target, ends)


def copy_ours(spark: SparkSession, request: CopyJob, target: str, records: int) -> JobReport:
    """Copy by our job.

    :raises WrongCopyError: if its report does not count ``records`` records.
    """
    from airflow_provider_kafka_spark.jobs import batch
    from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

    report = batch.copy(SparkApplication(spark), replace(request, transform=replace(request.transform, topic=target)))
    if (report.records_read, report.records_written) != (records, records):
        raise WrongCopyError(f"The report must count {records:,} records; it says {report}.")
    return report


def kcat_variant(copies: Copies) -> Variant:
    """kcat, or a variant without a measurement where it cannot be installed."""
    program = kcat.find_kcat()
    if program is None:
        return unavailable(KCAT, "kcat is not installed")
    return copies.variant(KCAT, lambda target: kcat.copy(program, copies.broker, SOURCE, target))


def mirror_maker_variant(copies: Copies, stack: ExitStack) -> Variant:
    """MirrorMaker 2, which runs until ``stack`` ends."""
    emit("  starting MirrorMaker ...")
    mirror = stack.enter_context(MirrorMaker(copies.broker, copies.folder))
    suffix = f".{SOURCE}"
    return copies.variant(
        MIRROR_MAKER,
        lambda target: mirror.copy(target.removesuffix(suffix), SOURCE, PARTITIONS, copies.records),
        suffix=suffix,
    )


def _section(variants: list[Variant], copies: Copies, records: int, rounds: int) -> Section:
    by_name = {variant.name: variant for variant in variants}
    by_hand, ours = by_name[_BY_HAND], by_name[_OURS]
    rows = []
    for variant in variants:
        middle, extent = median_and_range(variant)
        if variant.missing is not None:
            rows.append([variant.name, middle, "", "", "", ""])
            continue
        rate = records / variant.median
        baseline = by_name[_WHOLE_BY_HAND] if variant.name in (_WHOLE, _WHOLE_BY_HAND) else by_hand
        headers = str(copies.headers[variant.name])
        rows.append(
            [variant.name, middle, extent, f"{rate:,.0f}", ratio_text(baseline.median, variant.median), headers]
        )
    others = [by_name[name] for name in (KCAT, _LOOP, MIRROR_MAKER) if by_name[name].missing is None]
    fastest = min(others, key=lambda variant: variant.median)
    return Section(
        "Bulk copy",
        f"{records:,} JSON orders of {mean_value_size():.0f} bytes on average, each with a key and 2 headers, from a "
        f"topic of {PARTITIONS} partitions into an empty one on the same broker. Median of {rounds_text(rounds)}. The "
        "ratio is the speed against the hand-written job, warm against warm and whole against whole. Headers: what a "
        "record at the target has.",
        ["Variant", "Seconds", "Range", "Records/s", "Ratio", "Headers"],
        rows,
        [
            Goal("Exactly once against the hand-written job, both warm", by_hand.median / ours.median, 1.9, True),
            Goal(
                "At least once against the hand-written job, both warm",
                by_hand.median / by_name[_AT_LEAST_ONCE].median,
                2.2,
                True,
            ),
            Goal(
                "At least once against the limit", by_name[_LIMIT].median / by_name[_AT_LEAST_ONCE].median, 0.85, True
            ),
            Goal(
                "SQL, exactly once, against the same SQL in the hand-written job",
                by_name[_SQL_BY_HAND].median / by_name[_SQL].median,
                1.5,
                True,
            ),
            Goal(
                f"Exactly once against the fastest other tool ({fastest.name})",
                fastest.median / ours.median,
                1.0,
                True,
            ),
        ],
    )
