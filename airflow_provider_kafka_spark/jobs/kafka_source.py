"""Read exactly the planned offsets from Kafka: as Kafka's own records, or as rows where SQL is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.spans import tasks_of
from airflow_provider_kafka_spark.jobs.kafka_rdd import as_rows, read_tasks
from airflow_provider_kafka_spark.jobs.record_writer import in_range, range_table
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUBLIC_READER = (
    "Spark {} has no Kafka RDD as known to this package, so its public reader was used: slower, and each range is "
    "read by a Spark task of its own. Within each range the records are in order, between the ranges of a partition "
    "they may not be. docs/reference/versions.md names the Spark versions that have it."
)


@dataclass(frozen=True, slots=True)
class Source:
    """The records of the planned ranges.

    :param records: a ``JavaRDD`` of ``ConsumerRecord``, or None where this Spark has only its public reader. It may
        hold records between two ranges.
    :param public_rows: what the public reader gives, nothing between the ranges; None where there are records.
    :param table: the ranges, as the writer reads them.
    :param has_gaps: whether there may be records between two ranges.
    :param warnings: what the author should know.
    """

    records: Any
    public_rows: DataFrame | None
    table: str
    has_gaps: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def offsets(self) -> int:
        """How many offsets the ranges have."""
        return sum(int(until) - int(start) for _, _, start, until, *_ in map(str.split, self.table.splitlines()))

    @property
    def task_names(self) -> list[str]:
        return sorted({line.rpartition(" ")[2] for line in self.table.splitlines()})

    def rows(self, spark: SparkSession, *, headers: bool = True, beside_records: bool = False) -> DataFrame:
        """The records with the columns of Spark's Kafka source, and nothing between the ranges.

        :param headers: whether the column of headers is needed.
        :param beside_records: whether the writer gets the records as well; needs ``records``.
        """
        if self.public_rows is not None:
            return self.public_rows
        wanted = self.records.filter(in_range(spark.sparkContext, self.table)) if self.has_gaps else self.records
        return as_rows(spark, wanted, headers=headers, beside_records=beside_records)


def open_source(
    spark: SparkApplication,
    ranges: Mapping[OffsetRange, int],
    spans: Sequence[OffsetRange],
    options: Mapping[str, str],
    topic_ids: Mapping[str, str],
    *,
    preserve_order: bool,
) -> Source:
    """The records of ranges; nothing is read yet.

    Spark's own Kafka RDD takes any number of spans of a partition. Without it, one load of the public reader can hold
    one range of each partition, so the k-th range of every partition goes into layer k, and the layers are united.

    :param ranges: at least one, each with the index of the planned range that it lies in.
    :param spans: what to read of each partition; they cover the ranges.
    :param options: of the source, without the offsets.
    :param topic_ids: id of each topic, as far as it is known; a part of the tasks' names.
    """
    tasks = tasks_of(spans, preserve_order=preserve_order)
    records = read_tasks(spark, tasks, options)
    if records is not None:
        has_gaps = sum(span.size for span in spans) > sum(r.size for r in ranges)
        return Source(records, None, range_table(ranges, tasks, topic_ids), has_gaps)
    loads = [_load_layer(spark.session, layer, options) for layer in _layers(ranges)]
    rows = reduce(lambda above, below: above.unionAll(below), loads)
    table = range_table(ranges, [[r] for r in ranges], topic_ids)
    return Source(None, rows, table, warnings=(_PUBLIC_READER.format(spark.sparkContext.version),))


def read_from(spark: SparkSession, starts: Mapping[str, Mapping[str, int]], options: Mapping[str, str]) -> DataFrame:
    """All records of partitions from an offset on.

    :param starts: offsets by topic and partition.
    """
    assign = {topic: sorted(map(int, offsets)) for topic, offsets in starts.items()}
    return _load(
        spark,
        options,
        assign=json.dumps(assign, sort_keys=True),
        startingOffsets=json.dumps(starts, sort_keys=True),
        endingOffsets="latest",
    )


def read_since(
    spark: SparkSession, topics: Iterable[str], since_ms: int | None, options: Mapping[str, str]
) -> DataFrame:
    """All records of topics from a time on.

    :param since_ms: in ms since 1970; None for all.
    """
    start = {"startingOffsets": "earliest"}
    if since_ms is not None:
        # A partition without newer records has nothing of ours; the default would fail the query for it.
        start = {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    return _load(spark, options, subscribe=",".join(topics), endingOffsets="latest", **start)


def _layers(spans: Iterable[OffsetRange]) -> list[list[OffsetRange]]:
    layers: list[list[OffsetRange]] = []
    for _, of_partition in groupby(sorted(spans), key=lambda span: span.topic_partition):
        for depth, span in enumerate(of_partition):
            if depth == len(layers):
                layers.append([])
            layers[depth].append(span)
    return layers


def _load_layer(spark: SparkSession, layer: Sequence[OffsetRange], options: Mapping[str, str]) -> DataFrame:
    assign: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for span in layer:
        assign.setdefault(span.topic, []).append(span.partition)
        starts.setdefault(span.topic, {})[str(span.partition)] = span.from_offset
        ends.setdefault(span.topic, {})[str(span.partition)] = span.until_offset
    return _load(
        spark,
        options,
        assign=json.dumps(assign, sort_keys=True),
        startingOffsets=json.dumps(starts, sort_keys=True),
        endingOffsets=json.dumps(ends, sort_keys=True),
    )


def _load(spark: SparkSession, options: Mapping[str, str], **position: str) -> DataFrame:
    """What is at a position of Kafka, as Spark's options name it; with headers, which Spark leaves out by default."""
    return spark.read.format("kafka").options(**options).options(includeHeaders="true", **position).load()
