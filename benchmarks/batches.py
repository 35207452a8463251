"""A bulk copy by record batches: our job both ways, and the tools that copy whole topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.batch_growth import measure_growth, measure_small
from benchmarks.bulk import (
    KCAT,
    MIRROR_MAKER,
    PARTITIONS,
    SOURCE,
    Copies,
    copy_ours,
    kcat_variant,
    mirror_maker_variant,
    request_of,
)
from benchmarks.environment import connect_to
from benchmarks.orders import mean_value_size, orders
from benchmarks.reading_ways import BY_BATCHES, BY_RECORD, UNCHANGED
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import fill, new_broker
from benchmarks.warm_spark import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT = "our job, record by record, its defaults"
_RECORDS = "our job, record by record"
_BYTES = 'our job, its defaults with `reader="batches"`: as bytes'
_BATCHES = "our job, batches passed on"
_SEGMENTS = 'our job, batches passed on, `provenance="segments"`'
_CHOSEN = "our job, as the writer chooses where nothing changes"
#: Settings of a producer whose batches are large.
_LARGE = {"batch.size": 256 * 1024, "linger.ms": 10_000}
_GOALS = (
    (_BYTES, _DEFAULT, 1.7),
    (_BYTES, KCAT, 1.3),
    (_BATCHES, _RECORDS, 2.0),
    (_BATCHES, _DEFAULT, 2.0),
    (_CHOSEN, KCAT, 1.8),
    (_BATCHES, MIRROR_MAKER, 2.0),
)


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Copy ``records`` orders in every way, and then smaller sources of other shapes both ways."""
    emit(f"Batches: {records:,} records, {rounds} rounds")
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        connect_to(broker.bootstrap_servers)
        spark = stack.enter_context(warm_session())
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        copies, client = Copies(broker, records, folder), _Client(spark)
        with ExitStack() as tools:
            variants = _variants(copies, client, tools)
            alternate(variants, rounds, limit=max(300.0, records / 5_000))
        broker.delete_topic(SOURCE)
        large = _measure_large(copies, client, rounds)
        growth = measure_growth(broker, spark, records, rounds, folder)
        return _section(variants, client, records, rounds, [large, *growth])


def measure_ways(records: int, rounds: int, folder: Path) -> Section:
    """Within minutes: the ways of our job and kcat, and small batches as bytes."""
    emit(f"Ways: {records:,} records, {rounds} rounds")
    with ExitStack() as stack:
        broker = stack.enter_context(new_broker())
        connect_to(broker.bootstrap_servers)
        spark = stack.enter_context(warm_session())
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        copies, client = Copies(broker, records, folder), _Client(spark)
        variants = _variants(copies, client, None)
        alternate(variants, rounds, limit=max(300.0, records / 5_000))
        broker.delete_topic(SOURCE)
        large = _measure_large(copies, client, rounds)
        small = measure_small(broker, spark, records, rounds, folder)
        return _section(variants, client, records, rounds, [large, small])


def _measure_large(copies: Copies, client: _Client, rounds: int) -> Section:
    """The same orders in large batches, which the writer passes on by itself."""
    broker, records = copies.broker, copies.records
    fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records, _LARGE)
    variants = [_ours(copies, client, _CHOSEN, **UNCHANGED), kcat_variant(copies)]
    alternate(variants, rounds, limit=max(300.0, records / 5_000))
    broker.delete_topic(SOURCE)
    rows = [[v.name, *median_and_range(v), "" if v.missing else f"{records / v.median:,.0f}"] for v in variants]
    ours, other = variants
    goals = [] if other.missing else [Goal(f"{ours.name} against {KCAT}", other.median / ours.median, 1.8, True)]
    return Section(
        "Large batches",
        f"The same orders in batches of 256 KiB before compression. Median of {rounds_text(rounds)}.",
        ["Variant", "Seconds", "Range", "Records/s"],
        rows,
        goals,
    )


