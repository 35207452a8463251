"""Promises of :mod:`~airflow_provider_kafka_spark.core.offsets.compact_rows`, and of results and entries in it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import OffsetRangeError
from airflow_provider_kafka_spark.core.ledger.coverage import Delivery
from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry, short_result, whole_result
from airflow_provider_kafka_spark.core.offsets.compact_rows import LEAST, MOST, compacted, rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import results_in, segments_of
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from tests.core.ledger.test_coverage import entry

_OFFSETS = st.integers(0, 2**62)


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Ranges that share no offset, with any other keys, some of which only some have."""
    rows = []
    for topic, partition in draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 11)), unique=True)):
        edges = sorted(draw(st.lists(_OFFSETS, max_size=6, unique=True)))
        for start, until in zip(edges[::2], edges[1::2], strict=False):
            counts = {"records_read": draw(st.integers(0, 9)), "records_written": until - start}
            others = draw(st.dictionaries(st.sampled_from(["topic_id", "reason"]), st.text(max_size=3)))
            places = {} if draw(st.booleans()) else {"target_topic": "copy", "target_from_offset": draw(_OFFSETS)}
            place = {"topic": topic, "partition": partition, "from_offset": start, "until_offset": until}
            rows.append({**place, **counts, **others, **places})
    return draw(st.permutations(rows))


@given(_rows())
def test_what_is_compact_is_read_again_as_json(rows: list[dict[str, Any]]) -> None:
    found = rows_in(json.loads(json.dumps(compacted(rows, least=0))))

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["topic"], row["partition"], row["from_offset"])

    assert sorted(found, key=place) == sorted(rows, key=place)


def _many(count: int = LEAST) -> list[dict[str, Any]]:
    return [
        {"topic": "orders", "partition": p % 10, "from_offset": p * 1_000, "until_offset": p * 1_000 + 700}
        for p in range(count)
    ]


def test_few_ranges_and_those_that_overlap_are_listed_as_they_are() -> None:
    few, overlapping = _many(LEAST - 1), [*_many(), *_many()]

    assert (compacted(few), compacted(overlapping)) == (few, overlapping)
    assert (rows_in(few), rows_in("orders:0:0:1"), rows_in({"ranges": few})) == (few, "orders:0:0:1", {"ranges": few})


def _result(count: int) -> dict[str, Any]:
    rows = [{**r, "records_read": 700, "records_written": 700 - i % 3} for i, r in enumerate(_many(count))]
    segments = [
        {name: r[name] for name in ("topic", "partition", "from_offset", "until_offset")}
        | {"target_topic": "copy", "target_partition": r["partition"], "target_from_offset": i * 700}
        for i, r in enumerate(rows)
    ]
    targets = [{**r, "topic_id": "x"} for r in _many(count)]
    return {"ranges": rows, "target_ranges": targets, "segments": segments, "missing_ranges": [], "records_read": 7}


def test_a_result_of_ten_thousand_ranges_is_short_and_read_as_a_list_is() -> None:
    result = _result(10_000)
    short = json.loads(json.dumps(short_result(result)))

    sizes = [len(json.dumps(of["ranges"])) for of in (short, result)]
    assert sizes[0] < 170_000
    assert sizes[1] > 1_000_000
    assert OffsetRanges.parse(short["ranges"]) == OffsetRanges.parse(result["ranges"])
    assert KnownTopics.of_ranges(short["ranges"]) == KnownTopics.of_ranges(result["ranges"])
    (copy,) = results_in(json.dumps(short), "of")
    assert {*segments_of(copy)} == {*segments_of(result)}
    assert whole_result(short).keys() == result.keys()


def test_an_entry_of_the_ledger_says_the_same_when_it_is_short() -> None:
    texts = OffsetRanges.parse(_many()).format()
    log = {"at": "2026-11-26T10:00:00+00:00", "source": texts, "target": texts}
    whole = entry("1" * 16, *texts, target_ranges=_many(), log=log)
    short = json.loads(json.dumps(short_entry(whole)))

    assert Delivery.parse(short) == Delivery.parse(whole)
    assert len(json.dumps(short)) * 4 < len(json.dumps(whole))


def _text(*numbers: int) -> str:
    """As the form has numbers, by a second way."""
    found = bytearray()
    for number in numbers:
        digits = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
        found += bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])
    return base64.b64encode(found).decode()


_TOO_MANY = base64.b64encode(b"\0" + base64.b64decode(_text(MOST + 1)) + bytes(2 * MOST + 2)).decode()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"compact": 2}, "the version 2", id="version"),
        pytest.param({"compact": True}, "the version True", id="no-number"),
        pytest.param({"more": 1}, "'more'", id="unknown-key"),
        pytest.param({"offsets": []}, "no offsets", id="no-offsets"),
        pytest.param({"offsets": {"a": 5}}, "the offsets of 'a'", id="no-text"),
        pytest.param({"offsets": {"a": "AAI"}}, "the offsets of 'a'", id="no-base64"),
        pytest.param({"offsets": {"a": _text(0)}}, "the offsets of 'a'", id="no-count"),
        pytest.param({"offsets": {"a": _text(0, 0)}}, "the offsets of 'a'", id="no-range"),
        pytest.param({"offsets": {"a": _text(0, 2, 0, 5, 1)}}, "the offsets of 'a'", id="cut-off"),
        pytest.param({"offsets": {"a": _text(0, 10**18, 0, 5)}}, "the offsets of 'a'", id="too-few"),
        pytest.param({"offsets": {"a": _text(0, 1, 0, 5, 0, 1, 0, 5)}}, "the offsets of 'a'", id="partition-twice"),
        pytest.param({"offsets": {"a": _text(2**31, 1, 0, 5)}}, "the offsets of 'a'", id="large-partition"),
        pytest.param({"offsets": {"a": _text(0, 1, 2**63 - 1, 1)}}, "the offsets of 'a'", id="large"),
        pytest.param({"offsets": {"a": "/////////////////w8="}}, "the offsets of 'a'", id="endless-number"),
        pytest.param({"offsets": {"a": "gA=="}}, "the offsets of 'a'", id="unended-number"),
        pytest.param({"offsets": {"a": _TOO_MANY}}, "the offsets of", id="too-many"),
        pytest.param({"columns": {"n": [1, 3]}}, "the column 'n'", id="too-long"),
        pytest.param({"columns": {"n": [1, 1]}}, "the column 'n'", id="too-short"),
        pytest.param({"columns": {"n": [1, 10**18]}}, "the column 'n'", id="a-bomb"),
        pytest.param({"columns": {"topic": ["b", 2]}}, "other columns", id="a-place"),
    ],
)
def test_what_is_malformed_is_named(changes: dict[str, Any], says: str) -> None:
    value = {"compact": 1, "offsets": {"a": _text(0, 2, 0, 5, 1, 5)}, "columns": {"n": [1, 2]}}
    assert len(OffsetRanges.parse(rows_in({**value, "columns": {}}, most=2))) == 2
    with pytest.raises(OffsetRangeError, match="the offsets of 'a'"):
        rows_in({**value, "columns": {}}, most=1)

    with pytest.raises(OffsetRangeError, match="Compact ranges must be") as raised:
        rows_in({**value, **changes})
    assert says in str(raised.value)
