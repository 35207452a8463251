from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.protocol import (
    PROTOCOL_VERSION,
    JobReport,
    JobRequest,
    RangeReport,
    Transform,
)
from tests.dataclass_values import values_of

_SECRET = "hunter2"

_REQUEST = JobRequest(
    run_id="0123456789abcdef",
    instance="instance",
    submission=1,
    plan_digest="fedcba9876543210",
    ranges=("orders:0:0:10", "orders:1:5:9"),
    spans=(OffsetRange("orders", 0, 0, 10), OffsetRange("orders", 1, 5, 9)),
    transform=Transform(where="value is not null", columns={"key": "upper(key)"}, topic="copy"),
    source_options={"kafka.sasl.jaas.config": f'x required password="{_SECRET}";'},
    sink_options={"kafka.ssl.key.password": _SECRET},
    report_uri="report.json",
    event_token=_SECRET,
    report_key=_SECRET,
    is_retry=True,
    audit_from={"copy": {"0": 3}},
    forbidden_targets=("orders",),
)
_REPORT = JobReport(
    run_id="0123456789abcdef",
    plan_digest="fedcba9876543210",
    ranges=(RangeReport(OffsetRange("orders", 0, 0, 10), 9, 8), RangeReport(OffsetRange("orders", 1, 5, 9), 4, 4)),
    target_topics=("copy",),
    application_id="local-1",
    spark_version="4.0.1",
    seconds=1.5,
    warnings=("mind this",),
)

_RANGE = json.loads(_REPORT.to_json())["ranges"][0]
_OFFSETS = _RANGE["offset_range"]


@given(values_of(JobRequest))
def test_a_request_reads_back(request: JobRequest) -> None:
    """The driver gets what the worker sent, whatever characters are in it."""
    assert JobRequest.from_json(request.to_json()) == request


@given(values_of(JobReport))
def test_a_report_reads_back(report: JobReport) -> None:
    """The worker gets what the driver reported."""
    assert JobReport.from_json(report.to_json()) == report


def test_the_wire_form_is_ascii_with_sorted_keys() -> None:
    """Any file encoding carries it, and the same message is the same bytes."""
    text = replace(_REQUEST, report_uri="bericht-ü.json").to_json()

    assert text.isascii()
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_a_request_shows_no_secret() -> None:
    """A request in a log or traceback shows what is copied, and no login."""
    for shown in (repr(_REQUEST), str(_REQUEST), f"{(_REQUEST,)}"):
        assert _SECRET not in shown
        assert "jaas" not in shown
        assert "orders:0:0:10" in shown


def test_the_ranges_of_a_request_are_ranges() -> None:
    """What crossed as text is an algebra again on the other side."""
    assert _REQUEST.offset_ranges == OffsetRanges.parse(["orders:0:0:10", "orders:1:5:9"])


@pytest.mark.parametrize(
    ("transform", "drops"),
    [
        pytest.param(Transform(), False, id="nothing"),
        pytest.param(Transform(columns={"key": "null"}, topic_expr="topic"), False, id="columns-and-topic"),
        pytest.param(Transform(where="true"), True, id="where"),
        pytest.param(Transform(window_start_ms=0), True, id="window-start"),
        pytest.param(Transform(window_end_ms=0), True, id="window-end"),
    ],
)
def test_knows_whether_records_may_be_dropped(transform: Transform, drops: bool) -> None:
    """Only a predicate or an exact window excuses that fewer are written than read; a window may start at 0 ms."""
    assert transform.drops_records is drops


def test_counts_add_up_over_ranges() -> None:
    """Totals are sums over the ranges, and a gap is an offset without a record."""
    assert (_REPORT.records_read, _REPORT.records_written) == (13, 12)
    assert [r.gaps for r in _REPORT.ranges] == [1, 0]


_KINDS = pytest.mark.parametrize("message", [pytest.param(_REQUEST, id="request"), pytest.param(_REPORT, id="report")])


def _changed(message: JobRequest | JobReport, **changes: Any) -> str:
    return json.dumps({**json.loads(message.to_json()), **changes})


