from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from airflow_provider_kafka_spark.core.wire.job_events import (
    JobEvent,
    JobProgress,
    JobStarted,
    RecentRate,
    format_event,
    is_web_address,
    take_event,
)
from tests.dataclass_values import values_of

_EVENTS = values_of(JobStarted) | values_of(JobProgress)
_TOKEN = "0123456789abcdef"


@given(_EVENTS)
def test_an_event_reads_back(event: JobEvent) -> None:
    line = format_event(event, _TOKEN)
    before, taken = take_event(line, _TOKEN)

    assert before == ""
    # Output is read line by line, so no text in an event may break its line.
    assert len(line.splitlines()) == 1
    if isinstance(event, JobStarted) and event.ui_url is not None and not is_web_address(event.ui_url):
        event = replace(event, ui_url=None)
    assert taken == event


@given(_EVENTS)
def test_an_event_without_the_token_is_none(event: JobEvent) -> None:
    for token in ("", "0123456789abcdeF", f"{_TOKEN}0"):
        line = format_event(event, token)
        assert take_event(line, _TOKEN) == (line.replace(_TOKEN, "***"), None)


@pytest.mark.parametrize(
    ("address", "is_link"),
    [
        pytest.param("https://rm.example.com:8090/cluster/app/application_1_1", True, id="manager"),
        pytest.param("http://[::1]:4040/", True, id="ipv6"),
        pytest.param("javascript:alert(1)", False, id="javascript"),
        pytest.param("http://driver:4040@evil.example/", False, id="user"),
        pytest.param("http://driver:4040/\n", False, id="line-break"),
        pytest.param("http://dr\u0456ver:4040/", False, id="unicode"),
    ],
)
def test_a_link_is_http(address: str, is_link: bool) -> None:
    event = JobStarted("local-1", address)

    taken = take_event(format_event(event, _TOKEN), _TOKEN)[1]

    assert taken == (event if is_link else JobStarted("local-1", None))


_STARTED = format_event(JobStarted("local-1", None), _TOKEN)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("25/11/20 09:00:00 INFO SparkContext: Running Spark version 4.0.1", id="sparks-log"),
        pytest.param(_STARTED[:-5], id="cut-off"),
        pytest.param(_STARTED + _STARTED, id="two-run-together"),
        pytest.param(_STARTED.replace("started", "stopped"), id="unknown-kind"),
        pytest.param(_STARTED.replace("ui_url", "colour"), id="unknown-field"),
        pytest.param(_STARTED.replace('"ui_url": null', '"x": 1'), id="field-missing"),
        pytest.param(_STARTED.split("{")[0] + "[1]", id="a-list"),
        pytest.param(_STARTED.split("{")[0] + '{"event": ["started"]}', id="kind-a-list"),
    ],
)
def test_anything_else_is_no_event(line: str) -> None:
    """Spark's own log and damaged lines are passed over, never an error; what goes to the log has no token."""
    assert take_event(line, _TOKEN) == (line.replace(_TOKEN, "***"), None)


def test_an_event_may_follow_on_an_unfinished_line() -> None:
    """Java and Python write to the same pipe."""
    assert take_event("INFO half a li" + _STARTED, _TOKEN) == ("INFO half a li", JobStarted("local-1", None))


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        pytest.param(
            JobProgress(250_000, 1_000_000, 10.0, 25_000.0),
            "25%: 250,000 of at most 1,000,000 records, 25,000 records/s, about 30 s left",
            id="underway",
        ),
        pytest.param(JobProgress(3, 10, 20.0, 0.0), "30%: 3 of at most 10 records, 0 records/s", id="stands-still"),
        pytest.param(
            JobProgress(378_484, 3_000_000, 12.0, 10_000.0, 378_000),
            "12%: 378,484 of at most 3,000,000 records with those of earlier tries, 10,000 records/s, about 262 s left",
            id="resumed",
        ),
        pytest.param(
            JobProgress(128_005, 4_000_000, 12.0, None, 1_541_878),
            "38%: 1,541,878 of at most 4,000,000 records with those of earlier tries",
            id="reads-again-what-was-committed",
        ),
        pytest.param(JobProgress(0, 0, 0.0), "100%: 0 of at most 0 records", id="nothing-planned"),
        pytest.param(
            JobProgress(29, 100, 1.0, 29.0),
            "29%: 29 of at most 100 records, 29 records/s, about 2 s left",
            id="no-percent-lost-to-floating-point",
        ),
        pytest.param(JobProgress(12, 10, 2.0, 6.0), "100%: 12 of at most 10 records, 6 records/s", id="counted-twice"),
    ],
)
def test_shows_progress_to_a_person(progress: JobProgress, shown: str) -> None:
    assert str(progress) == shown


def test_the_rate_is_that_of_late() -> None:
    """Nothing is said of the first seconds, a pause is seen, and slow lines reach back to the one before."""
    rate = RecentRate(100.0, window=30.0, warm_up=10.0)

    assert [rate.at(100.0 + second, 50 * second) for second in (5, 10, 20)] == [None, 50.0, 50.0]
    assert rate.at(150.0, 1_000) == 0.0
    assert rate.at(250.0, 2_000) == 10.0
    assert RecentRate(0.0, warm_up=0.0).at(0.0, 5) is None
