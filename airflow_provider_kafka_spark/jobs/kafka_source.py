"""Read exactly the planned offsets from Kafka: as Kafka's own records, or as rows where SQL is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition, by_topic
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, bundled, cut
from airflow_provider_kafka_spark.core.offsets.spans import tasks_of
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS
from airflow_provider_kafka_spark.core.wire.writer_messages import piece_text
from airflow_provider_kafka_spark.jobs.kafka_rdd import as_rows, read_tasks
from airflow_provider_kafka_spark.jobs.record_writer import in_range
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUBLIC_READER = (
    "Spark {} has no Kafka RDD as known to this package, so its public reader was used: slower, and each range is "
    "read by a Spark task of its own. Within each range the records are in order, between the ranges of a partition "
    "they may not be. The documentation on versions names those that have it."
)


@dataclass(frozen=True, slots=True)
class Source:
    """The records of the planned ranges.

    :param records: a ``JavaRDD`` of ``ConsumerRecord``, or None where this Spark has only its public reader. It may
        hold records between two ranges.
    :param public_rows: what the public reader gives, nothing between the ranges; None where there are records.
    :param tasks: the pieces that each Spark partition holds, in their order.
    :param has_gaps: whether there may be records between two ranges.
    :param warnings: what the author should know.
    """

    records: Any
    public_rows: DataFrame | None
    tasks: tuple[tuple[Piece, ...], ...]
    has_gaps: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that are to be copied, sorted."""
        return tuple(sorted((piece for task in self.tasks for piece in task), key=lambda piece: piece.spans))

    @property
    def has_bundles(self) -> bool:
        """Whether a Spark partition holds several pieces."""
        return any(len(task) > 1 for task in self.tasks)

    @property
    def offsets(self) -> int:
        """How many offsets the ranges have."""
        return sum(piece.offsets for piece in self.pieces)

    def rows(self, spark: SparkSession, *, headers: bool = True, beside_records: bool = False) -> DataFrame:
        """The records with the columns of Spark's Kafka source, and nothing between the ranges.

        :param headers: whether the column of headers is needed.
        :param beside_records: whether the writer gets the records as well; needs ``records``.
        """
        if self.public_rows is not None:
            return self.public_rows
        wanted = self.records
        if self.has_gaps:
            texts = [piece_text(piece, None) for (piece,) in self.tasks]
            wanted = wanted.filter(in_range(spark.sparkContext, texts))
        return as_rows(spark, wanted, headers=headers, beside_records=beside_records)


def open_source(
    spark: SparkApplication,
    ranges: Mapping[OffsetRange, int],
    spans: Sequence[OffsetRange],
    options: Mapping[str, str],
    topic_ids: Mapping[str, str],
    *,
    preserve_order: bool,
    is_of_stream: bool = False,
    bundles: bool = False,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> Source:
    """The records of ranges; nothing is read yet.

    Spark's own Kafka RDD takes any number of spans of a partition. Without it, each range is a load of the public
    reader, and the loads are united in their order.

    :param ranges: at least one, each with the index of the planned range that it lies in.
    :param spans: what to read of each partition; they cover the ranges.
    :param options: of the source, without the offsets.
    :param topic_ids: id of each topic, as far as it is known; a part of the pieces' names.
    :param is_of_stream: whether this is a batch of a stream.
    :param bundles: whether a Spark task may have several pieces; then there must be no rows.
    :param transaction_timeout_ms: of the writer's transactions, during which the source must not be waited for long.
    """
    pieces = cut(ranges, tasks_of(spans, preserve_order=preserve_order), topic_ids, is_of_stream=is_of_stream)
    tasks = bundled(pieces, spark.sparkContext.defaultParallelism) if bundles else tuple((piece,) for piece in pieces)
    read = [[span for piece in task for span in piece.spans] for task in tasks]
    records = read_tasks(spark, read, options, transaction_timeout_ms)
    if records is not None:
        has_gaps = sum(span.size for span in spans) > sum(r.size for r in ranges)
        return Source(records, None, tasks, has_gaps)
    loads = [_load_ranges(spark.session, {r.topic_partition: r}, options) for r in sorted(ranges)]
    rows = reduce(lambda above, below: above.unionAll(below), loads)
    warning = _PUBLIC_READER.format(spark.sparkContext.version)
    tasks = tuple((piece,) for piece in cut(ranges, [[r] for r in ranges], topic_ids))
    return Source(None, rows, tasks, warnings=(warning,))


def read_ranges(spark: SparkSession, ranges: Iterable[OffsetRange], options: Mapping[str, str]) -> DataFrame:
    """All records of ranges, at least one, in any order.

    A load of Spark's source takes one range of each partition.
    """
    loads: list[dict[TopicPartition, OffsetRange]] = []
    for r in ranges:
        free = next((load for load in loads if r.topic_partition not in load), None)
        if free is None:
            loads.append(free := {})
        free[r.topic_partition] = r
    rows = [_load_ranges(spark, load, options) for load in loads]
    return reduce(lambda above, below: above.unionAll(below), rows)


def _load_ranges(
    spark: SparkSession, ranges: Mapping[TopicPartition, OffsetRange], options: Mapping[str, str]
) -> DataFrame:
    starts = by_topic({p: r.from_offset for p, r in ranges.items()})
    position = {
        "assign": json.dumps({topic: list(map(int, offsets)) for topic, offsets in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(by_topic({p: r.until_offset for p, r in ranges.items()})),
    }
    # Spark leaves headers out by default.
    return spark.read.format("kafka").options(**options).options(includeHeaders="true", **position).load()
