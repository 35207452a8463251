"""Which expressions Spark may evaluate; and one that fails on a record: the failure names the record, and quotes
nothing of it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.errors import ExpressionError, KafkaSparkError, TargetError
from airflow_provider_kafka_spark.core.records.expressions import expanded
from airflow_provider_kafka_spark.core.records.spark_functions import FUNCTIONS, KEYWORDS, NEWEST_SPARK
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.jobs.local_table import local_table
from airflow_provider_kafka_spark.jobs.transform import SOURCE_COLUMNS, check_expressions, mark_selected, to_rows
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy, Pair

pytestmark = pytest.mark.spark


def refusal(spark: SparkSession, **transform: object) -> str:
    with pytest.raises(ExpressionError) as raised:
        check_expressions(spark, Transform(**transform))  # type: ignore[arg-type]
    return str(raised.value)


@pytest.fixture
def shouting(spark: SparkSession) -> Iterator[str]:
    """A function that somebody has registered."""
    spark.udf.register("shout", str.upper)
    yield "shout"
    spark.sql("drop temporary function if exists shout")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("header('a')", b"2"),
        ("header_text('a')", "2"),
        ('HEADER ( "b" )', None),
        ("header_text('none')", None),
        ("header('no such')", None),
        ("concat(header_text('a'), ' header(''a'')')", "2 header(a)"),
        ("element_at(transform(array(1), h -> header_text('a')), 1)", "2"),
        ("/* it's */ header_text('a')", "2"),
    ],
)
def test_a_header_by_its_name(spark: SparkSession, sql: str, expected: object) -> None:
    """The last one of that name; null if there is none, or its value is null."""
    check_expressions(spark, Transform(topic="t", columns={"value": sql}))
    headers = "array(struct('a', binary('1')), struct('a', binary('2')), struct('b', null))"
    table = spark.sql(f"select cast({headers} as {SOURCE_COLUMNS['headers']}) as headers")

    (row,) = table.selectExpr(expanded(sql)).collect()

    assert (bytes(row[0]) if isinstance(row[0], bytearray) else row[0]) == expected


def test_a_header_of_a_record_without_headers(spark: SparkSession) -> None:
    table = spark.sql(f"select cast(null as {SOURCE_COLUMNS['headers']}) as headers")
    assert table.selectExpr(expanded("header('a')")).collect()[0][0] is None


@pytest.mark.parametrize(
    ("where", "says"),
    [
        pytest.param(
            "reflect('java.lang.System', 'getenv', 'HOME') = key", "calls reflect(): it calls any", id="reflect"
        ),
        pytest.param("Java_Method('a.B', 'c') = key", "calls java_method()", id="java_method"),
        pytest.param("`reflect`('java.lang.System', 'getenv', 'HOME') = key", "calls reflect()", id="quoted"),
        pytest.param(
            "identifier('ref' || 'lect')('a.B', 'c') = 'x'", "ExpressionWithUnresolvedIdentifier", id="built-name"
        ),
        pytest.param("system.builtin.reflect('a.B', 'c') = 'x'", "plain name", id="qualified-name"),
        pytest.param("exists(array(1), x -> reflect('a.B', 'c') = 'x')", "calls reflect()", id="in-a-lambda"),
        pytest.param("uper(topic) = 'A'", "uper() is not one of them. Did you mean upper()", id="typo"),
        pytest.param(
            "header(topic) is null",
            "header() is not one of them. It takes the name of a header as a text",
            id="header-of-no-name",
        ),
        pytest.param("exists (select 1)", "subquery", id="exists"),
        pytest.param("offset = (select max(id) from range(9))", "subquery", id="table-valued-function"),
        pytest.param("struct(*) is not null", "UnresolvedStar", id="star"),
        pytest.param("from_avro(value, '{}', map('avroSchemaUrl', 'file:/x')) = 'x'", "name files", id="avro"),
        pytest.param("from_xml(string(value), 'a int') is null", "XML functions open files", id="xml"),
        pytest.param("count(*) > 1", "calls count(): it looks at several records", id="aggregate"),
        pytest.param("row_number() over (order by offset) = 1", "calls row_number(): it looks at", id="window"),
        pytest.param("explode(array(true))", "calls explode(): it looks at", id="generator"),
        pytest.param("json_tuple(string(value), 'a')", "several records", id="generator-of-json"),
        pytest.param("window(timestamp, '1 hour') is not null", "several records", id="time-window"),
        pytest.param("true) or (1=1", "does not compile: [PARSE_SYNTAX_ERROR]", id="closed-bracket"),
        pytest.param("key = ", "does not compile: [PARSE_SYNTAX_ERROR]", id="half-an-expression"),
        pytest.param("x -> x", "does not compile", id="a-lambda-alone"),
        pytest.param("not " * 4_000 + "true", "does not compile", id="too-deep"),
    ],
)
def test_an_expression_looks_at_the_record_alone(spark: SparkSession, where: str, says: str) -> None:
    message = refusal(spark, where=where)
    assert says in message
    assert len(message) < 600


@pytest.mark.parametrize("column", ["key", "value", "headers", "partition"])
def test_a_subquery_is_refused_before_its_files_are_looked_for(
    spark: SparkSession, column: str, tmp_path: Path
) -> None:
    """Spark opens them to analyse the query, so the error for a missing one would show that."""
    sql = f"(select value from text.`{tmp_path}/missing` limit 1)"  # noqa: S608
    assert f"{column} must depend on its record alone" in (message := refusal(spark, columns={column: sql}))
    assert "subquery" in message
    assert "PATH_NOT_FOUND" not in message


def test_a_registered_function_is_refused(spark: SparkSession, shouting: str) -> None:
    assert "must call Spark's built-in functions" in refusal(spark, columns={"value": f"{shouting}(string(value))"})


@pytest.mark.long
def test_the_names_that_are_known_before_spark_starts_are_those_of_spark(spark: SparkSession) -> None:
    listed = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin().listFunction()  # type: ignore[union-attr]
    functions = {str(listed.apply(i).funcName()) for i in range(listed.size())}
    keywords = {str(row[0]).lower() for row in spark.sql("select keyword from sql_keywords()").collect()}
    assert spark.version.startswith("{}.{}.".format(*NEWEST_SPARK))
    assert set(filter(str.isidentifier, functions)) == FUNCTIONS
    assert keywords <= FUNCTIONS | KEYWORDS


def test_a_comment_does_not_cut_what_stands_beside_an_expression(spark: SparkSession) -> None:
    """The window of timestamps still counts."""
    transform = Transform(where="true -- all", topic="copy", window_end_ms=1_000, provenance=Trace.NOTHING)
    check_expressions(spark, transform)
    rows = [("copy", 0, 1), ("copy", 0, 2)]
    records = local_table(spark, {"topic": "string", "partition": "int", "offset": "bigint"}, rows).selectExpr(
        "*", "timestamp_seconds(offset - 1) as timestamp"
    )
    assert [row["_selected"] for row in mark_selected(records, transform).collect()] == [True, False]


def test_variables_are_not_replaced(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would put its own settings and the environment of the driver into an expression."""
    text = "${env:HOME} ${system:java.home} ${spark.app.id}"
    transform = Transform(
        columns={"value": f"'{text}'", "key": "'${env:HOME}'"}, topic="copy", provenance=Trace.NOTHING
    )
    check_expressions(spark, transform)
    record = local_table(spark, SOURCE_COLUMNS | {"timestamp": "string"}, [(None,) * 8])
    (copied,) = to_rows(record, transform, whole=True).collect()
    assert (bytes(copied["value"]), bytes(copied["key"])) == (text.encode(), b"${env:HOME}")


