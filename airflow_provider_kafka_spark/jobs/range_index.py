"""Which planned range each record lies in; a record that lies in none is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.spans import Span
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGE_INDEX = "_range_index"
_SMALLEST_BLOCK, _LARGEST_BLOCK = 64, 1 << 20


def with_range_index(
    spark: SparkSession, records: DataFrame, spans: Sequence[Span], ranges: Mapping[OffsetRange, int]
) -> DataFrame:
    """Add ``_range_index``.

    Rows stay in their Spark partition and in their order.

    :param records: what ``spans`` were read into.
    :param ranges: the ranges to keep, each with its index; disjoint.
    """
    partitions = sorted({r.topic_partition for r in ranges})
    if len(partitions) == len(ranges) == len(spans) and all(span.ranges == 1 for span in spans):
        index = {r.topic_partition: number for r, number in ranges.items()}
        return records.selectExpr("*", f"{_by_partition_sql(index)} as {RANGE_INDEX}")
    return _join(spark, records, partitions, ranges)


def _join(
    spark: SparkSession, records: DataFrame, partitions: Sequence[TopicPartition], ranges: Mapping[OffsetRange, int]
) -> DataFrame:
    """Look a record's block of offsets up in a broadcast table, and compare with the few ranges that touch the block.

    A thousand comparisons per record, one for each range, would cost ten times as much.
    """
    from pyspark.sql import functions as F

    mean_size = sum(r.size for r in ranges) // len(ranges)
    block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, 1 << mean_size.bit_length()))
    number = {partition: i for i, partition in enumerate(partitions)}
    columns = {"_block": "bigint", "_from": "bigint", "_until": "bigint", RANGE_INDEX: "int"}
    table = local_table(spark, columns, _blocks(ranges, number, block))
    # One long as the key, so that Spark can use its hash map for longs.
    keyed = records.selectExpr(
        "*", f"shiftleft(bigint({_by_partition_sql(number)}), 44) + (offset div {block}) as _key"
    )
    found = keyed.join(
        F.broadcast(table),
        F.expr("_key = _block and offset >= _from and offset < _until"),
        "inner",
    )
    return found.drop("_key", "_block", "_from", "_until")


def _blocks(
    ranges: Mapping[OffsetRange, int], number: Mapping[TopicPartition, int], block: int
) -> Iterator[tuple[int, int, int, int]]:
    for r, index in ranges.items():
        for b in range(r.from_offset // block, (r.until_offset - 1) // block + 1):
            yield (number[r.topic_partition] << 44) + b, r.from_offset, r.until_offset, index


def _by_partition_sql(values: Mapping[TopicPartition, int]) -> str:
    """An expression that gives each partition its number, by a constant array for each topic."""
    topics = sorted({p.topic for p in values})
    branches = []
    for topic in topics:
        of_topic = {p.partition: value for p, value in values.items() if p.topic == topic}
        array = ", ".join(str(of_topic.get(i, -1)) for i in range(max(of_topic) + 1))
        branches.append((topic, f"get(array({array}), partition)"))
    if len(branches) == 1:
        return branches[0][1]
    cases = " ".join(f"when '{topic}' then {lookup}" for topic, lookup in branches)
    return f"case topic {cases} end"
