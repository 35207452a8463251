from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.wire.codec import FROM_MINUS_ONE, decode, decode_text, encode
from tests.core.refusals import refuses
from tests.dataclass_values import values_of


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class _Whole:
    part: _Part
    parts: tuple[_Part, ...]
    ranges: OffsetRanges
    offsets: Mapping[TopicPartition, int]
    ends: Mapping[str, Mapping[int, int]]
    seconds: float
    is_set: bool
    anything: Any = None
    last: int = field(default=-1, metadata=FROM_MINUS_ONE)
    optional: _Part | None = None
    options: Mapping[str, str] | None = None


_ONE = encode(
    _Whole(
        _Part("a"),
        (_Part("b", 1),),
        OffsetRanges.parse(["o:0:1:2"]),
        {TopicPartition("o", 0): 5},
        {"o": {0: 3}},
        1,
        True,
    )
)


@given(values_of(_Whole), st.none() | st.integers())
def test_every_kind_of_field_reads_back(whole: _Whole, version: int | None) -> None:
    text = json.dumps(encode(whole, version))

    assert decode_text(_Whole, text, version=version) == whole


def test_ranges_and_offsets_have_the_form_of_users_and_spark() -> None:
    assert _ONE == {
        "part": {"text": "a", "number": None},
        "parts": [{"text": "b", "number": 1}],
        "ranges": ["o:0:1:2"],
        "offsets": {"o": {"0": 5}},
        "ends": {"o": {"0": 3}},
        "seconds": 1,
        "is_set": True,
        "anything": None,
        "last": -1,
        "optional": None,
        "options": None,
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"colour": 1}, "must have the fields of a _Whole; it has unknown keys ['colour'] and", id="new"),
        pytest.param({"part": {"text": "a"}}, "a _Part; it has unknown keys [] and lacks ['number']", id="lacks"),
        pytest.param({"part": None}, "_Whole.part must be an object; got NoneType", id="object-null"),
        pytest.param({"part": {"text": 5, "number": 1}}, "_Whole.part.text must be text; got int", id="text-a-number"),
        pytest.param({"parts": {}}, "_Whole.parts must be a list; got dict", id="list-an-object"),
        pytest.param({"parts": "ab"}, "_Whole.parts must be a list; got str", id="list-a-text"),
        pytest.param({"parts": [_ONE["part"], 5]}, "_Whole.parts[1] must be an object; got int", id="item"),
        pytest.param({"ranges": ["o:0:2:1"]}, "_Whole.ranges is malformed: An offset range must not", id="reversed"),
        pytest.param({"offsets": {"o": {"01": 1}}}, "plain numbers as keys, such as '0'; got '01'", id="partition"),
        pytest.param({"offsets": {"o": {str(2**31): 1}}}, "offsets is malformed: partition must", id="no-partition"),
        pytest.param({"offsets": {"o": {"0": -1}}}, ".offsets['o']['0'] must be an integer from 0", id="offset"),
        pytest.param({"ends": {"o": [1]}}, "_Whole.ends['o'] must be an object; got list", id="mapping-a-list"),
        pytest.param({"seconds": float("nan")}, "_Whole.seconds must be a number from 0 to", id="nan"),
        pytest.param({"seconds": True}, "_Whole.seconds must be a number; got bool", id="number-a-boolean"),
        pytest.param({"is_set": 1}, "_Whole.is_set must be a boolean; got int", id="boolean-a-number"),
        pytest.param({"last": -2}, f"_Whole.last must be an integer from -1 to {2**63 - 1}; got -2", id="below-least"),
        pytest.param({"last": 1.0}, "_Whole.last must be an integer; got float", id="integer-a-fraction"),
        pytest.param({"last": True}, "_Whole.last must be an integer; got bool", id="integer-a-boolean"),
        pytest.param({"options": {"a": None}}, "_Whole.options['a'] must be text; got NoneType", id="value-null"),
        pytest.param({"seconds": float("inf")}, "_Whole.seconds must be a number from 0 to", id="infinity"),
        pytest.param({"seconds": -1}, "_Whole.seconds must be a number from 0 to", id="negative"),
        pytest.param({"last": 10**3999}, "_Whole.last must be an integer from -1 to", id="of-4000-digits"),
        pytest.param({"x" * 4000: 1}, "it has unknown keys ['xxx", id="new-of-4000-characters"),
        pytest.param({"ranges": ["x" * 4000 + "!:0:1:2"]}, "ranges is malformed: A topic name", id="long-topic"),
    ],
)  # fmt: skip
def test_anything_else_is_one_error_that_names_the_place(change: dict[str, Any], says: str) -> None:
    with refuses(ProtocolError, says) as raised:
        decode(_Whole, {**_ONE, **change}, remedy="Do this.")

    assert str(raised.value).endswith(" Do this.")
    # Thousands of characters from a file of others do not get into the log.
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "value", [None, [], "text", {}, {"version": 2}, {"version": True}, {"version": "9" * 4000}], ids=repr
)
def test_a_version_is_exactly_that(value: object) -> None:
    """``True`` equals 1 in Python and is none."""
    with pytest.raises(ProtocolError, match=r"^The state must be of version 1; got .{1,40}$"):
        decode(_Part, value, version=1, name="The state")


@pytest.mark.parametrize("kind", [dict[TopicPartition, int], dict[int, int]], ids=["by-topic", "of-one-topic"])
def test_thousands_of_offsets_are_compact(kind: Any) -> None:
    """Six digits are three bytes, and so are ends and epochs of the same partitions."""
    at = TopicPartition("orders", 0)
    offsets = {
        at._replace(partition=i) if kind == dict[TopicPartition, int] else i: 100_000 + i * i for i in range(1_000)
    }
    found = json.loads(json.dumps(encode(offsets)))

    assert len(json.dumps(found)) < 9 * len(offsets)
    assert decode(kind, found) == offsets
    assert "compact" not in encode(dict(list(offsets.items())[1:]))
    with pytest.raises(ProtocolError, match="is malformed"):
        decode(kind, {**found, "offsets": {"orders": "?"}})
    # A topic may have that name.
    assert decode(dict[str, int], {"compact": 3}) == {"compact": 3}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*_ONE, "text", "number", "0"]), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*_ONE]), _JSON))
def test_whatever_is_read_no_other_error_comes_out(changes: dict[str, Any]) -> None:
    """A file may be anything; its reader handles one error."""
    with suppress(ProtocolError):
        decode_text(_Whole, json.dumps({**_ONE, **changes}))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000])
def test_text_that_is_no_json_is_not_shown(text: str) -> None:
    """It may hold secrets; its length tells whether it was cut off."""
    with pytest.raises(ProtocolError, match=rf"of {len(text)}: it may be cut off|must be an object") as raised:
        decode_text(_Part, text)

    assert len(str(raised.value)) < 200
    assert raised.value.__suppress_context__