def _ours(
    copies: Copies, client: _Client, name: str, copy: Callable[..., object] = copy_ours, **options: Any
) -> Variant:
    """Our job, with the request that the options ask for."""
    request = request_of(copies.broker, **options)
    return copies.variant(name, client.timed(name, lambda target: copy(client.spark, request, target, copies.records)))


class _Client:
    """The JVM of the Spark session, in which the local master's executor and all its Kafka clients run; remembers the
    CPU time of each copy."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._process = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
        if "java" not in self._process.name():
            raise RuntimeError(f"Spark's gateway must be a JVM; it is {self._process.name()!r}.")
        self._seconds: dict[str, list[float]] = {}

    def timed(self, name: str, copy: Callable[[str], object]) -> Callable[[str], None]:
        """``copy``, whose CPU time is remembered under a name."""

        def run(target: str) -> None:
            before = self._cpu_seconds()
            copy(target)
            self._seconds.setdefault(name, []).append(self._cpu_seconds() - before)

        return run

    def medians(self, variants: Sequence[Variant]) -> dict[str, float]:
        """CPU seconds of the measured rounds, by the names of the variants that run in this JVM."""
        # The warm-up comes first.
        found = {v.name: self._seconds[v.name][-len(v.seconds) :] for v in variants if v.name in self._seconds}
        return {name: median(seconds) for name, seconds in found.items()}

    def _cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def _variants(copies: Copies, client: _Client, tools: ExitStack | None) -> list[Variant]:
    return [
        _ours(copies, client, _DEFAULT),
        _ours(copies, client, _BYTES, reader="batches"),
        _ours(copies, client, _RECORDS, BY_RECORD.copy, **UNCHANGED),
        _ours(copies, client, _BATCHES, BY_BATCHES.copy, **UNCHANGED),
        _ours(copies, client, _SEGMENTS, BY_BATCHES.copy, **{**UNCHANGED, "provenance": "segments"}),
        _ours(copies, client, _CHOSEN, **UNCHANGED),
        kcat_variant(copies),
        *([] if tools is None else [mirror_maker_variant(copies, tools)]),
    ]


def _section(variants: list[Variant], client: _Client, records: int, rounds: int, growth: list[Section]) -> Section:
    by_name = {variant.name: variant for variant in variants}
    default = by_name[_DEFAULT]
    cpu = client.medians(variants)
    rows = []
    for variant in variants:
        middle, extent = median_and_range(variant)
        if variant.missing is not None:
            rows.append([variant.name, middle, *[""] * 5])
            continue
        seconds = cpu.get(variant.name)
        rows.append(
            [
                variant.name,
                middle,
                extent,
                f"{records / variant.median:,.0f}",
                ratio_text(default.median, variant.median),
                "" if seconds is None else f"{seconds / records * 1e6:.2f}",
                "" if seconds is None else ratio_text(seconds, cpu[_DEFAULT]),
            ]
        )
    return Section(
        "By batches",
        f"{records:,} JSON orders of {mean_value_size():.0f} bytes on average, each with a key and 2 headers, from a "
        f"topic of {PARTITIONS} partitions into an empty one on the same broker. Median of {rounds_text(rounds)}; all "
        "but kcat are warm, and our job is exactly once. The ratio is the speed against our job with its defaults. "
        "From the third on, ours have `preserve_partition=True` and no provenance header. CPU is that of the JVM of "
        "Spark's driver and executor, in µs for each record; the broker is another process.",
        ["Variant", "Seconds", "Range", "Records/s", "Ratio", "CPU/record", "CPU ratio"],
        rows,
        [
            *(
                Goal(f"{faster} against {other}", by_name[other].median / by_name[faster].median, ratio, True)
                for faster, other, ratio in _GOALS
                if other in by_name and by_name[other].missing is None
            ),
            *(
                Goal(f"CPU of the client by batches against {name}", cpu[_BATCHES] / cpu[name], 0.333, False)
                for name in (_RECORDS, _DEFAULT)
            ),
        ],
        parts=growth,
    )
