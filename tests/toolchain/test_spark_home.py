"""Promises of :mod:`airflow_provider_kafka_spark.toolchain.spark_home`: the ``spark-submit`` that runs, and its
Spark's version.
"""

from __future__ import annotations

from importlib.metadata import requires, version
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import JarError, SparkSubmitNotFoundError, SparkVersionError
from airflow_provider_kafka_spark.toolchain.spark_home import REQUIRED_SPARK, find_spark_home


@pytest.fixture(autouse=True)
def no_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", "")


def distribution(folder: Path, spark: str = "3.5.6", scala: str = "2.12", binary: str = "spark-submit") -> Path:
    """A folder that is laid out as Spark is."""
    (folder / "bin").mkdir(parents=True)
    (folder / "jars").mkdir()
    (folder / "bin" / binary).write_text("#!/bin/sh\n")
    (folder / "bin" / binary).chmod(0o755)
    (folder / "jars" / f"spark-core_{scala}-{spark}.jar").touch()
    return folder


def test_spark_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, on_path = distribution(tmp_path / "named"), distribution(tmp_path / "on-path", spark="4.0.1", scala="2.13")
    monkeypatch.setenv("SPARK_HOME", str(named))
    monkeypatch.setenv("PATH", str(on_path / "bin"))

    found = find_spark_home()

    assert (found.submit, found.spark_version, found.scala_version) == (named / "bin/spark-submit", "3.5.6", "2.12")


def test_a_link_on_the_path_leads_to_its_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = distribution(tmp_path / "spark-4.1", spark="4.1.0-preview1", scala="2.13")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spark-submit").symlink_to(home / "bin/spark-submit")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    found = find_spark_home()

    assert (found.jars, found.spark_version) == (home / "jars", "4.1.0-preview1")


def test_pyspark_is_found_without_a_path() -> None:
    """A worker whose PATH lacks its environment's bin still finds the spark-submit of the installed pyspark."""
    found = find_spark_home()

    assert found.spark_version == version("pyspark")
    assert found.submit.is_file()


def test_a_mixture_of_two_versions_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two packages has overwritten files of the other; the message has the command that corrects it."""
    metadata = tmp_path / "pyspark_client-4.2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SparkVersionError) as raised:
        find_spark_home()

    assert f"got {version('pyspark')} and 4.2.0" in str(raised.value)
    assert "pip install --force-reinstall --no-deps pyspark==4.0.0 pyspark-client==4.0.0" in str(raised.value)
    # A distribution has a pyspark of its own.
    home = distribution(tmp_path / "spark", "4.1.0", "2.13")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert find_spark_home().spark_version == "4.1.0"


def test_the_required_version_is_the_one_that_is_named() -> None:
    """Of both packages, so that an installation without constraints has a pair that belongs together."""
    required = [r.partition(";") for r in requires("airflow-provider-kafka-spark") or [] if r.startswith("pyspark")]

    versions = {name.strip() for name, _, _ in required}
    assert versions == {f"pyspark-client=={REQUIRED_SPARK}", f"pyspark=={REQUIRED_SPARK}"}
    # Whoever has a Spark installs none.
    assert all("extra ==" in marker for _, _, marker in required)


@pytest.mark.parametrize(
    ("spark", "scala", "minimum_java"),
    [pytest.param("3.5.6", "2.12", 8, id="spark-3"), pytest.param("4.0.0", "2.13", 17, id="spark-4")],
)
def test_connector_and_java_follow_from_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, minimum_java: int
) -> None:
    """The connector is of Spark's own version and Scala's, and the oldest Java is the one this Spark needs."""
    monkeypatch.setenv("SPARK_HOME", str(distribution(tmp_path / "spark", spark, scala)))

    found = find_spark_home()

    assert found.connector_coordinates == (
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{spark}",
    )
    assert found.minimum_java == minimum_java


def test_no_spark_submit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the binary, where it was sought, and what to install. A connection may say spark3-submit;
    without permission to execute it does not count. If no jar has the version, the message says where it searched.
    """
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "gone"))
    with pytest.raises(SparkSubmitNotFoundError, match="'spark2-submit'") as raised:
        find_spark_home("spark2-submit")
    assert str(tmp_path / "gone/bin") in str(raised.value)
    assert "[spark4]" in str(raised.value)

    home = distribution(tmp_path / "spark", binary="spark3-submit")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert find_spark_home("spark3-submit").submit == home / "bin/spark3-submit"
    (home / "bin/spark3-submit").chmod(0o644)
    with pytest.raises(SparkSubmitNotFoundError):
        find_spark_home("spark3-submit")

    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(JarError, match=f"{tmp_path / 'jars'}.*Set SPARK_HOME"):
        find_spark_home()
