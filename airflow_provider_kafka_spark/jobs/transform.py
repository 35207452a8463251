"""From a source record to a target record: the author's SQL, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.records.expressions import SOURCE_COLUMNS, expanded
from airflow_provider_kafka_spark.core.records.record_filter import bytes_of
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.jobs.expressions import check_expression
from airflow_provider_kafka_spark.jobs.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Whether a record passes ``where`` and the exact window.
SELECTED = "_selected"
#: Why a selected record goes to the dead-letter topic; null if it does not.
REJECTED = "_rejected"
#: What the writer takes for each column.
_TYPES: Mapping[str, tuple[str, ...]] = {
    "where": ("boolean", "void"),
    "key": ("string", "binary", "void"),
    "value": ("string", "binary", "void"),
    "headers": ("array<struct<key:string,value:binary>>", "void"),
    "partition": ("int",),
    "target_topic_expr": ("string",),
    "reject_when": ("boolean", "string", "void"),
}
_EXAMPLES = {
    "where": "partition = 0 and timestamp >= '2026-11-20'",
    "key": "upper(string(key))",
    "value": "regexp_replace(string(value), 'EUR', 'USD')",
    "headers": "filter(headers, h -> h.key <> 'internal')",
    "partition": "pmod(hash(key), 4)",
    "target_topic_expr": "concat(topic, '_copy')",
    "reject_when": "try_cast(string(value) as int) is null",
}


def check_expressions(spark: SparkSession, transform: Transform) -> None:
    """Compile every expression against the source columns.

    :raises ExpressionError: if one does not compile, has the wrong type, looks at more than the record, or would make
        more or fewer rows of one.
    """
    others = {"target_topic_expr": transform.topic_expr, "reject_when": transform.reject_when}
    given = {"where": transform.where, **transform.columns, **others}
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


def mark_selected(records: DataFrame, transform: Transform) -> DataFrame:
    """Add ``_selected``. It is computed once, so that what is counted is what is written."""
    from pyspark.sql import functions as F

    selected = _has_wanted_key(transform) & _has_wanted_headers(transform)
    if transform.where is not None:
        # Only for the others: it may fail on a record that is not wanted.
        selected = F.when(selected, F.expr(expanded(transform.where)))
    if transform.window_start_ms is not None:
        selected &= F.unix_millis("timestamp") >= transform.window_start_ms
    if transform.window_end_ms is not None:
        selected &= F.unix_millis("timestamp") < transform.window_end_ms
    return records.select("*", F.coalesce(selected, F.lit(False)).alias(SELECTED))


def _has_wanted_key(transform: Transform) -> Column:
    from pyspark.sql import functions as F

    return F.lit(True) if transform.keys is None else _is_one_of(F.col("key"), transform.keys)


def _has_wanted_headers(transform: Transform) -> Column:
    from pyspark.sql import functions as F

    found = F.lit(True)
    for name, wanted in transform.headers.items():
        found &= F.exists("headers", partial(_is_header, name, wanted))
    return found


def _is_header(name: str, wanted: Sequence[Any], header: Column) -> Column:
    return (header["key"] == name) & _is_one_of(header["value"], wanted)


def _is_one_of(column: Column, wanted: Sequence[Any]) -> Column:
    from pyspark.sql import functions as F

    values = [F.lit(bytearray(value)) for item in wanted if (value := bytes_of(item)) is not None]
    found = F.coalesce(column.isin(values), F.lit(False)) if values else F.lit(False)
    return found | column.isNull() if None in wanted else found


def mark_rejected(records: DataFrame, transform: Transform) -> DataFrame:
    """Add ``_rejected`` to records with ``_selected``. An expression that is true gives itself as the reason."""
    from pyspark.sql import functions as F

    if transform.reject_when is None:
        return records
    found = F.expr(expanded(transform.reject_when))
    if dict(records.select(found.alias(REJECTED)).dtypes)[REJECTED] != "string":
        # Plain null is of no type.
        found = F.when(found.cast("boolean"), F.lit(transform.reject_when))
    return records.select("*", F.when(F.col(SELECTED), found).alias(REJECTED))


def to_rows(records: DataFrame, transform: Transform, *, whole: bool) -> DataFrame:
    """The columns that the writer takes; expressions see only records that are selected and not rejected.

    :param records: with the columns of Spark's Kafka source, the headers only if they are named.
    :param whole: whether the rows have everything; otherwise only what expressions change, and the writer has the rest
        from the records.
    """
    from pyspark.sql import functions as F

    columns = {
        "key": "key",
        "value": "value",
        "headers": "headers" if transform.include_headers else "null",
        "partition": "partition" if transform.preserve_partition else "null",
    }
    columns = {**columns, **transform.columns} if whole else {**transform.columns}
    rejects = transform.reject_when is not None
    kept = F.col(SELECTED) & F.col(REJECTED).isNull() if rejects else F.col(SELECTED)

    def of_kept(name: str) -> Column:
        # The writer takes the types of the source; the cast gives one to an expression that is plainly null.
        value = F.when(kept, F.expr(expanded(columns[name]))).cast(SOURCE_COLUMNS[name])
        if rejects and whole and name != "partition":
            # A dead letter is the record as it was.
            value = F.when(kept, value).otherwise(F.col(name))
        return value.alias("target_partition" if name == "partition" else name)

    topics = []
    # By a map the writer finds the target itself.
    if transform.topic_expr is not None or (whole and transform.topic is not None):
        topic = F.lit(transform.topic) if transform.topic_expr is None else F.expr(expanded(transform.topic_expr))
        topics = [F.when(kept, topic).alias("target_topic")]
    source = ["topic", "partition", "offset", "timestamp"] if whole else ["offset"]
    marks = [SELECTED, REJECTED] if rejects else [SELECTED]
    marked = mark_rejected(mark_selected(records, transform), transform)
    return marked.select(*source, *marks, *map(of_kept, columns), *topics)


def names_headers(transform: Transform) -> bool:
    """Whether an expression may look at the headers. A column has to be named, since a star is refused."""
    return bool(transform.headers) or any("headers" in expanded(sql).lower() for sql in transform.sql.values())


def needs_sql(transform: Transform) -> bool:
    """Whether an author's expression has to be evaluated for each record."""
    return bool(transform.sql)
