"""What earlier tries of this run have delivered already, read back from the target by the provenance header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.offsets.offset_range import MAX_OFFSET, OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import fields_sql
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Delivered:
    """Source records found in the target.

    :param ranges: runs of consecutive source offsets, of which every one was found.
    :param duplicates: how many copies there are beyond the first of each.
    :param targets: where they are in the target, from the first to the last one of each partition, before and after the
        clear of what was proved, which is left out.
    :param lasts: the last offset of them in each partition of the targets.
    :param rejected: the part of ``ranges`` that was found in the dead-letter topic.
    """

    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    duplicates: int = 0
    targets: tuple[OffsetRange, ...] = ()
    lasts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    rejected: OffsetRanges = field(default_factory=OffsetRanges)


def find_delivered(
    spark: SparkSession,
    target_records: DataFrame,
    run_id: str,
    starts: Mapping[TopicPartition, int],
    proved: OffsetRanges,
    dead_letter_topic: str | None = None,
) -> Delivered:
    """Look in the target for records that this run has written.

    :param target_records: of the part of the target where they can be.
    :param starts: of the target's partitions: where the part begins that was written since a clear.
    :param proved: of the target: what the worker knows to be there is not in ``targets``.
    :param dead_letter_topic: one of the topics, for rejected records.
    """
    target_records.createOrReplaceTempView("_target")
    ours = spark.sql(
        f"""
        with found as (select topic, partition, offset, {fields_sql(run_id)} as f from _target)
        select * from found where f is not null
        """  # noqa: S608 - run_id is ours, and hexadecimal
    ).persist()
    try:
        return _summary(spark, ours, starts, proved, dead_letter_topic)
    finally:
        ours.unpersist()


def _summary(
    spark: SparkSession,
    ours: DataFrame,
    starts: Mapping[TopicPartition, int],
    proved: OffsetRanges,
    dead_letter_topic: str | None,
) -> Delivered:
    rejected = OffsetRanges()
    if dead_letter_topic is not None:
        rejected, _ = _islands(spark, ours.where(ours["topic"] == dead_letter_topic))
    ranges, duplicates = _islands(spark, ours)
    ours.createOrReplaceTempView("_ours")
    place = {"of_topic": "string", "of_partition": "int", "start": "bigint"}
    rows_of_starts = ((p.topic, p.partition, start) for p, start in starts.items())
    local_table(spark, place, rows_of_starts).createOrReplaceTempView("_starts")
    rows_of_proved = ((r.topic, r.partition, r.from_offset, r.until_offset) for r in proved)
    local_table(spark, {**place, "until": "bigint"}, rows_of_proved).createOrReplaceTempView("_proved")
    bounds = spark.sql(
        """
        with others as (
            select * from _ours left anti join _proved
            on topic = of_topic and partition = of_partition and offset >= start and offset < until
        )
        select topic, partition, min(offset) as first, max(offset) as last
        from others left join _starts on topic = of_topic and partition = of_partition
        group by topic, partition, offset >= coalesce(start, 0)
        """
    ).collect()
    ends = spark.sql("select topic, partition, max(offset) as last from _ours group by 1, 2").collect()
    targets = tuple(OffsetRange(row["topic"], row["partition"], row["first"], row["last"] + 1) for row in bounds)
    lasts = {(row["topic"], row["partition"]): row["last"] for row in ends}
    return Delivered(ranges, duplicates, targets, lasts, rejected)


def _islands(spark: SparkSession, ours: DataFrame) -> tuple[OffsetRanges, int]:
    """The source records of provenance headers as ranges, and how many copies there are beyond the first of each."""
    ours.createOrReplaceTempView("_ours")
    # Other writers of the target can write headers that look like ours: what names no record is none.
    # Gaps and islands: within a run of consecutive offsets, the offset less its rank stays the same.
    rows = spark.sql(
        f"""
        with parsed as (select get(f, 1) as topic, try_cast(get(f, 2) as int) as partition,
                               try_cast(get(f, 3) as bigint) as offset from _ours),
             each as (select topic, partition, offset, count(*) as copies from parsed
                      where length(topic) between 1 and 249 and topic not in ('.', '..')
                            and regexp_replace(topic, '[A-Za-z0-9._-]', '') = ''
                            and partition >= 0 and offset >= 0 and offset < {MAX_OFFSET} group by 1, 2, 3),
             ranked as (
                 select *, offset - row_number() over (partition by topic, partition order by offset) as island
                 from each
             )
        select topic, partition, min(offset) as first, max(offset) as last, sum(copies - 1) as extra
        from ranked group by topic, partition, island
        """  # noqa: S608 - a number
    ).collect()
    ranges = OffsetRanges(OffsetRange(row["topic"], row["partition"], row["first"], row["last"] + 1) for row in rows)
    return ranges, sum(row["extra"] for row in rows)
