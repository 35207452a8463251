from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.wire.job_events import JobProgress, RecentRate, take_event
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.jobs import progress
from airflow_provider_kafka_spark.jobs.progress import OverallProgress, ProgressLog, ProgressTeller, remove_progress
from airflow_provider_kafka_spark.submission import progress_file
from airflow_provider_kafka_spark.submission.progress_file import followed_progress, read_progress
from tests.core.job_requests import job_request
from tests.jobs.conftest import Pair
from tests.jobs.runs import SLOW, numbered

_REQUEST = job_request(transform=Transform(topic="copy"), report_uri="")
#: A path without a scheme needs none.
_NO_SPARK: Any = None
RECORDS = 200


@pytest.mark.broker
@pytest.mark.spark
def test_says_how_far_the_copy_is(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    """While it runs, the job says how many records were read, never less than before, and at the end that all were."""
    pair.fill(numbered(RECORDS), in_batch=10)

    pair.copy(RECORDS, source_options=SLOW, progress_seconds=0.2, event_token="token")

    events = [take_event(line, "token")[1] for line in capfd.readouterr().out.splitlines()]
    reported = [event.records for event in events if isinstance(event, JobProgress)]
    assert reported == sorted(reported)
    assert reported[-1] == RECORDS
    assert any(0 < records < RECORDS for records in reported)


def _progress(records: int) -> JobProgress:
    return JobProgress(records, 10, 5.0)


def test_in_cluster_mode_a_file_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a bounded rate. It is gone when the job has ended."""
    monkeypatch.setattr(progress, "_FILE_SECONDS", 0.2)
    request = replace(_REQUEST, report_uri=str(tmp_path / "report.json"))
    teller = ProgressTeller(_NO_SPARK, request)

    teller.keep(_progress(1))
    teller.keep(_progress(2))
    assert read_progress(request.report_uri) == _progress(1)
    time.sleep(0.2)
    teller.keep(_progress(3))
    assert read_progress(request.report_uri) == _progress(3)

    remove_progress(request, None)
    assert list(tmp_path.iterdir()) == []
    assert read_progress(request.report_uri) is None


def test_a_worker_that_watches_needs_no_file(tmp_path: Path) -> None:
    request = replace(_REQUEST, report_uri=str(tmp_path / "report.json"), owner_pid=os.getpid())

    ProgressTeller(_NO_SPARK, request).keep(_progress(1))

    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_refuses_the_file_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    teller = ProgressTeller(_NO_SPARK, replace(_REQUEST, report_uri=str(tmp_path / "file" / "report.json")))

    for records in range(3):
        teller.keep(_progress(records))

    assert capfd.readouterr().err.count("Progress is not in Airflow's log") == 1


def test_a_worker_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no progress is passed over."""
    monkeypatch.setattr(progress_file, "LOOK_SECONDS", 0.01)
    uri, said = str(tmp_path / "report.json"), list[JobProgress]()
    with followed_progress(uri, said.append):
        for text in ("", "[" * 5_000, '{"records": "1"}', _progress(1).to_json(), _progress(1).to_json()):
            (tmp_path / "report.json.progress").write_text(text)
            time.sleep(0.1)

    assert said == [_progress(1)]


class _Monitor:
    """Of a job that reads nothing more."""

    records = 100


def test_the_parts_of_a_stream_have_one_rate(capfd: pytest.CaptureFixture[str]) -> None:
    """Short batches say how fast the whole stream is, with what lies between them, and nothing in its first seconds."""
    teller = ProgressTeller(_NO_SPARK, replace(_REQUEST, event_token="token"))
    now = time.monotonic()
    for recent in (RecentRate(now), RecentRate(now - 20.0)):
        overall = OverallProgress(900, 3_000, recent)
        with ProgressLog(_Monitor(), 100, 60.0, teller, overall):  # type: ignore[arg-type]
            pass

    young, old = (take_event(line, "token")[1] for line in capfd.readouterr().out.splitlines())
    assert isinstance(young, JobProgress)
    assert isinstance(old, JobProgress)
    assert (young.records, young.rate) == (1_000, None)
    assert old.rate == pytest.approx(1_000 / 20.0, rel=0.1)


def test_what_was_delivered_before_counts_for_the_total_and_not_for_the_rate(
    capfd: pytest.CaptureFixture[str],
) -> None:
    teller = ProgressTeller(_NO_SPARK, replace(_REQUEST, event_token="token"))
    # 40 offsets are read no more, and 90 of the 100 others again.
    with ProgressLog(_Monitor(), 100, 60.0, teller, OverallProgress(0, 140).after(40, 90)):  # type: ignore[arg-type]
        time.sleep(0.1)

    progress = take_event(capfd.readouterr().out, "token")[1]
    assert isinstance(progress, JobProgress)
    assert (progress.records, progress.planned, progress.delivered_before) == (140, 140, 130)
    assert progress.rate is not None
    assert progress.rate <= 10 / 0.1
