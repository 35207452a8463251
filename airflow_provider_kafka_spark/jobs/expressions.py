"""The author's SQL expressions: each is parsed as one expression, looks at nothing but its record, and is repeatable.

An expression may come from a template, and its values from the user who triggers the DAG. So it is checked as parsed,
since the analysis alone already opens files and loads classes, and as analysed, where Spark knows what it will do.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.records.expressions import (
    NOT_NOW,
    NOT_REPEATABLE,
    check_size,
    cut,
    expanded,
    is_written_out,
    lacks_a_day,
    refusal_of,
    unknown_function,
)
from airflow_provider_kafka_spark.jobs.java_names import java_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
#: What the parser leaves open for the analysis, without harm. IDENTIFIER(), stars and parameters are not among them.
_UNRESOLVED = frozenset(
    f"{_CATALYST}.analysis.{name}" for name in ("UnresolvedAttribute", "UnresolvedExtractValue", "UnresolvedFunction")
)

#: Types of literals that the parser may have made from the clock.
_DATES = frozenset({"date", "timestamp", "timestamp_ntz"})
#: Characters of Spark's reason; its longest ones list what it would take instead.
_LONGEST_REASON = 600


def check_expression(spark: SparkSession, table: DataFrame, name: str, sql: str, example: str) -> str:
    """The type of an expression over the table, if it gives one value of one record, the same one at each try.

    :param table: has the source columns.
    :param name: of the parameter, for errors.
    :raises ExpressionError: saying what is wrong.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    # Otherwise Spark puts its settings and the driver's environment in the place of "${env:NAME}" before it parses.
    spark.conf.set("spark.sql.variable.substitute", "false")
    with suppress(ImportError):
        # Since Spark 4.0 PySpark logs an error that it raises.
        from pyspark.logger import PySparkLogger

        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    shown = repr(cut(sql, 120))
    check_size(name, sql, example)
    sql = expanded(sql)
    try:
        reason = _refusal_as_parsed(spark, sql, name)
        if reason is None:
            checked = table.select("*", F.expr(sql).alias("_checked"))
            reason = _refusal_as_analysed(spark, checked, table)
    # Spark and Python have other errors for an expression that is too deep.
    except (PySparkException, Py4JJavaError, RecursionError) as error:
        text = cut(str(getattr(error, "java_exception", error)).strip().splitlines()[0], _LONGEST_REASON)
        columns = ", ".join(table.columns)
        raise ExpressionError(
            f"{name} must be an SQL expression over the source columns ({columns}), such as {example!r}; "
            f"{name}={shown} does not compile: {text}{_of_bytes(text)}"
        ) from error
    if reason is not None:
        raise ExpressionError(
            f"{name} must depend on its record alone, such as {example!r}; got {shown}, which {reason}."
        )
    return checked.schema["_checked"].dataType.simpleString()


def _of_bytes(reason: str) -> str:
    """What helps against the commonest error of types; empty if this is another one."""
    found = re.search(r'however "(key|value)" has the type "BINARY"', reason)
    return f" The {found[1]} is bytes: write string({found[1]}) for its text." if found else ""


def _refusal_as_parsed(spark: SparkSession, sql: str, name: str) -> str | None:
    """What of an expression is not the record's, before Spark looks any of it up; None if all is.

    :raises ExpressionError: if it calls a function that Spark does not have.
    """
    jvm = java_of(spark.sparkContext)
    catalyst = jvm.org.apache.spark.sql.catalyst
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)
    if parsed.containsPattern(catalyst.trees.TreePattern.PLAN_EXPRESSION()):
        return "has a subquery: it reads tables and files"
    built_in = catalyst.analysis.FunctionRegistry.builtin()
    nodes = json.loads(parsed.toJSON())
    for node in nodes:
        kind = node["class"]
        if kind.endswith(".UnresolvedFunction"):
            function = str(node["nameParts"]).strip("[]").lower()
            found = built_in.lookupFunction(catalyst.FunctionIdentifier(function))
            if not found.isDefined():
                raise ExpressionError(unknown_function(name, sql, function.replace(", ", ".")))
            refusal = refusal_of(function, found.get().getGroup())
            if refusal is not None:
                return f"calls {function}(): {refusal}"
        elif kind not in _UNRESOLVED and not kind.startswith(f"{_CATALYST}.expressions."):
            part = kind.rpartition(".")[2]
            return f"has {part}. Name columns and functions, without *, IDENTIFIER() or parameters"
    leaves = parsed.collectLeaves()
    for i, leaf in enumerate(node for node in nodes if node["num-children"] == 0):
        if leaf.get("dataType") in _DATES:
            origin = leaves.apply(i).origin()
            literal = sql[origin.startIndex().get() : origin.stopIndex().get() + 1]
            if not is_written_out(literal):
                return f"has {cut(literal, 60)!r}, which is no date that is written out: {NOT_NOW}"
    return None


def _refusal_as_analysed(spark: SparkSession, checked: DataFrame, table: DataFrame) -> str | None:
    """What of an expression is another at each try, or not one value of one record; None if all is well.

    :param checked: the table, and the expression as the last column.
    """
    jvm = java_of(spark.sparkContext)
    sql = jvm.org.apache.spark.sql.catalyst
    plan, before = (each._jdf.queryExecution().analyzed() for each in (checked, table))
    # Spark may have added what makes or drops rows, or joined what a function stands for.
    if plan.nodeName() != "Project" or not plan.children().apply(0).equals(before):
        return "looks at several records, or makes several of one"
    expression, patterns = plan.projectList().last(), sql.trees.TreePattern
    if expression.containsPattern(patterns.PLAN_EXPRESSION()):
        return "has a subquery: it reads tables and files"
    if not expression.deterministic():
        return f"calls {_deepest(expression, lambda node: not node.deterministic())}(): {NOT_REPEATABLE}"
    looks_at_now = patterns.CURRENT_LIKE()
    if expression.containsPattern(looks_at_now):
        return f"calls {_deepest(expression, lambda node: node.containsPattern(looks_at_now))}(): {NOT_NOW}"
    # What the optimizer would make of texts such as 'now', where they are cast.
    replaced = sql.optimizer.ReplaceExpressions.apply(plan)
    texts = list(_times_of_text(replaced.projectList().last(), patterns.CAST()))
    # To know whether it is a time of the current day, it would have to be evaluated, and such a text has any length.
    if computed := [text for text, _ in texts if text.nodeName() != "Literal"]:
        made = computed[0].prettyName()
        return f"makes a date or timestamp of {made}(...) of constants, perhaps the current day: {NOT_NOW}"
    if not sql.optimizer.SpecialDatetimeValues.apply(replaced).equals(replaced):
        return f"has 'now' or a day such as 'today': {NOT_NOW}"
    stamps = (str(text.eval(None)) for text, kind in texts if kind == "timestamp")
    without_day = next(filter(lacks_a_day, stamps), None)
    return f"makes a timestamp of {cut(without_day, 60)!r}, of the current day: {NOT_NOW}" if without_day else None


def _times_of_text(expression: Any, cast: Any) -> Iterator[tuple[Any, str]]:
    """The constant texts that become a date or a timestamp, each with the type that it becomes, from the outside in."""
    if not expression.containsPattern(cast):
        return
    children = [expression.children().apply(i) for i in range(expression.children().size())]
    if expression.nodeName() == "Cast" and (kind := expression.dataType().simpleString()) in _DATES:
        (child,) = children
        if child.foldable() and child.dataType().simpleString() == "string":
            yield child, kind
    for child in children:
        yield from _times_of_text(child, cast)


def _deepest(expression: Any, has: Callable[[Any], bool]) -> str:
    """Spark's name of the innermost part that has a property."""
    children = expression.children()
    for child in (children.apply(i) for i in range(children.size())):
        if has(child):
            return _deepest(child, has)
    return str(expression.prettyName())