@_KINDS
@pytest.mark.parametrize("version", [0, PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1, str(PROTOCOL_VERSION), None])
def test_refuses_another_version(message: JobRequest | JobReport, version: object) -> None:
    """A driver that runs other code must not guess; the message says what both speak and what to do."""
    with pytest.raises(ProtocolError) as error:
        type(message).from_json(_changed(message, version=version))

    for fragment in (
        type(message).__name__,
        f"version {PROTOCOL_VERSION}",
        f"got {version!r}",
        "let the operator send its own code",
    ):
        assert fragment in str(error.value)


@_KINDS
def test_refuses_unknown_keys(message: JobRequest | JobReport) -> None:
    """An option that the other side does not know would be left out in silence."""
    with pytest.raises(ProtocolError, match=r"unknown keys \['colour'\]"):
        type(message).from_json(_changed(message, colour="red"))


@_KINDS
@pytest.mark.parametrize("key", ["run_id", "plan_digest", "ranges"])
def test_refuses_a_message_that_lacks_something(message: JobRequest | JobReport, key: str) -> None:
    """What has no default must be there."""
    value = json.loads(message.to_json())
    del value[key]

    with pytest.raises(ProtocolError, match=rf"lacks \['{key}'\]"):
        type(message).from_json(json.dumps(value))


@pytest.mark.parametrize(
    ("message", "changes", "fragment"),
    [
        pytest.param(_REQUEST, {"transform": None}, ".transform must be an object; got NoneType", id="transform-null"),
        pytest.param(_REQUEST, {"transform": {"wher": "x"}}, "of a Transform; it has unknown keys ['wher']", id="typo"),
        pytest.param(_REQUEST, {"spans": ["orders"]}, "spans[0] must be an object; got str", id="span-as-text"),
        pytest.param(
            _REQUEST, {"spans": [{"topic": "o"}]}, "lacks ['from_offset', 'partition', 'until_offset']", id="span-short"
        ),
        pytest.param(_REPORT, {"ranges": [[1]]}, ".ranges[0] must be an object; got list", id="range-as-list"),
        pytest.param(
            _REPORT, {"target_ranges": [{**_OFFSETS, "from_offset": 11}]}, "must not be reversed", id="reversed"
        ),
        pytest.param(
            _REPORT,
            {"ranges": [{**_RANGE, "offset_range": {**_OFFSETS, "topic": "x" * 4000 + "!"}}]},
            "JobReport.ranges[0].offset_range is malformed: A topic name",
            id="no-topic",
        ),
        pytest.param(_REPORT, {"failure": "boom"}, ".failure must be an object; got str", id="failure-as-text"),
        pytest.param(_REPORT, {"failure": {"error": "x"}}, "lacks ['message']", id="failure-short"),
    ],
)
def test_refuses_malformed_parts(message: JobRequest | JobReport, changes: dict[str, Any], fragment: str) -> None:
    """The parts of a message are held to their shape like the whole, and named."""
    with pytest.raises(ProtocolError) as error:
        type(message).from_json(_changed(message, **changes))

    assert fragment in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        pytest.param(_REPORT, {"ranges": 5}, id="ranges-a-number"),
        pytest.param(_REPORT, {"target_topics": None}, id="topics-null"),
        pytest.param(_REPORT, {"target_topics": "copy"}, id="topics-a-text-becomes-letters"),
        pytest.param(_REQUEST, {"ranges": "orders:0:0:10"}, id="ranges-a-text-becomes-letters"),
        pytest.param(_REQUEST, {"spans": None}, id="spans-null"),
        pytest.param(_REQUEST, {"spans": {}}, id="spans-an-object"),
        pytest.param(_REQUEST, {"spans": [None]}, id="span-null"),
        pytest.param(_REQUEST, {"ranges": [5]}, id="ranges-of-numbers"),
        pytest.param(_REQUEST, {"forbidden_targets": "orders"}, id="forbidden-a-text"),
        pytest.param(_REQUEST, {"forbidden_targets": [None]}, id="forbidden-null"),
        pytest.param(_REPORT, {"ranges": ["orders:0:0:10"]}, id="ranges-as-texts"),
        pytest.param(_REPORT, {"target_topics": [1]}, id="topics-of-numbers"),
        pytest.param(_REPORT, {"version": True}, id="version-true"),
        pytest.param(_REQUEST, {"version": True}, id="request-version-true"),
    ],
)
def test_refuses_lists_that_are_none(message: JobRequest | JobReport, changes: dict[str, Any]) -> None:
    """What should be a list and is not is the same named error."""
    with pytest.raises(ProtocolError):
        type(message).from_json(_changed(message, **changes))


