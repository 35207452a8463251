from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.submission.job_events import (
    JobEvent,
    JobProgress,
    JobStarted,
    format_event,
    parse_event,
)

_COUNTS = st.integers(0, 2**63 - 1)
_EVENTS = st.builds(JobStarted, st.text(), st.none() | st.text()) | st.builds(
    JobProgress, _COUNTS, _COUNTS, st.floats(0, 1e9)
)


@given(_EVENTS)
def test_an_event_reads_back(event: JobEvent) -> None:
    """The worker learns what the driver said."""
    assert parse_event(format_event(event)) == event


@given(_EVENTS)
def test_an_event_is_one_line(event: JobEvent) -> None:
    """Output is read line by line, so no text in an event may break its line."""
    assert len(format_event(event).splitlines()) == 1


_STARTED = format_event(JobStarted("local-1", None))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="empty"),
        pytest.param("25/11/20 09:00:00 INFO SparkContext: Running Spark version 4.0.1", id="sparks-log"),
        pytest.param("INFO " + _STARTED, id="quoted-in-another-line"),
        pytest.param(_STARTED[:-5], id="cut-off"),
        pytest.param(_STARTED + _STARTED, id="two-run-together"),
        pytest.param(_STARTED.replace("started", "stopped"), id="unknown-kind"),
        pytest.param(_STARTED.replace("ui_url", "colour"), id="unknown-field"),
        pytest.param(_STARTED.replace('"ui_url": null', '"x": 1'), id="field-missing"),
        pytest.param(_STARTED.split("{")[0] + "[1]", id="a-list"),
        pytest.param(_STARTED.split("{")[0] + "null", id="null"),
        pytest.param(_STARTED.split("{")[0] + "{}", id="no-kind"),
        pytest.param(_STARTED.split("{")[0] + '{"event": ["started"]}', id="kind-a-list"),
    ],
)
def test_anything_else_is_no_event(line: str) -> None:
    """Spark's own log and damaged lines are passed over, never an error."""
    assert parse_event(line) is None


_PROGRESS = {"event": "progress", "records": 1, "planned": 2, "seconds": 3.0}
_HUGE = 10**400


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({**_PROGRESS, "planned": "two"}, id="word-for-a-number"),
        pytest.param({**_PROGRESS, "records": "1"}, id="number-as-text"),
        pytest.param({**_PROGRESS, "records": None}, id="null"),
        pytest.param({**_PROGRESS, "planned": True}, id="boolean"),
        pytest.param({**_PROGRESS, "seconds": False}, id="boolean-seconds"),
        pytest.param({**_PROGRESS, "seconds": [3.0]}, id="list"),
        pytest.param({**_PROGRESS, "records": 1.5}, id="half-a-record"),
        pytest.param({**_PROGRESS, "planned": 2.0}, id="fraction-planned"),
        pytest.param({**_PROGRESS, "records": -1}, id="negative"),
        pytest.param({**_PROGRESS, "records": float("-inf")}, id="infinity-records"),
        pytest.param({**_PROGRESS, "seconds": float("inf")}, id="infinity"),
        pytest.param({**_PROGRESS, "seconds": float("nan")}, id="not-a-number"),
        pytest.param({**_PROGRESS, "records": _HUGE}, id="more-records-than-a-float-holds"),
        pytest.param({**_PROGRESS, "seconds": _HUGE}, id="more-seconds-than-a-float-holds"),
        pytest.param({"event": "started", "application_id": 5, "ui_url": None}, id="application-a-number"),
        pytest.param({"event": "started", "application_id": None, "ui_url": None}, id="application-null"),
        pytest.param({"event": "started", "application_id": "a", "ui_url": 4040}, id="address-a-number"),
        pytest.param({"event": "started", "application_id": "a", "ui_url": ["u"]}, id="address-a-list"),
    ],
)
def test_an_event_with_fields_of_other_types_is_no_event(fields: dict[str, object]) -> None:
    """A damaged line cannot stop the thread that follows the log."""
    assert parse_event(_STARTED.split("{")[0] + json.dumps(fields)) is None


@given(_EVENTS)
def test_every_event_can_be_shown(event: JobEvent) -> None:
    """Whatever passes as an event has words, whatever its counts are."""
    parsed = parse_event(format_event(event))

    assert str(parsed)
    if isinstance(parsed, JobProgress) and parsed.planned:
        assert str(parsed).startswith("100%") == (parsed.records >= parsed.planned)


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        pytest.param(
            JobProgress(250_000, 1_000_000, 10.0),
            "25%: 250,000 of at most 1,000,000 records, 25,000 records/s, about 30 s left",
            id="underway",
        ),
        pytest.param(JobProgress(10, 10, 2.0), "100%: 10 of at most 10 records, 5 records/s", id="done"),
        pytest.param(JobProgress(0, 10, 2.0), "0%: 0 of at most 10 records, 0 records/s", id="nothing-yet"),
        pytest.param(JobProgress(5, 10, 0.0), "50%: 5 of at most 10 records, 0 records/s", id="no-time-passed"),
        pytest.param(JobProgress(0, 0, 0.0), "100%: 0 of at most 0 records, 0 records/s", id="nothing-planned"),
        pytest.param(
            JobProgress(999_999, 1_000_000, 1.0),
            "99%: 999,999 of at most 1,000,000 records, 999,999 records/s, about 0 s left",
            id="one-short-of-all-is-not-100",
        ),
        pytest.param(
            JobProgress(29, 100, 1.0),
            "29%: 29 of at most 100 records, 29 records/s, about 2 s left",
            id="no-percent-lost-to-floating-point",
        ),
        pytest.param(JobProgress(12, 10, 2.0), "100%: 12 of at most 10 records, 6 records/s", id="counted-twice"),
    ],
)
def test_shows_progress_to_a_person(progress: JobProgress, shown: str) -> None:
    """Share, counts, rate, and time left while there is some; no division by zero."""
    assert str(progress) == shown