@pytest.mark.parametrize(
    "where",
    [
        "timestamp between '2026-11-20' and timestamp'2026-11-21 00:00:00+00:00'",
        "get_json_object(string(value), '$.a') like 'x%' and topic ilike any ('a', 'b')",
        "from_json(string(value), 'a array<string>').a[0] = headers[0].key",
        "exists(headers, h -> h.key = 'x' and (h.value is null or length(h.value) > 3))",
        "case topic when 'a' then extract(hour from timestamp) else unix_timestamp(timestamp) end > 5",
        "aggregate(sequence(1, 10), 0, (sum, x) -> sum + x) > pmod(hash(key), 4)",
        "cast(trim(both '\"' from string(value)) as decimal(10, 2)) is distinct from try_divide(offset, 2)",
        "assert_true(value is not null) is null and topic collate UTF8_LCASE = 'a'",
        "map('a', 1)['a'] = named_struct('b', 1).b and typeof(parse_url(topic, 'HOST')) = 'string'",
        "parse_json(string(value)) is null or xxhash64(key) = 1 or offset in (1, 2, 3)",
        "timestamp > timestamp '2026-11-21T10:00:00.5Z' or timestamp > timestamp_ltz'12026' or '10:00' = topic",
        "timestamp > '2026-11-21 10:00' and to_timestamp('10:00', 'HH:mm') > to_timestamp(topic, 'yyyy')",
        "topic in ('é', '😀') and timestamp > timestamp'2026-11-21'",
        "string(value) = 'today' or date_trunc('day', timestamp) = date'epoch' or true as kept",
    ],
)
def test_what_needs_the_record_alone_is_permitted(spark: SparkSession, where: str) -> None:
    check_expressions(spark, Transform(where=where))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        pytest.param("rand() < 0.5", "calls rand()", id="rand"),
        pytest.param("exists(headers, h -> randn() > 0)", "calls randn()", id="in-a-lambda"),
        pytest.param("monotonically_increasing_id() = 1", "calls monotonically_increasing_id()", id="row-number"),
    ],
)
def test_an_expression_gives_the_same_answer_at_each_try(spark: SparkSession, where: str, says: str) -> None:
    message = refusal(spark, where=where)
    assert says in message
    assert "a retry cannot give the same answer. Use a hash of the record, such as pmod(xxhash64(key)" in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("where", "says"),
    [
        pytest.param("timestamp > now() - interval 1 hour", "calls now()", id="now"),
        pytest.param("timestamp > current_timestamp", "calls current_timestamp()", id="without-brackets"),
        pytest.param("date(timestamp) = current_date()", "calls current_date()", id="current_date"),
        pytest.param("timestamp > 'today'", "a day such as 'today'", id="by-a-cast"),
        pytest.param("timestamp > to_timestamp(concat('no', 'w'))", "of concat(...) of constants", id="by-a-function"),
        pytest.param(
            "cast(repeat('9', 300000000) as timestamp) is null",
            "of repeat(...) of constants",
            id="of-300-million-digits",
        ),
        pytest.param("timestamp > timestamp'now'", "timestamp'now'", id="by-a-literal"),
        pytest.param('date(timestamp) = DATE "Yesterday"', "no date that is written out", id="by-a-literal-of-a-day"),
        pytest.param("timestamp > timestamp/**/'now'", "no date that is written out", id="behind-a-comment"),
        pytest.param("timestamp > timestamp -- x\n'now'", "no date that is written out", id="behind-a-line-comment"),
        pytest.param(r"timestamp > timestamp'\u006eow'", "no date that is written out", id="unicode-escape"),
        pytest.param(r"timestamp > timestamp'\156ow'", "no date that is written out", id="octal-escape"),
        pytest.param("timestamp > timestamp r'now'", "no date that is written out", id="raw-literal"),
        pytest.param("timestamp > timestamp_ntz'now'", "no date that is written out", id="without-zone"),
        pytest.param("timestamp in (timestamp'2026-11-21', timestamp'10:00')", "timestamp'10:00'", id="without-a-day"),
        pytest.param("timestamp > '10:00:00'", "'10:00:00', of the current day", id="text-without-a-day"),
        pytest.param("timestamp > to_timestamp('T10:00')", "'T10:00', of the current day", id="cast-without-a-day"),
    ],
)
def test_an_expression_does_not_look_at_the_clock(spark: SparkSession, where: str, says: str) -> None:
    message = refusal(spark, where=where)
    assert says in message
    assert "a retry runs later. Use a template, such as timestamp'{{ data_interval_end }}'" in message
    assert len(message) < 500


