"""Which topics ``target_topic_expr`` leads to, and whether they can take the records; found out before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import Transform
from airflow_provider_kafka_spark.jobs.kafka_admin import kafka_admin
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_TOPICS = 1_000


def find_targets(
    spark: SparkSession, transform: Transform, ranges: OffsetRanges, kept_records: Callable[[], DataFrame]
) -> tuple[str, ...]:
    """Every topic that records will go to.

    An expression over ``topic`` and ``partition`` alone is evaluated on the plan. Any other one is evaluated on every record, in a pass of its own, since a null in the
    middle of the copy would fail it after other records went out.

    :raises TargetError: if the expression gives null for a record, or more than a thousand topics.
    """
    from pyspark.errors import PySparkException

    if transform.topic is not None:
        return (transform.topic,)
    expression = f"({transform.topic_expr}) as target"
    partitions = ((p.topic, p.partition) for p in ranges.without_empty().topic_partitions)
    planned = local_table(spark, {"topic": "string", "partition": "int"}, partitions)
    try:
        targets = planned.selectExpr(expression)
    except PySparkException:
        targets = kept_records().selectExpr(expression)
    found = {row["target"] for row in targets.distinct().limit(_MOST_TOPICS + 1).collect()}
    if None in found:
        raise TargetError(
            f"target_topic_expr must give a topic for every record; {transform.topic_expr!r} gives null for some. Use coalesce({transform.topic_expr}, "
            f"'<a topic for the rest>'), or leave those records out with where."
        )
    if len(found) > _MOST_TOPICS:
        raise TargetError(
            f"target_topic_expr={transform.topic_expr!r} gives more than {_MOST_TOPICS} different topics; is it the right column?"
        )
    return tuple(sorted(found))


def check_targets(
    spark: SparkSession,
    targets: Sequence[str],
    transform: Transform,
    ranges: OffsetRanges,
    sink_options: Mapping[str, str],
    forbidden: Sequence[str],
) -> None:
    """Refuse targets that the expression leads to and that cannot take the records.

    :param forbidden: topics that are being read, where writing into those is not allowed.
    :raises TargetError: if one is forbidden, does not exist, or has too few partitions for ``preserve_partition``.
    """
    into_source = sorted(set(targets) & set(forbidden))
    if into_source:
        raise TargetError(
            f"target_topic_expr={transform.topic_expr!r} leads back into {into_source}, which is being read. Correct it, or pass allow_same_topic=True."
        )
    with kafka_admin(spark, sink_options) as admin:
        partitions = admin.partition_counts(targets)
    missing = [name for name in targets if name not in partitions]
    if missing:
        raise TargetError(
            f"target_topic_expr={transform.topic_expr!r} leads to topics that do not exist, or that the login of the target may not see: {missing[:10]}. Create them first; or grant it WRITE on them."
        )
    needed = max((r.partition for r in ranges.without_empty()), default=-1) + 1
    small = {name: count for name, count in partitions.items() if count < needed}
    if transform.preserve_partition and small:
        raise TargetError(
            f"preserve_partition=True needs at least {needed} partitions in every target topic; these have fewer: {small}."
        )
