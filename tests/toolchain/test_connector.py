from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.connector import PROVIDED, client_jars, connector_jars
from airflow_provider_kafka_spark.toolchain.connector_hashes import CONNECTOR_HASHES
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home


@pytest.mark.parametrize("wanted", [None, PROVIDED])
def test_the_worker_has_a_java_client_of_its_own(wanted: str | None) -> None:
    """What the cluster provides is of no use to a worker, which makes and renews tokens itself."""
    names = " ".join(jar.name for jar in client_jars(wanted))
    assert "kafka-clients-" in names
    assert "jackson-databind-" in names


def test_the_connector_is_known_by_its_content() -> None:
    """That of the tested Spark: a mirror with other jars under these names is refused."""
    home = find_spark_home()
    known = CONNECTOR_HASHES[home.spark_version, home.scala_version]

    found = connector_jars(None)

    assert {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in found} == known


@pytest.mark.process
def test_a_mirror_with_another_connector_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the checksums beside its files fit."""
    home = find_spark_home()
    for coordinate in home.connector_coordinates:
        group, artifact, version = coordinate.split(":")
        folder = tmp_path / "repository" / group.replace(".", "/") / artifact / version
        folder.mkdir(parents=True)
        (folder / f"{artifact}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></project>"
        )
        (folder / f"{artifact}-{version}.jar").write_bytes(b"forged")
    for file in list((tmp_path / "repository").rglob("*.*")):
        if file.is_file():
            file.with_name(f"{file.name}.sha1").write_text(hashlib.sha1(file.read_bytes()).hexdigest())  # noqa: S324
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, (tmp_path / "repository").as_uri())
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "cache"))

    with pytest.raises(JarError, match=r"SHA-256 is known.*commons-pool2-2\.12\.0\.jar.* and 8 more"):
        connector_jars(None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with a connector."""
    found = tmp_path / "above" / "jars"
    found.mkdir(parents=True)
    (found / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch(mode=0o644)
    assert connector_jars(str(found)) == list(found.iterdir())
    return found


@pytest.mark.parametrize("wanted", ["{}", "{}/*.jar"], ids=["folder", "glob"])
@pytest.mark.parametrize("part", [".", "..", "spark-sql-kafka-0-10_2.13-4.0.0.jar"], ids=["folder", "above", "jar"])
def test_a_connector_that_others_may_write_is_refused(folder: Path, part: str, wanted: str) -> None:
    path = folder.parent if part == ".." else folder / part
    path.chmod(0o777)

    with pytest.raises(JarError, match=f"kafka_connector: {path} must belong.*run: chmod go-w {path}"):
        connector_jars(wanted.format(folder))


@pytest.mark.parametrize("kind", ["folder", "coordinate"])
def test_a_connector_of_another_scala_is_named(tmp_path: Path, kind: str) -> None:
    """Before anything runs; its classes would fail in the middle of a job."""
    tmp_path.chmod(0o755)
    (tmp_path / "spark-sql-kafka-0-10_2.12-3.5.7.jar").touch(mode=0o644)
    wanted = str(tmp_path) if kind == "folder" else "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"

    with pytest.raises(JarError, match=r"for Scala 2.13, as Spark 4.0.0 .* for Scala 2.12.*kafka-0-10_2.13:4.0.0"):
        connector_jars(wanted)
