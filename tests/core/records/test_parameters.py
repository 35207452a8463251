"""What authors write of the records to copy: each form becomes one plain form, and anything else is a named error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import InvalidInputError, OptionError, TargetError
from airflow_provider_kafka_spark.core.records.record_filter import MAX_KEYS, bytes_of, check_headers, check_keys
from airflow_provider_kafka_spark.core.records.schema_ids import check_schema_id_map
from airflow_provider_kafka_spark.core.records.topic_map import MAX_TOPICS, check_topic_map, mapped

_CONTENTS = [b"text", "grün".encode(), b"\xff\x00", b"", None]
_MANY_TOPICS = {f"t{i:05}": "x" for i in range(MAX_TOPICS)}


@pytest.mark.parametrize(
    ("check", "given", "plain"),
    [
        (check_keys, None, None),
        (check_headers, None, {}),
        (check_headers, {}, {}),
        (check_headers, {"a": "b", "c": None}, {"a": ("b",), "c": (None,)}),
        (check_schema_id_map, None, {}),
        (check_schema_id_map, {}, {}),
        (check_schema_id_map, {3: 17, 1: 2}, {"values": {"1": 2, "3": 17}}),
        (check_schema_id_map, {"values": {"3": 17}, "keys": {5: 9}}, {"keys": {"5": 9}, "values": {"3": 17}}),
        (check_schema_id_map, {0: 2**31 - 1}, {"values": {"0": 2**31 - 1}}),
        (check_topic_map, {"b": "x", "a": "x"}, {"a": "x", "b": "x"}),
        (check_topic_map, _MANY_TOPICS, _MANY_TOPICS),
    ],
)
def test_each_has_one_plain_form(check: Callable[[Any], Any], given: Any, plain: Any) -> None:
    assert check(given) == plain
    assert check(plain) == plain
    assert list(plain or ()) == sorted(plain or ())


def test_plain_keys_keep_their_bytes() -> None:
    """In whatever order, and how often they are given."""
    plain = check_keys(_CONTENTS)

    assert plain is not None
    assert sorted(map(bytes_of, plain), key=repr) == sorted(_CONTENTS, key=repr)
    assert check_keys([*reversed(_CONTENTS), *_CONTENTS]) == check_keys(list(plain)) == plain
    assert check_headers({"a": list(plain)}) == {"a": plain}


_KEYS = partial(pytest.param, check_keys, InvalidInputError)
_HEADERS = partial(pytest.param, check_headers, InvalidInputError)
_SCHEMA_IDS = partial(pytest.param, check_schema_id_map, OptionError)
_TOPIC_MAP = partial(pytest.param, check_topic_map, TargetError)


@pytest.mark.parametrize(
    ("check", "error", "given", "says"),
    [
        _KEYS([], "list of 1 to 10,000 values", id="no-keys"),
        _KEYS("customer-7", "got 'customer-7'", id="keys-as-text"),
        _KEYS([7], "got 7", id="key-as-number"),
        _KEYS([{"hex": "0"}], "pairs of hexadecimal digits", id="half-a-byte"),
        _KEYS(["\ud800"], "Each value in keys", id="no-unicode"),
        _KEYS(["k"] * (MAX_KEYS + 1), "list of 1 to", id="too-many-keys"),
        _HEADERS(["tenant"], "must map 1 to 100 names", id="headers-as-list"),
        _HEADERS({"tenant": []}, "list of 1 to", id="header-without-a-value"),
        _HEADERS({7: "acme"}, "Names in headers must be text", id="header-as-number"),
        _HEADERS({str(i): "x" for i in range(101)}, "must map 1 to 100", id="too-many-headers"),
        _SCHEMA_IDS([3], "must map ids", id="ids-as-list"),
        _SCHEMA_IDS({"x": 1}, "An id of values", id="id-as-word"),
        _SCHEMA_IDS({3: True}, "id 3", id="id-as-boolean"),
        _SCHEMA_IDS({3: 2**31}, "at most 2,147,483,647", id="large-id"),
        _SCHEMA_IDS({"keys": {}}, "1 to 10,000 ids of keys", id="no-ids"),
        _SCHEMA_IDS({"keys": {1: 2}, 3: 4}, "An id of values", id="both-forms"),
        _TOPIC_MAP({}, "got {}", id="empty-map"),
        _TOPIC_MAP(None, "got None", id="no-map"),
        _TOPIC_MAP({1: "b"}, "got 1", id="topic-as-number"),
        _TOPIC_MAP({"a'); drop": "b"}, 'got "a\'[)]; drop"', id="sql"),
        _TOPIC_MAP({**_MANY_TOPICS, "more": "x"}, "at most 10,000 topics; it has 10,001", id="too-many-topics"),
    ],
)
def test_anything_else_is_named(check: Callable[[Any], Any], error: type[Exception], given: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        check(given)


def test_unmapped_topics_are_named() -> None:
    assert mapped(["b", "a", "b"], {"a": "x", "b": "y", "c": "z"}) == {"a": "x", "b": "y"}
    with pytest.raises(TargetError, match="none for 't0', 't1', 't2', 't3', 't4' and 2 more"):
        mapped([f"t{i}" for i in range(7)], {"a": "x"})
