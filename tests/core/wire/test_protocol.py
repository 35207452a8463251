from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.wire.protocol import (
    PROTOCOL_VERSION,
    History,
    JobReport,
    JobRequest,
    RangeReport,
    Transform,
)
from tests.core.job_requests import job_request
from tests.core.refusals import refuses

_SECRET = "hunter2"

_REQUEST = job_request(
    ranges=OffsetRanges.parse(["orders:0:0:10", "orders:1:5:9"]),
    spans=(OffsetRange("orders", 0, 0, 10), OffsetRange("orders", 1, 5, 9)),
    transform=Transform(where="value is not null", columns={"key": "upper(key)"}, topic="copy"),
    source_options={"kafka.sasl.jaas.config": f'x required password="{_SECRET}";'},
    sink_options={"kafka.ssl.key.password": _SECRET},
    event_token=_SECRET,
    report_key=_SECRET,
    history=History(has_begun=True, target_starts={"copy": {"0": 3}}),
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


def _changed(message: JobRequest | JobReport, **changes: Any) -> str:
    return json.dumps({**json.loads(message.to_json()), **changes})


@pytest.mark.parametrize("message", [pytest.param(_REQUEST, id="request"), pytest.param(_REPORT, id="report")])
def test_refuses_what_the_other_side_cannot_mean(message: JobRequest | JobReport) -> None:
    """An option that the other side does not know would be left out in silence. The codec has all rules."""
    kind, remedy = type(message), "let the operator send its own code"
    for version in (PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1, None):
        with refuses(ProtocolError, kind.__name__, f"version {PROTOCOL_VERSION}", f"got {version!r}", remedy):
            kind.from_json(_changed(message, version=version))
    with refuses(ProtocolError, "unknown keys ['colour']", remedy):
        kind.from_json(_changed(message, colour="red"))
    with refuses(ProtocolError, "must be JSON", "of 100: it may be cut off", remedy):
        kind.from_json(message.to_json()[:100])


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
    with pytest.raises(ProtocolError) as error:
        JobRequest.from_json(text)

    assert _SECRET not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_what_is_left_out_is_the_safe_choice() -> None:
    request = job_request()

    assert request.how.fail_on_data_loss
    assert request.how.preserve_order
    assert not request.history.is_retry
    assert request.transform.include_headers
    assert request.transform.provenance.in_headers
    assert not request.transform.preserve_partition
