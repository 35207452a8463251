"""Which topics ``target_topic_expr`` leads to, and whether they take the records: known before the first write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import is_topic_name
from airflow_provider_kafka_spark.core.records.expressions import expanded
from airflow_provider_kafka_spark.core.records.topic_map import mapped
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, Transform
from airflow_provider_kafka_spark.jobs.computed_rows import as_computed
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin
from airflow_provider_kafka_spark.jobs.local_table import local_table
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_TOPICS = 1_000


def find_targets(
    spark: SparkApplication, request: CopyJob, admin: KafkaAdmin, selected_records: Callable[[], DataFrame]
) -> tuple[str, ...]:
    """Every topic that records will go to; each of those that ``target_topic_expr`` leads to can take them.

    An expression over ``topic`` and ``partition`` alone is evaluated on the plan. Any other one is evaluated on every
    record, in a pass of its own, since a null in the middle of the copy would fail it after other records went out.

    :param admin: of the target's cluster.
    :param selected_records: the records to be copied.
    :raises TargetError: if the expression gives null for a record, or more than a thousand topics, or one that is being
        read, does not exist, or has too few partitions for ``preserve_partition``.
    """
    from pyspark.errors import PySparkException

    transform = request.transform
    if transform.targets:
        # Before the first write.
        mapped([r.topic for r in request.ranges] if transform.topic_map else (), transform.topic_map)
        return transform.targets
    partitions = ((p.topic, p.partition) for p in request.ranges.without_empty().topic_partitions)
    planned = local_table(spark.session, {"topic": "string", "partition": "int"}, partitions)

    def routes_of_records() -> dict[str | None, int]:
        return _routes(as_computed(_leads_to(selected_records(), transform)))

    try:
        routes, by_plan = _routes(_leads_to(planned, transform)), True
    except PySparkException:
        routes, by_plan = routes_of_records(), False
    dead: dict[str | None, int] = {} if transform.dead_letter_topic is None else {transform.dead_letter_topic: 0}
    try:
        _check(admin, request, {**dead, **routes})
    except TargetError:
        if not (by_plan and transform.drops_records):
            raise
        # Perhaps only for records that are not selected.
        routes = routes_of_records()
        _check(admin, request, {**dead, **routes})
    if routes.keys() & dead.keys():
        raise TargetError(
            f"target_topic_expr must not lead to the dead-letter topic; some records go to "
            f"{transform.dead_letter_topic!r}. Choose another dead_letter_topic."
        )
    return tuple(sorted(name for name in (*routes, *dead) if name is not None))


def _leads_to(records: DataFrame, transform: Transform) -> DataFrame:
    from pyspark.sql import functions as F

    return records.select(F.expr(expanded(transform.topic_expr or "null")).alias("target"), "partition")


def _routes(chosen: DataFrame) -> dict[str | None, int]:
    """For each target topic, the highest source partition that leads to it."""
    from pyspark.sql import functions as F

    found = chosen.groupBy("target").agg(F.max("partition").alias("highest")).limit(_MAX_TOPICS + 1)
    return {row["target"]: row["highest"] for row in found.collect()}


def _check(admin: KafkaAdmin, request: CopyJob, routes: Mapping[str | None, int]) -> None:
    expression = f"target_topic_expr={request.transform.topic_expr!r}"
    if None in routes:
        raise TargetError(
            f"target_topic_expr must give a topic for every record; {expression} gives null for some. "
            f"Use coalesce(..., '<a topic for the rest>'), or leave those records out with where."
        )
    if len(routes) > _MAX_TOPICS:
        raise TargetError(f"{expression} gives more than {_MAX_TOPICS} different topics; is it the right column?")
    needed = {name: highest + 1 for name, highest in sorted(routes.items()) if name is not None}
    into_source = sorted(needed.keys() & set(request.forbidden_targets))
    if into_source:
        raise TargetError(
            f"{expression} leads back into {into_source}, which is being read. "
            f"Correct it, or pass allow_same_topic=True."
        )
    counts = {name: topic.partitions for name, topic in admin.describe(needed).items()}
    missing = [name for name in needed if name not in counts]
    if missing:
        names = [name for name in missing if is_topic_name(name)]
        # What is no name may be anything of a record.
        others = f", and {len(missing) - len(names):,} texts that are no name of a topic" if names != missing else ""
        raise TargetError(
            f"{expression} leads to topics that do not exist, or that the login of the target may not see: "
            f"{names[:10]}{others}. Create them first; or grant it WRITE on them."
        )
    small = [f"{name!r} needs {count}, has {counts[name]}" for name, count in needed.items() if count > counts[name]]
    if request.transform.preserve_partition and small:
        raise TargetError(
            f"preserve_partition=True needs in each target topic the partitions that its records come from: "
            f"{'; '.join(small[:10])}. Add partitions, or pass preserve_partition=False."
        )