@pytest.mark.parametrize(
    ("message", "changes", "name"),
    [
        pytest.param(_REPORT, {"ranges": [{**_RANGE, "records_written": -1}]}, "records_written", id="negative-count"),
        pytest.param(
            _REPORT,
            {"ranges": [{**_RANGE, "offset_range": {**_OFFSETS, "until_offset": 2**63}}]},
            "until_offset",
            id="offset-too-large",
        ),
        pytest.param(_REPORT, {"ranges": [{**_RANGE, "records_read": 10**3999}]}, "records_read", id="4000-digits"),
        pytest.param(_REPORT, {"seconds": float("nan")}, "seconds", id="nan"),
        pytest.param(_REPORT, {"seconds": float("inf")}, "seconds", id="infinity"),
        pytest.param(_REPORT, {"duplicates": -5}, "duplicates", id="negative-duplicates"),
        pytest.param(_REQUEST, {"owner_pid": -1}, "owner_pid", id="every-process"),
    ],
)
def test_refuses_numbers_that_cannot_be(message: JobRequest | JobReport, changes: dict[str, Any], name: str) -> None:
    """A report may lie where others can write; the message stays short, whatever is in it."""
    with pytest.raises(ProtocolError, match=rf"\.{name} must be an? \w+ from 0 to 9223372036854775807") as error:
        type(message).from_json(_changed(message, **changes))

    assert len(str(error.value)) < 400


@_KINDS
@pytest.mark.parametrize("changes", [{"version": "9" * 4000}, {"x" * 4000: 1}], ids=["version", "unknown-key"])
def test_shows_little_of_a_message_that_is_none(message: JobRequest | JobReport, changes: dict[str, Any]) -> None:
    """Thousands of characters from a file of others do not get into the log."""
    with pytest.raises(ProtocolError) as error:
        type(message).from_json(_changed(message, **changes))

    assert len(str(error.value)) < 400


@_KINDS
@pytest.mark.parametrize("text", ["[]", "null", "1", '"x"', "{}"])
def test_refuses_json_that_is_no_message(message: JobRequest | JobReport, text: str) -> None:
    """Any other JSON is a message of no version."""
    with pytest.raises(ProtocolError, match=f"must be of version {PROTOCOL_VERSION}"):
        type(message).from_json(text)


@_KINDS
@pytest.mark.parametrize("length", [0, 1, 100])
def test_refuses_half_a_message(message: JobRequest | JobReport, length: int) -> None:
    """A file that was cut off is said to be, at which character, in a named error."""
    with pytest.raises(ProtocolError) as error:
        type(message).from_json(message.to_json()[:length])

    assert "must be JSON" in str(error.value)
    assert f"of {length}" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_REQUEST.to_json()[:-1], id="cut-off"),
        pytest.param(_changed(_REQUEST, version=1), id="other-version"),
        pytest.param(_changed(_REQUEST, colour="red"), id="unknown-key"),
        pytest.param(_changed(_REQUEST, transform=_SECRET), id="malformed-part"),
    ],
)
def test_an_unreadable_request_gives_away_no_secret(text: str) -> None:
    """Neither the message nor a cause that a traceback would show repeats what is in the file."""
    with pytest.raises(ProtocolError) as error:
        JobRequest.from_json(text)

    assert _SECRET not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_what_is_left_out_is_the_safe_choice() -> None:
    """A request that says no more than it must loses nothing, keeps the order, and is a first try."""
    request = JobRequest("r", "i", 1, "d", (), (), Transform(), {}, {}, "report.json")

    assert request.fail_on_data_loss
    assert request.preserve_order
    assert not request.is_retry
    assert request.transform.include_headers
    assert request.transform.has_provenance_headers
    assert not request.transform.preserve_partition


def test_a_report_that_says_no_more_claims_nothing() -> None:
    """No duplicates, no lost tasks and nothing delivered before, unless the job counted some."""
    assert (_REPORT.delivered_before, _REPORT.duplicates, _REPORT.failed_tasks) == (0, 0, 0)
