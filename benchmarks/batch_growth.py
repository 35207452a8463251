"""The three ways of our job to copy records: over the size of records, of batches, and over compression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.spark.tuning import source_defaults
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks.bulk import PARTITIONS, Copies, copy_ours, request_of
from benchmarks.orders import cut_orders
from benchmarks.reading_ways import AS_BYTES, BY_BATCHES, BY_RECORD, UNCHANGED, Way
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Section, ratio_text, rounds_text
from benchmarks.topics import WrongCopyError, fill, fresh_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE, _KIB = "growth", 1024
#: More rounds would take longer and say the same.
_MAX_ROUNDS = 3
#: Of a source, before compression: at most, and for each record of the bulk copy, so that a trial is short.
_MAX_BYTES, _BYTES_PER_RECORD = 200_000_000, 100
#: Of a set number of records each, which take longer than their bytes do.
_MAX_BATCHES = 20_000
#: Of the key, both headers and the format, in each record.
_BESIDE_VALUE = 60
_LIMIT_SECONDS, _NODE = 120.0, 1


@dataclass(frozen=True)
class _Source:
    """What a topic is filled with.

    :param value_bytes: of each record.
    :param batch_bytes: of a batch, before compression, as the producer counts them.
    :param batch_records: of a batch, or None for as many as fit.
    :param compression: of the producer.
    """

    value_bytes: int = 200
    batch_bytes: int = 64 * _KIB
    batch_records: int | None = None
    compression: str = "lz4"

    def records_within(self, size: int) -> int:
        """How many records to write, at most ``size`` bytes, as many for each partition."""
        found = size // (self.value_bytes + _BESIDE_VALUE)
        if self.batch_records is not None:
            found = min(found, self.batch_records * _MAX_BATCHES)
        return max(found // PARTITIONS, 1) * PARTITIONS

    def producer_config(self) -> dict[str, Any]:
        """Settings by which a librdkafka producer fills each batch before it sends it."""
        count = {} if self.batch_records is None else {"batch.num.messages": self.batch_records}
        return {
            "batch.size": self.batch_bytes,
            "compression.type": self.compression,
            "linger.ms": 10_000,
            **count,
        }

    def check_batches(self, records: int, batches: int) -> None:
        """:raises WrongCopyError: if the batches do not have the wanted size, but for the last one of a partition."""
        in_batch = self.batch_records or self.batch_bytes / (self.value_bytes + _BESIDE_VALUE)
        wanted = PARTITIONS * math.ceil(records / PARTITIONS / in_batch)
        # How many bytes a record takes is an estimate.
        if not 0.75 * wanted <= batches <= 1.25 * wanted + PARTITIONS:
            raise WrongCopyError(f"{records:,} records of {self} must be in about {wanted:,} batches, not {batches:,}.")


@dataclass(frozen=True)
class _Copied:
    """What was measured of one source.

    :param log_bytes: of the whole topic in the broker's log.
    :param passes_batches: whether the writer itself chose to pass batches on.
    :param rates: records per second, by way.
    """

    records: int
    batches: int
    log_bytes: int
    passes_batches: bool
    rates: Mapping[Way, float]

    def cells(self) -> list[str]:
        return [
            f"{self.records / self.batches:,.0f}",
            f"{self.log_bytes / self.batches / _KIB:,.1f}",
            *(f"{self.rates[way]:,.0f}" for way in _WAYS),
            *(ratio_text(self.rates[way], self.rates[BY_RECORD]) for way in _WAYS[:-1]),
            BY_BATCHES.name if self.passes_batches else AS_BYTES.name,
        ]


_BASE = _Source()
_SIZES = {text: _Source(size) for text, size in {"100 B": 100, "200 B": 200, "1 KB": 1_000, "10 KB": 10_000}.items()}
_BATCHES = {
    "16 KiB": _Source(batch_bytes=16 * _KIB),
    "64 KiB": _BASE,
    "256 KiB": _Source(batch_bytes=256 * _KIB),
    # A broker takes no more by default.
    "1 MB": _Source(batch_bytes=1_000_000),
}
_SMALL = {str(number): _Source(batch_records=number) for number in (1, 4, 16, 64)}
_COMPRESSIONS = {name: _Source(compression=name) for name in ("none", "lz4", "zstd")}
#: That which the others are compared with is the last.
_WAYS = (BY_BATCHES, AS_BYTES, BY_RECORD)


def measure_growth(broker: KafkaBroker, spark: SparkSession, records: int, rounds: int, folder: Path) -> list[Section]:
    """Copy sources of many shapes in each way, one after the other.

    :param spark: a session in which all ways are warm.
    :param records: of the bulk copy; with less than 2,000,000 the sources are smaller.
    """
    growth = _Growth(broker, spark, min(_MAX_BYTES, records * _BYTES_PER_RECORD), min(rounds, _MAX_ROUNDS), folder)
    return [
        growth.section("By size of records", "Value", _SIZES),
        growth.section("By size of batches", "Batch", _BATCHES),
        growth.section("Small batches", "Records of a batch", _SMALL, _break_even),
        growth.section("By compression", "Compression", _COMPRESSIONS),
    ]


def measure_small(broker: KafkaBroker, spark: SparkSession, records: int, rounds: int, folder: Path) -> Section:
    """Copy a source of batches of 16 records in each way."""
    growth = _Growth(broker, spark, min(_MAX_BYTES, records * _BYTES_PER_RECORD), min(rounds, _MAX_ROUNDS), folder)
    return growth.section("Small batches", "Records of a batch", {"16": _SMALL["16"]})


class _Growth:
    """Copies of one source after the other.

    :param size: bytes of a source at most.
    """

    def __init__(self, broker: KafkaBroker, spark: SparkSession, size: int, rounds: int, folder: Path) -> None:
        self._broker = broker
        self._spark = spark
        self._size = size
        self._rounds = rounds
        self._folder = folder
        self._copied: dict[_Source, _Copied] = {}

    def section(
        self,
        title: str,
        label: str,
        sources: Mapping[str, _Source],
        note: Callable[[Sequence[_Copied]], str] | None = None,
    ) -> Section:
        """Copy each source in all ways, for a table and a plot; what was measured already is not measured again."""
        for source in sources.values():
            if source not in self._copied:
                self._copied[source] = self._copy(source)
        copied = {name: self._copied[source] for name, source in sources.items()}
        return Section(
            title,
            f"Values of {_BASE.value_bytes} bytes, batches of {_BASE.batch_bytes // _KIB} KiB before compression, and "
            f"{_BASE.compression}, but for what the first column says. Sources of at most {self._size / 1e6:.0f} MB, "
            f"median of {rounds_text(self._rounds)}.",
            [
                label,
                "Records/batch",
                "KiB/batch",
                *(f"{way.name.capitalize()}, records/s" for way in _WAYS),
                *(f"Ratio {way.name}" for way in _WAYS[:-1]),
                "The writer chooses",
            ],
            [[name, *one.cells()] for name, one in copied.items()],
            notes=[*([] if note is None else [note(list(copied.values())), ""]), *_chart(title, label, copied)],
        )

    def _copy(self, source: _Source) -> _Copied:
        records = source.records_within(self._size)
        emit(f"Batches: {source}")
        values = cut_orders(records, PARTITIONS, source.value_bytes)
        fill(self._broker, _SOURCE, PARTITIONS, values, records, source.producer_config())
        try:
            copies, request = Copies(self._broker, records, self._folder), self._request()
            passed: list[int] = []
            variants = {way: self._variant(copies, way, request, passed) for way in _WAYS}
            with fresh_topic(self._broker, PARTITIONS) as target:
                chosen = copy_ours(self._spark, request, target, records).batches_passed > 0
            alternate(list(variants.values()), self._rounds, _LIMIT_SECONDS)
            batches = max(passed)
            source.check_batches(records, batches)
            rates = {way: records / variant.median for way, variant in variants.items()}
            return _Copied(records, batches, self._log_bytes(), chosen, rates)
        finally:
            self._broker.delete_topic(_SOURCE)

    def _request(self) -> CopyJob:
        """With the fetches of long ranges, although some sources have few offsets."""
        request = request_of(self._broker, _SOURCE, **UNCHANGED)
        return replace(request, source_options={**request.source_options, **source_defaults((), read_committed=True)})

    def _variant(self, copies: Copies, way: Way, request: CopyJob, passed: list[int]) -> Variant:
        def copy(target: str) -> None:
            passed.append(way.copy(self._spark, request, target, copies.records).batches_passed)

        return copies.variant(way.name, copy)

    def _log_bytes(self) -> int:
        """Bytes of the source in the log of the only broker."""
        jvm: Any = self._spark.sparkContext._jvm
        config = jvm.java.util.HashMap()
        config.put("bootstrap.servers", self._broker.bootstrap_servers)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(config)
        try:
            (brokers,) = admin.describeLogDirs([_NODE]).allDescriptions().get().values()
            replicas = [each for folder in brokers.values() for each in folder.replicaInfos().items()]
            return sum(info.size() for partition, info in replicas if partition.topic() == _SOURCE)
        finally:
            admin.close()


def _break_even(small: Sequence[_Copied]) -> str:
    """From how many records of a batch on it is faster to pass it on than to copy it as bytes."""
    points = [(one.records / one.batches, one.rates[BY_BATCHES] / one.rates[AS_BYTES]) for one in small]
    if points[0][1] >= 1:
        return "Passing batches on is faster at every size."
    for (below, slower), (above, faster) in pairwise(points):
        if faster >= 1:
            part = -math.log(slower) / (math.log(faster) - math.log(slower))
            found = below * (above / below) ** part
            return f"Passing batches on is faster than as bytes from about {found:.0f} records (interpolated)."
    return "Passing batches on is slower at every size."


def _chart(title: str, label: str, copied: Mapping[str, _Copied]) -> list[str]:
    def rates(way: Way) -> str:
        return ", ".join(f"{one.rates[way]:.0f}" for one in copied.values())

    return [
        "```mermaid",
        "xychart-beta",
        f'    title "{title}: records per second, bars passed on and as bytes, line record by record"',
        f'    x-axis "{label}" [{", ".join(f"{chr(34)}{name}{chr(34)}" for name in copied)}]',
        f"    bar [{rates(BY_BATCHES)}]",
        f"    bar [{rates(AS_BYTES)}]",
        f"    line [{rates(BY_RECORD)}]",
        "```",
    ]
