from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.spark.java_properties import format_properties, parse_properties


def test_what_is_written_reads_the_same() -> None:
    properties = {"a": r"x=y: #!\n \"q\" \u0041", " b=:#!": " ünï 🔑\n\t\r\f\\", "empty": ""}

    assert parse_properties(format_properties(properties)) == properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("# a=1\n  ! b=2 \\\nc=3\n\n \t\n", {"c": "3"}, id="comments-and-blank-lines"),
        pytest.param("a 1\nb:2\nc = 3\n d\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}, id="separators"),
        pytest.param("a -Dx=1 \\\n   # -Dy=2\nb 3", {"a": "-Dx=1 # -Dy=2", "b": "3"}, id="continued"),
        pytest.param("a x\\\\\nb y", {"a": "x\\", "b": "y"}, id="an-escaped-backslash-continues-nothing"),
        pytest.param("a 1\r\nb 2\r\n", {"a": "1", "b": "2"}, id="line-ends-of-windows"),
        pytest.param("a", {"a": ""}, id="a-name-only"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the-last-one-counts"),
        pytest.param("a=1\\", {"a": "1"}, id="ends-within"),
    ],
)
def test_it_is_read_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected
