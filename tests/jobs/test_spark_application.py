from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from airflow_provider_kafka_spark.jobs.spark_application import import_from_folder

_HOME = Path(pyspark.__file__).parent


def path_after(monkeypatch: pytest.MonkeyPatch, home: Path) -> tuple[str, list[str]]:
    """The zip of a Spark, and where modules are imported from, as ``spark-submit`` begins and after our change."""
    archive = str(home / "python" / "lib" / "pyspark.zip")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(sys, "path", [archive, *sys.path])
    import_from_folder()
    return archive, sys.path


def test_pyspark_is_imported_from_the_folder_of_the_spark_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the zip beside it, Python compiles every module at every start."""
    archive, path = path_after(monkeypatch, _HOME)
    assert archive not in path


def test_another_spark_keeps_its_own_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The PySpark of this environment may be of another version."""
    archive, path = path_after(monkeypatch, tmp_path)
    assert path[0] == archive
