from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.records.expressions import (
    check_size,
    refusal_of,
    unknown_column,
    unknown_columns,
    unknown_function,
    unknown_functions,
)


@pytest.mark.parametrize(
    ("function", "group"),
    [("upper", "string_funcs"), ("filter", "lambda_funcs"), ("raise_error", "misc_funcs"), ("hash", "hash_funcs")],
)
def test_a_function_of_its_arguments_is_permitted(function: str, group: str) -> None:
    assert refusal_of(function, group) is None


@pytest.mark.parametrize(
    ("function", "group", "reason"),
    [
        ("reflect", "misc_funcs", "any method of the JVM"),
        ("version", "misc_funcs", "not known to look at its arguments alone"),
        ("ai_query", "http_funcs", "not known to look at its arguments alone"),
        ("from_avro", "misc_funcs", "files"),
        ("xpath", "xml_funcs", "files and addresses"),
        ("aes_encrypt", "misc_funcs", "a key"),
        ("sum", "agg_funcs", "several records"),
        ("explode", "generator_funcs", "several records"),
        ("lag", "window_funcs", "several records"),
    ],
)
def test_every_other_one_is_refused_with_its_reason(function: str, group: str, reason: str) -> None:
    assert reason in str(refusal_of(function, group))


def test_an_expression_is_bounded_in_length_and_depth() -> None:
    """Spark's parser takes half a minute for 4,000 brackets, and the driver would take it each time."""
    check_size("where", "(" * 100 + "true" + ")" * 100, "true")
    check_size("where", "value = '" + "(" * 4_000 + "\\'" + "['", "true")
    with pytest.raises(ExpressionError, match=r"at most 100 brackets within each other.* got 4,000"):
        check_size("where", "(" * 4_000 + "true" + ")" * 4_000, "true")
    with pytest.raises(ExpressionError, match="at most 16,384 characters"):
        check_size("where", "x" * 16_385, "true")


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        ("uper(topic) = 'A'", ["uper"]),
        ("UPPER (topic) = 'A' and Lenght\n(value) > 3", ["lenght"]),
        ("uper /* a name */ (topic)", ["uper"]),
        ("exists(headers, h -> lenght(h.value) > 3)", ["lenght"]),
        ("case when(offset > 3) then(true) else(not(false)) end", []),
        ("offset in(1, 2) and(partition between(0) and(3)) or(topic like all('a%', 'b%'))", []),
        ("cast(value as decimal(10, 2)) > 3 and try_cast(key as varchar(5)) = 'a' and value::char(3) = 'b'", []),
        ("struct<a:decimal(3,1)>", []),
        ("extract(hour from timestamp) = 3 and trim(both 'x' from topic) = position('a' in topic)", []),
        ("timestampdiff(hour, timestamp, timestamp) < 3 and dateadd(day, 1, timestamp) is not null", []),
        ("string(value) = 'uper(x)' and topic = \"uper(x)\" -- uper(x)\n and `uper(x)` = 1 /* uper(x) */", []),
        ("value = 'it\\'s uper(x)' and topic = 'it''s uper(x)'", []),
        (r"topic rlike r'\uper(x)\'", []),
        ("header_text('uper(x)') = 'a' and header(\"b\") is null", []),
        ("headr('a') is null", ["headr"]),
        pytest.param("`uper`(topic) = system.builtin.uper(topic)", [], id="other-names-are-left-to-spark"),
        pytest.param("/* a /* nested */ uper(x) */ true", [], id="a-nested-comment-is-left-to-spark"),
        pytest.param("value = 'open and uper(x)", [], id="an-open-text-is-left-to-spark"),
        pytest.param("ümlaut(topic)", ["ümlaut"], id="letters-of-any-language"),
    ],
)
def test_finds_calls_of_unknown_functions_and_nothing_that_looks_like_them(sql: str, unknown: list[str]) -> None:
    assert unknown_functions(sql) == unknown


def test_the_error_for_an_unknown_function_says_what_may_be_meant() -> None:
    assert "Did you mean header()" in unknown_function("where", "headr('a') = 1", "headr")
    assert "Correct the name." in unknown_function("where", "zzqq(1)", "zzqq")
    assert "takes the name of a header as a text" in unknown_function("where", "header(topic)", "header")


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        ("statu = 'cancelled' and Statu <> ofset", ["statu", "Statu", "ofset"]),
        ("Offset > 1e3 and TIMESTAMPTYPE = 0 and value is not null and topic rlike r'a'", []),
        ("value.status = 'a' and headers[0].key = 'b' and headers.key[0] = 'c'", []),
        ("exists(headers, h -> h.key = 'a' and hh.key = 'b')", ["hh"]),
        ("aggregate(headers, 0, (total, each) -> total + length(each.value), total -> total > 3)", []),
        ("header_text('tenant') = 'acme' and header(tenant) is null", ["tenant"]),
        ("cast(value as decimal(10, 2)) > 3 and value::string = X'1F' and timestamp > timestamp'2026-01-01'", []),
        ("timestamp > timestamp'2026-01-01' - interval 1 day + interval '2' hours", []),
        ("case when partition = 0 then 'a' else string(value) end collate UTF8_LCASE = 'a'", []),
        ("encode(str => topic, charset => 'utf-8') is not null", []),
        ("trim(both 'x' from topic) = position('a' in topic) and current_date is null", []),
        pytest.param("extract(isoweek from timestamp) = 3", [], id="names-of-units-are-left-to-spark"),
        pytest.param("struct(value v).v is null or cast(null as struct<a: int>) is null", [], id="so-are-fields"),
        pytest.param("`statu` = 'x'", [], id="and-quoted-names"),
        pytest.param("value = 'open and statu", [], id="and-an-open-text"),
        pytest.param("grösse = 3", ["grösse"], id="letters-of-any-language"),
        ("topic collate  UTF8_LCASE = 'a'", []),
        ("exists(headers, `h` -> h.key = 'a')", []),
        ("from_json(string(value), 'status int') . status = 1", []),
    ],
)
def test_finds_columns_that_no_record_has_and_nothing_that_looks_like_them(sql: str, unknown: list[str]) -> None:
    assert unknown_columns(sql) == unknown


def test_the_error_for_an_unknown_column_says_how_a_field_of_the_value_is_read() -> None:
    assert "get_json_object(string(value), '$.statu')" in unknown_column("where", "statu = 'a'", "statu")
