"""The report of a job: whole, and never where nobody is left to read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.jobs.report_file import remove_file, write_file, write_report

_KEY = "5ea1" * 16
_REPORT = JobReport("run", "digest", (), (), "application", "4.0.0", 1.0)


def test_a_job_whose_worker_is_gone_does_not_make_its_folder_again(tmp_path: Path) -> None:
    """Another worker has removed it. What is made again is nobody's, and has no private mode."""
    folder = tmp_path / "airflow-kafka-spark-1-2-x"

    with pytest.raises(FileNotFoundError):
        write_report(_REPORT, str(folder / "report.json"), _KEY, None, folder)

    assert list(tmp_path.iterdir()) == []


def test_without_spark_a_local_disk_still_gets_it(tmp_path: Path) -> None:
    """The worker must learn why Spark did not start. A folder that the author named is made."""
    file = tmp_path / "reports" / "of-today" / "report.json"
    for place in (str(file), file.as_uri()):
        write_report(_REPORT, place, _KEY, None, tmp_path / "job")

        assert JobReport.from_json(verified(file.read_text(), _KEY)) == _REPORT
        assert file.stat().st_mode & 0o777 == 0o600
        file.unlink()
    with pytest.raises(RuntimeError, match="No Spark"):
        write_report(_REPORT, "s3a://bucket/report.json", _KEY, None, tmp_path / "job")


@pytest.mark.spark
def test_a_file_beside_it_is_replaced_and_removed(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "report.json.progress"
    for text in ("1", "2"):
        write_file(text, file.as_uri(), spark)
        assert file.read_text() == text

    for _ in range(2):
        remove_file(file.as_uri(), spark)
    assert list(tmp_path.iterdir()) == []
