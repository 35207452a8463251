from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import BoundError
from airflow_provider_kafka_spark.core.topics.bounds import (
    SMALLEST_EPOCH_MS,
    AtOffset,
    Earliest,
    Latest,
    RequestedOffset,
    Side,
    TimeWindow,
    iso,
    parse_bound,
    parse_timestamp,
)
from airflow_provider_kafka_spark.core.topics.starts import parse_any_start
from tests.core.refusals import refuses

# 2026-11-20 09:00 UTC
_MOMENT_MS = 1_795_165_200_000


@pytest.mark.parametrize(
    ("value", "epoch_ms"),
    [
        pytest.param("2026-11-20T09:00:00z", _MOMENT_MS, id="iso-small-z"),
        pytest.param(_MOMENT_MS, _MOMENT_MS, id="epoch-ms"),
        pytest.param(str(_MOMENT_MS), _MOMENT_MS, id="epoch-ms-as-text"),
        # A number that might be in seconds has a narrower range than a moment in words.
        pytest.param(SMALLEST_EPOCH_MS, SMALLEST_EPOCH_MS, id="smallest-number"),
        pytest.param(10**14, 10**14, id="largest-number"),
        pytest.param("1970-01-01T00:00:00Z", 0, id="first"),
        pytest.param("5138-11-16T09:46:40.000999Z", 10**14, id="last-with-microseconds"),
    ],
)
def test_reads_a_moment_in_every_form(value: object, epoch_ms: int) -> None:
    assert parse_timestamp(value, "starting_timestamp") == epoch_ms


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(5138, 11, 15), timezones=st.timezones()))
def test_keeps_every_millisecond(moment: datetime) -> None:
    expected = (moment.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(
        milliseconds=1
    )

    assert parse_timestamp(moment, "t") == expected
    assert parse_timestamp(moment.astimezone(timezone.utc).isoformat(), "t") == expected


@given(st.integers(0, 10**14))
def test_a_shown_moment_reads_back(epoch_ms: int) -> None:
    """What messages show can be pasted as a parameter."""
    shown = iso(epoch_ms)

    assert parse_timestamp(shown, "t") == epoch_ms
    assert shown.endswith(f".{epoch_ms % 1000:03d}Z")


@pytest.mark.parametrize(
    ("value", "fragments"),
    [
        pytest.param(datetime(2026, 11, 20), ["must have a time zone", "naive"], id="naive-datetime"),
        pytest.param(1_795_165_200, ["milliseconds", "1795165200", "seconds; multiply by 1000"], id="seconds"),
        pytest.param(10**14 + 1, ["microseconds; divide by 1000"], id="just-above-the-largest"),
        pytest.param(True, ["of type bool"], id="boolean"),
        pytest.param("yesterday", ["ISO 8601", "'yesterday'"], id="word"),
        pytest.param("", ["ISO 8601", "data interval", "CronDataIntervalTimetable"], id="empty-text"),
        pytest.param(
            "\u0661\u0667\u0669\u0665\u0661\u0666\u0665\u0662\u0660\u0660\u0660\u0660\u0660",
            ["ISO 8601"],
            id="arabic-digits",
        ),
        # Kafka knows no time before 1970: to it, -1 and -2 are words for latest and earliest.
        pytest.param("1969-12-31T23:59:59.999Z", ["lie between 1970 and 5138; got "], id="minus-one-is-latest"),
        pytest.param("5138-11-16T09:46:40.001Z", ["lie between 1970 and 5138; got "], id="one-millisecond-too-late"),
    ],
)
def test_refuses_what_is_no_moment(value: object, fragments: list[str]) -> None:
    with refuses(BoundError, "ending_timestamp must ", *fragments):
        parse_timestamp(value, "ending_timestamp")


def test_a_window_has_a_width() -> None:
    """In Airflow 3 a cron string gives windows without a width: the message says what to schedule with."""
    for start, end in [(_MOMENT_MS, _MOMENT_MS + 1), (_MOMENT_MS, None), (None, _MOMENT_MS), (None, None)]:
        TimeWindow(start, end)
    with refuses(
        BoundError,
        "zero width",
        "2026-11-20T09:00:00.000Z",
        "CronDataIntervalTimetable",
        "CronTriggerTimetable(..., interval=",
    ):
        TimeWindow(_MOMENT_MS, _MOMENT_MS)
    with refuses(BoundError, "must not be reversed", "2026-11-20T09:00:01.000Z lies after", "09:00:00.000Z") as error:
        TimeWindow(_MOMENT_MS + 1_000, _MOMENT_MS)
    assert "Timetable" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "side", "expected"),
    [
        pytest.param({"o": {"0": 23}}, "start", {"o[0]": AtOffset(23)}, id="offset"),
        pytest.param(parse_bound({"o": {"0": 3}}, "end"), "end", {"o[0]": AtOffset(3)}, id="parsed-already"),
        pytest.param({"o": {"0": -2}}, "start", {"o[0]": Earliest()}, id="sparks-earliest"),
        pytest.param({"o": {"0": -1}}, "end", {"o[0]": Latest()}, id="sparks-latest"),
        pytest.param(
            '{"o": {"0": 1}, "p.q": {"12": 2}}', "end", {"o[0]": AtOffset(1), "p.q[12]": AtOffset(2)}, id="json"
        ),
    ],
)
def test_reads_sparks_offsets(value: object, side: Side, expected: dict[str, RequestedOffset]) -> None:
    bound = parse_bound(value, side)

    assert {str(p): requested for p, requested in bound.by_partition.items()} == expected
    assert bound.default is None