def test_dates_and_hours_are_those_of_utc(spark: SparkSession) -> None:
    """A retry may run on a machine with another time zone."""
    transform = Transform(where="hour(timestamp) = 1 and string(timestamp) = '1970-01-01 01:00:00'")
    check_expressions(spark, transform)
    records = spark.range(1).selectExpr("timestamp_seconds(3600) as timestamp")
    assert [row["_selected"] for row in mark_selected(records, transform).collect()] == [True]


def test_a_value_that_is_taken_for_a_text_is_named_whole(spark: SparkSession) -> None:
    """The commonest mistake; Spark's reason is long."""
    message = refusal(spark, where="get_json_object(value, '$.a') = 'x'")

    assert 'however "value" has the type "BINARY"' in message
    assert message.endswith("write string(value) for its text.")


_SECRET = "card 4711"
_RECORDS = [Record(b"k", b"%d" % i) for i in range(3)] + [Record(b"k", _SECRET.encode())]
_IS_BAD = "string(value) like 'card%'"
#: What fails, and the kind of error that is shown.
_FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "cast": ({"columns": {"value": "string(int(string(value)))"}}, "CAST_INVALID_INPUT in int(string(value))."),
    "raised": ({"where": f"if({_IS_BAD}, raise_error(string(value)), true)"}, "USER_RAISED_EXCEPTION."),
    "not-of-spark": ({"columns": {"value": f"if({_IS_BAD}, regexp_extract(value, value), value)"}}, "REGEX"),
    "dead-letters": ({"reject_when": f"assert_true(not {_IS_BAD}, string(value)) is null"}, "USER_RAISED_EXCEPTION"),
    "topics": ({"topic_expr": "if(int(string(value)) >= 0, '{target}', null)"}, "CAST_INVALID_INPUT in "),
}


