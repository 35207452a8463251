"""The author's SQL expressions: each is parsed as one expression, and looks at nothing but its record.

An expression may come from a template, and a template from whoever triggers the DAG. So it is checked twice: as parsed,
since the analysis alone already opens files and loads classes, and as analysed, where Spark knows what it will do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.expressions import refusal_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
#: What the parser leaves open for the analysis, without harm. IDENTIFIER(), stars and parameters are not among them.
_UNRESOLVED = frozenset(
    f"{_CATALYST}.analysis.{name}" for name in ("UnresolvedAttribute", "UnresolvedExtractValue", "UnresolvedFunction")
)


def check_expression(spark: SparkSession, table: DataFrame, name: str, sql: str, example: str) -> str:
    """The type of an expression over the table, if it gives one value of one record and looks at nothing else.

    :param table: has the source columns.
    :param name: of the parameter, for errors.
    :raises ExpressionError: saying what is wrong.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    # Otherwise Spark puts its settings and the driver's environment in the place of "${env:NAME}" before it parses.
    spark.conf.set("spark.sql.variable.substitute", "false")
    shown = repr(_cut(sql, 120))
    try:
        if reason := _beyond_the_record(spark, sql):
            raise ExpressionError(f"{name} must look at the record alone, such as {example!r}; got {shown}, {reason}.")
        checked = table.select("*", F.expr(sql).alias("_checked"))
    # Py4JJavaError: Spark has no error of its own for some, such as an overflow of the stack.
    except (PySparkException, Py4JJavaError) as error:
        text = _cut(str(getattr(error, "java_exception", error)).strip().splitlines()[0], 200)
        columns = ", ".join(table.columns)
        raise ExpressionError(
            f"{name} must be an SQL expression over the source columns ({columns}), such as {example!r}; "
            f"{name}={shown} does not compile: {text}"
        ) from error
    if not _is_projection(checked, table):
        raise ExpressionError(
            f"{name} must make one value of one record, such as {example!r}; got {shown}, which looks at several "
            f"records or makes several (a generator or a window)."
        )
    return checked.schema["_checked"].dataType.simpleString()


def _beyond_the_record(spark: SparkSession, sql: str) -> str | None:
    """What of an expression is not the record's, in words, before Spark looks any of it up."""
    jvm: Any = spark.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)
    if parsed.containsPattern(catalyst.trees.TreePattern.PLAN_EXPRESSION()):
        return "which has a subquery: it reads tables and files"
    built_in = catalyst.analysis.FunctionRegistry.builtin()
    for node in json.loads(parsed.toJSON()):
        kind = node["class"]
        if kind.endswith(".UnresolvedFunction"):
            function = str(node["nameParts"]).strip("[]").lower()
            found = built_in.lookupFunction(catalyst.FunctionIdentifier(function))
            reason = refusal_of(function, found.get().getGroup() if found.isDefined() else None)
            if reason is not None:
                return f"which calls {function}(): {reason}"
        elif kind not in _UNRESOLVED and not kind.startswith(f"{_CATALYST}.expressions."):
            part = kind.rpartition(".")[2]
            return f"which has {part}. Name columns and functions, without *, IDENTIFIER() or parameters"
    return None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _is_projection(checked: DataFrame, table: DataFrame) -> bool:
    """Whether the one is the other with a column more, and Spark adds nothing that makes or drops rows."""
    plan, before = (each._jdf.queryExecution().analyzed() for each in (checked, table))
    return bool(plan.nodeName() == "Project" and plan.children().apply(0).equals(before))