def test_offsets_may_say_of_which_topic_they_are() -> None:
    """As a sensor returns them; a topic may have that name."""
    value = {"o": {"0": 23, "topic_id": "id"}, "topic_id": {"0": 1}}
    bound = parse_bound(json.dumps(value), "start")

    assert bound.topic_ids == {"o": "id"}
    assert parse_bound(bound.to_json(), "start") == bound
    assert bound.to_json() == value


_REFUSED = [
    pytest.param(
        "latest", "start", ["starting_offsets='latest' would copy nothing", "'earliest'"], id="start-at-latest"
    ),
    pytest.param("earliest", "end", ["ending_offsets='earliest' would copy nothing", "'latest'"], id="end-at-earliest"),
    pytest.param({"o": {"0": -1}}, "start", ["-2 for the earliest", "o[0]", "got -1"], id="start-at-minus-one"),
    pytest.param({"o": {"0": -2}}, "end", ["-1 for the latest", "o[0]", "got -2"], id="end-at-minus-two"),
    pytest.param({"o": {"0": "23"}}, "start", ["got '23' of type str"], id="offset-as-text"),
    pytest.param({"o": {"x": 1}}, "start", ["partitions by number", "'x'", "'o'"], id="partition-as-word"),
    pytest.param({"o": {"topic_id": 7}}, "start", ["partitions by number", "'topic_id'"], id="number-as-topic-id"),
    pytest.param({"o": {"\u0661": 1}}, "start", ["partitions by number"], id="arabic-partition"),
    pytest.param({"o": {"0": 1, 0: 2}}, "start", ["o[0] twice"], id="partition-as-text-and-number"),
    pytest.param({"o": 5}, "start", ["offsets by partition", "got 5 for topic 'o'"], id="no-partitions"),
    pytest.param(None, "end", ["ending_offsets must be 'latest' or offsets", "None"], id="null"),
    pytest.param("erliest", "start", ["'earliest'", "'erliest'", "not JSON"], id="misspelt"),
    pytest.param("[" * 100_000, "start", ["not JSON"], id="json-too-deep"),
]


@pytest.mark.parametrize(("value", "side", "fragments"), _REFUSED)
def test_refuses_what_is_no_bound(value: object, side: Side, fragments: list[str]) -> None:
    with refuses(BoundError, "starting_offsets" if side == "start" else "ending_offsets", *fragments):
        parse_bound(value, side)


@pytest.mark.parametrize(
    ("value", "fragments"),
    [
        pytest.param(None, ["'earliest', 'latest', offsets such as", "got None"], id="null"),
        pytest.param({}, ["offsets such as", "got {}"], id="empty-dict"),
    ],
)
def test_refuses_what_is_no_start(value: object, fragments: list[str]) -> None:
    with refuses(BoundError, "reset_checkpoint_to ", *fragments) as error:
        parse_any_start(value, name="reset_checkpoint_to")

    assert "starting_offsets" not in str(error.value)
