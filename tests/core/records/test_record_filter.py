"""Filters by key and headers: each wanted value has one plain form, and an empty list of keys is an error."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.records.record_filter import MAX_KEYS, bytes_of, check_headers, check_keys

CONTENTS = [b"text", "grün".encode(), b"\xff\x00", b"", None]


def test_plain_forms_are_stable_and_keep_the_bytes() -> None:
    plain = check_keys(CONTENTS)

    assert plain is not None
    assert sorted(map(bytes_of, plain), key=repr) == sorted(CONTENTS, key=repr)
    assert check_keys([*reversed(CONTENTS), *CONTENTS]) == plain, "in whatever order, and how often"
    assert check_keys(list(plain)) == plain
    assert check_headers({"a": list(plain), "b": None}) == {"a": plain, "b": (None,)}


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_filter(nothing: Any) -> None:
    assert check_keys(None) is None
    assert check_headers(nothing) == {}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        pytest.param([], "list of 1 to 10,000 values", id="none"),
        pytest.param("customer-7", "got 'customer-7'", id="text"),
        pytest.param([7], "got 7", id="number"),
        pytest.param([{"hex": "0"}], "pairs of hexadecimal digits", id="half-a-byte"),
        pytest.param(["\ud800"], "Each value in keys", id="no-unicode"),
        pytest.param(["k"] * (MAX_KEYS + 1), "list of 1 to", id="too-many"),
    ],
)
def test_bad_keys(keys: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        check_keys(keys)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        pytest.param(["tenant"], "must map 1 to 100 names", id="list"),
        pytest.param({"tenant": []}, "list of 1 to", id="no-value"),
        pytest.param({7: "acme"}, "Names in headers must be text", id="number"),
        pytest.param({str(i): "x" for i in range(101)}, "must map 1 to 100", id="too-many"),
    ],
)
def test_bad_headers(headers: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        check_headers(headers)