def _shows_nothing(error: KafkaSparkError) -> str:
    chain: list[str] = []
    each: BaseException | None = error
    while each is not None:
        chain.append(str(each))
        each = each.__cause__ or each.__context__
    assert _SECRET not in "\n".join(chain)
    assert "4711" not in str(error)
    return str(error)


@pytest.mark.broker
def test_what_is_no_name_of_a_topic_is_not_shown(pair: Pair) -> None:
    """An expression of the wrong column leads to texts of records."""
    pair.fill(_RECORDS)

    with pytest.raises(TargetError, match=r"\['0', '1', '2'\], and 1 texts that are no name") as failed:
        pair.copy(4, topic_expr="string(value)", topic=None)

    _shows_nothing(failed.value)


@pytest.mark.broker
@pytest.mark.parametrize("kind", _FAILING)
def test_a_copy_names_the_record(pair: Pair, topic: TopicFactory, kind: str) -> None:
    pair.fill(_RECORDS)
    options, shown = _FAILING[kind]
    if kind == "dead-letters":
        options = {**options, "dead_letter_topic": topic(suffix="dead")}
    if kind == "topics":
        # This pass makes rows only, so no record is known.
        options = {"topic_expr": options["topic_expr"].format(target=pair.target), "topic": None}

    with pytest.raises(ExpressionError) as failed:
        pair.copy(4, **options)

    message = _shows_nothing(failed.value)
    record = "a record" if kind == "topics" else f"record {pair.source}[0]@3"
    assert f"An expression fails on {record}: " in message
    assert shown in message
    assert "leave such records out with where" in message


@pytest.mark.broker
def test_a_time_beyond_that_of_sql_names_the_record_and_what_reads_it(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """A producer that sends nanoseconds; without SQL its records are copied as they are."""
    source, target = (topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)}, suffix=s) for s in "st")
    nanoseconds = 1_795_731_282_470_000_000
    kafka_broker.produce(source, [Record(b"k", b"1"), Record(b"k", b"2", timestamp=nanoseconds)])

    with pytest.raises(ExpressionError, match=r"\[0\]@1 has the timestamp 1795731282470000000 ms.* Without SQL"):
        run_copy([f"{source}:0:0:2"], topic=target, where="value is not null")

    assert run_copy([f"{source}:0:0:2"], run_id="fedcba9876543210", topic=target).records_written == 2
