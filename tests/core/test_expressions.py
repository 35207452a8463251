from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.expressions import check_size, refusal_of


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
        ("shout", None, "not one of Spark's built-in functions"),
        ("from_avro", "misc_funcs", "files"),
        ("xpath", "xml_funcs", "files and addresses"),
        ("aes_encrypt", "misc_funcs", "a key"),
        ("sum", "agg_funcs", "several records"),
        ("explode", "generator_funcs", "several records"),
        ("lag", "window_funcs", "several records"),
    ],
)
def test_every_other_one_is_refused_with_its_reason(function: str, group: str | None, reason: str) -> None:
    assert reason in str(refusal_of(function, group))


def test_an_expression_is_bounded_in_length_and_depth() -> None:
    """Spark's parser takes half a minute for 4,000 brackets, and the driver would take it each time."""
    check_size("where", "(" * 100 + "true" + ")" * 100, "true")
    check_size("where", "value = '" + "(" * 4_000 + "\\'" + "['", "true")
    with pytest.raises(ExpressionError, match=r"at most 100 brackets within each other.* got 4,000"):
        check_size("where", "(" * 4_000 + "true" + ")" * 4_000, "true")
    with pytest.raises(ExpressionError, match="at most 16,384 characters"):
        check_size("where", "x" * 16_385, "true")
