"""Read exactly the planned spans from Kafka: explicit partitions, explicit offsets, as many spans of one partition as there are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.spans import Span, tasks_of
from airflow_provider_kafka_spark.jobs.kafka_rdd import read_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_UNORDERED = (
    "Spark {} has no Kafka RDD as known to this package, so each span of offsets was read by a Spark task of its own: "
    "within each span the records are in order, between the spans of a partition they may not be. To keep that order, "
    "use a Spark version that docs/versions.md names, or at most one range for each partition."
)
_V1_SOURCES = "spark.sql.sources.useV1SourceList"


@contextmanager
def kafka_by_v2(spark: SparkSession) -> Iterator[None]:
    """Let Spark's DataSource V2 read and write Kafka in a batch, as it does in a stream.

    By default a batch goes by V1, which turns every record into a ``Row`` and back, at about half the speed, and whose writer never reports observed metrics: waiting for them would
    hang.
    """
    before = spark.conf.get(_V1_SOURCES)
    spark.conf.set(_V1_SOURCES, ",".join(name for name in str(before).split(",") if name.strip().lower() != "kafka"))
    try:
        yield
    finally:
        spark.conf.set(_V1_SOURCES, str(before))


def read_spans(
    spark: SparkSession, spans: Sequence[Span], options: Mapping[str, str], *, preserve_order: bool = True
) -> tuple[DataFrame, tuple[str, ...]]:
    """All records in the spans, with Spark's Kafka columns and headers; one Spark partition per task of ``tasks_of``.

    They are read through Spark's own Kafka RDD where this Spark has it as known: it takes any number of spans of a
    partition, and 10 % less CPU. Else by the public way: one load can hold one range of each partition, so the k-th
    span of every partition goes into layer k, and the layers are united; each span is then a task of its own, at some
    40 ms for each layer.

    :param spans: at least one; within a partition they do not overlap.
    :param options: of the source, without the offsets.
    :return: the records, and a warning where their order between spans is not kept.
    """
    tasks = tasks_of(spans, preserve_order=preserve_order)
    records = read_tasks(spark, tasks, options)
    if records is not None:
        return records, ()
    loads = [_load_layer(spark, layer, options) for layer in _layers(spans)]
    united = reduce(lambda above, below: above.unionAll(below), loads)
    return united, (_UNORDERED.format(spark.version),) if any(len(task) > 1 for task in tasks) else ()


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


def read_since(spark: SparkSession, topics: Iterable[str], since_ms: int, options: Mapping[str, str]) -> DataFrame:
    """All records of topics from a time on.

    :param since_ms: in ms since 1970.
    """
    return _load(
        spark,
        options,
        subscribe=",".join(topics),
        startingTimestamp=str(since_ms),
        # A partition without newer records has nothing of ours; the default would fail the query for it.
        startingOffsetsByTimestampStrategy="latest",
        endingOffsets="latest",
    )


def _layers(spans: Iterable[Span]) -> list[list[Span]]:
    layers: list[list[Span]] = []
    for _, of_partition in groupby(sorted(spans), key=lambda span: (span.topic, span.partition)):
        for depth, span in enumerate(of_partition):
            if depth == len(layers):
                layers.append([])
            layers[depth].append(span)
    return layers


def _load_layer(spark: SparkSession, layer: Sequence[Span], options: Mapping[str, str]) -> DataFrame:
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
