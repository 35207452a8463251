"""From a source record to a target record: the author's SQL, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.protocol import Transform
from airflow_provider_kafka_spark.core.provenance import header_sql
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    :raises ExpressionError: if one does not compile, has the wrong type, or would make more or fewer rows of one.
    """
    expressions = _expressions(transform)
    if not expressions:
        return
    empty = local_table(spark, SOURCE_COLUMNS)
    for name, expression in expressions.items():
        _check(empty, name, expression)


def _expressions(transform: Transform) -> dict[str, str]:
    given = {"where": transform.where, **transform.columns, "target_topic_expr": transform.topic_expr}
    return {name: expression for name, expression in given.items() if expression is not None}


def _check(empty: DataFrame, name: str, expression: str) -> None:
    from pyspark.errors import PySparkException

    where = f"{name}={expression!r}"
    example = f"such as {_EXAMPLES[name]!r}"
    try:
        checked = empty.selectExpr("*", f"({expression}) as _checked")
    except PySparkException as error:
        first_line = str(error).strip().splitlines()[0]
        raise ExpressionError(
            f"{name} must be an SQL expression over the source columns ({', '.join(empty.columns)}), {example}; {where} does not compile: {first_line}"
        ) from error
    found = checked.schema["_checked"].dataType.simpleString()
    if found not in _TYPES[name]:
        raise ExpressionError(
            f"{name} must be of type {' or '.join(_TYPES[name][:2])}, {example}; {where} is of type {found}."
        )
    before, after = _analyzed_plan(empty), _analyzed_plan(checked)
    for operator in ("Generate ", "Window ", "Aggregate "):
        if after.count(operator) > before.count(operator):
            raise ExpressionError(
                f"{name} must make one value of one record, {example}; {where} looks at several records or makes several (a generator, a window or an aggregate)."
            )


def _analyzed_plan(table: DataFrame) -> str:
    return str(table._jdf.queryExecution().analyzed().toString())


def mark_kept(records: DataFrame, transform: Transform) -> DataFrame:
    """Add ``_keep``. It is computed once, so that a predicate such as ``rand() < 0.1`` is counted as it is applied."""
    conditions = [] if transform.where is None else [f"({transform.where})"]
    if transform.window_start_ms is not None:
        conditions.append(f"unix_millis(timestamp) >= {transform.window_start_ms}")
    if transform.window_end_ms is not None:
        conditions.append(f"unix_millis(timestamp) < {transform.window_end_ms}")
    return records.selectExpr("*", f"coalesce({' and '.join(conditions) or 'true'}, false) as {KEEP}")


def to_target(records: DataFrame, transform: Transform, run_id: str) -> DataFrame:
    """The columns that Spark's Kafka sink writes."""
    columns = transform.columns
    # The casts give a type to an expression that is plainly null.
    selected = [f"cast(({columns.get(name, name)}) as binary) as {name}" for name in ("key", "value")]
    if headers := _headers_sql(transform, run_id):
        selected.append(f"{headers} as headers")
    if transform.preserve_partition or "partition" in columns:
        selected.append(f"({columns.get('partition', 'partition')}) as partition")
    selected.append(f"({transform.topic_expr or _literal(transform.topic or '')}) as topic")
    return records.selectExpr(*selected)


def _headers_sql(transform: Transform, run_id: str) -> str | None:
    kept = transform.columns.get("headers", "headers" if transform.include_headers else None)
    if not transform.provenance_headers:
        return None if kept is None else f"cast(({kept}) as {_HEADERS_TYPE})"
    # Spark gives null, not an empty array, for a record without headers.
    before = (
        f"coalesce(({kept}), cast(array() as {_HEADERS_TYPE}))"
        if kept is not None
        else f"cast(array() as {_HEADERS_TYPE})"
    )
    return f"concat({before}, array({header_sql(run_id)}))"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
