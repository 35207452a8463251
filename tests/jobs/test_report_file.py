"""The report of a job: whole, and never where nobody is left to read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.handoff.report_mac import verified
from airflow_provider_kafka_spark.core.protocol import JobReport
from airflow_provider_kafka_spark.jobs.report_file import write_report

_KEY = "5ea1" * 16
_REPORT = JobReport("run", "digest", (), (), "application", "4.0.0", 1.0)


def test_a_job_whose_worker_is_gone_does_not_make_its_folder_again(tmp_path: Path) -> None:
    """Another worker has removed it. What is made again is nobody's, and has no private mode."""
    folder = tmp_path / "airflow-kafka-spark-1-2-x"

    with pytest.raises(FileNotFoundError):
        write_report(_REPORT, str(folder / "report.json"), _KEY, None, folder)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_the_author_named_is_made(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "of-today" / "report.json"

    write_report(_REPORT, str(file), _KEY, None, tmp_path / "job")

    assert JobReport.from_json(verified(file.read_text(), _KEY)) == _REPORT
    assert file.stat().st_mode & 0o777 == 0o600
