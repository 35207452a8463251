"""From a source record to a target record: the author's SQL, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.protocol import Transform
from airflow_provider_kafka_spark.core.provenance import header_sql
from airflow_provider_kafka_spark.jobs.expressions import check_expression
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Whether a record passes ``where`` and the exact window.
KEEP = "_keep"
#: As Spark's connector names and types them (KafkaRecordToRowConverter).
SOURCE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
_HEADERS_TYPE = "array<struct<key: string, value: binary>>"
#: What the sink takes for each column (KafkaWriter.validateQuery).
_TYPES: Mapping[str, tuple[str, ...]] = {
    "where": ("boolean", "void"),
    "key": ("string", "binary", "void"),
    "value": ("string", "binary", "void"),
    "headers": ("array<struct<key:string,value:binary>>", "void"),
    "partition": ("int",),
    "target_topic_expr": ("string",),
}
_EXAMPLES = {
    "where": "partition = 0 and timestamp >= '2026-11-20'",
    "key": "upper(string(key))",
    "value": "regexp_replace(string(value), 'EUR', 'USD')",
    "headers": "filter(headers, h -> h.key <> 'internal')",
    "partition": "pmod(hash(key), 4)",
    "target_topic_expr": "concat(topic, '_copy')",
}


def check_expressions(spark: SparkSession, transform: Transform) -> None:
    """Compile every expression against the source columns.

    :raises ExpressionError: if one does not compile, has the wrong type, looks at more than the record, or would make
        more or fewer rows of one.
    """
    given = {"where": transform.where, **transform.columns, "target_topic_expr": transform.topic_expr}
    expressions = {name: sql for name, sql in given.items() if sql is not None}
    if not expressions:
        return
    empty = local_table(spark, SOURCE_COLUMNS)
    for name, sql in expressions.items():
        found = check_expression(spark, empty, name, sql, _EXAMPLES[name])
        if found not in _TYPES[name]:
            raise ExpressionError(
                f"{name} must be of type {' or '.join(_TYPES[name][:2])}, such as {_EXAMPLES[name]!r}; "
                f"got {sql!r}, which is of type {found}."
            )


def mark_kept(records: DataFrame, transform: Transform) -> DataFrame:
    """Add ``_keep``. It is computed once, so that what is counted is what is written."""
    from pyspark.sql import functions as F

    kept = F.lit(True) if transform.where is None else F.expr(transform.where)
    if transform.window_start_ms is not None:
        kept &= F.unix_millis("timestamp") >= transform.window_start_ms
    if transform.window_end_ms is not None:
        kept &= F.unix_millis("timestamp") < transform.window_end_ms
    return records.select("*", F.coalesce(kept, F.lit(False)).alias(KEEP))


def to_target(records: DataFrame, transform: Transform, run_id: str) -> DataFrame:
    """The columns that Spark's Kafka sink writes."""
    from pyspark.sql import functions as F

    columns = transform.columns
    # The casts give a type to an expression that is plainly null.
    selected = [F.expr(columns.get(name, name)).cast("binary").alias(name) for name in ("key", "value")]
    if (headers := _headers(transform, run_id)) is not None:
        selected.append(headers.alias("headers"))
    if transform.preserve_partition or "partition" in columns:
        selected.append(F.expr(columns.get("partition", "partition")).alias("partition"))
    selected.append(
        (F.lit(transform.topic) if transform.topic_expr is None else F.expr(transform.topic_expr)).alias("topic")
    )
    return records.select(*selected)


def _headers(transform: Transform, run_id: str) -> Column | None:
    from pyspark.sql import functions as F

    sql = transform.columns.get("headers", "headers" if transform.include_headers else None)
    kept = None if sql is None else F.expr(sql).cast(_HEADERS_TYPE)
    if not transform.provenance_headers:
        return kept
    none = F.array().cast(_HEADERS_TYPE)
    # Spark gives null, not an empty array, for a record without headers.
    before = none if kept is None else F.coalesce(kept, none)
    return F.concat(before, F.array(F.expr(header_sql(run_id))))
