from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import ClassArchiveError
from airflow_provider_kafka_spark.toolchain.java import Java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriterJar:
    """One in a cache of its own, for a Spark and a Kafka client that are empty files."""
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "cache"))
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    client = tmp_path / "kafka-clients.jar"
    client.touch()
    return WriterJar(Java(Path("/java"), 17), SparkHome(tmp_path / "submit", jars, "4.0.0", "2.13"), str(client))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """What a driver has compiled."""
    jar = tmp_path / "made.jar"
    jar.write_bytes(b"classes")
    return jar


@pytest.fixture
def kept(writer: WriterJar, made: Path) -> WriterJar:
    writer.keep(made)
    return writer


def test_jobs_find_what_was_kept(writer: WriterJar, made: Path) -> None:
    assert writer.find() is None
    assert writer.extended_class_path() == writer.class_path

    writer.keep(made)

    assert writer.find() == writer.path
    assert writer.path.read_bytes() == b"classes"
    assert writer.extended_class_path() == f"{writer.class_path}:{writer.path}"
    assert [path.stat().st_mode & 0o777 for path in (writer.path.parent, *writer.path.parents[1:3])] == [0o700] * 3
    assert [path.name for path in writer.path.parents[1].iterdir()] == [writer.path.parent.name]


@pytest.mark.parametrize("content", [b"clas", b"CLASSES"], ids=["cut-off", "other"])
def test_a_damaged_jar_is_not_used(
    kept: WriterJar, made: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """Its content is that of its record, or the writer is compiled, and replaced; the log says so."""
    kept.path.write_bytes(content)

    assert kept.find() is None
    assert kept.extended_class_path() == kept.class_path
    assert "The writer is compiled for this job" in caplog.text
    kept.keep(made)
    assert kept.find() == kept.path


@pytest.mark.parametrize("missing", ["jars.sha256", "writer.jar"])
def test_half_of_one_is_not_used(kept: WriterJar, missing: str) -> None:
    (kept.path.parent / missing).unlink()

    assert kept.find() is None


@pytest.mark.parametrize("part", [0, 1, 2], ids=["writer", "classes", "cache"])
def test_one_that_others_may_write_is_not_used(kept: WriterJar, caplog: pytest.LogCaptureFixture, part: int) -> None:
    kept.path.parents[part].chmod(0o777)

    with caplog.at_level(logging.WARNING):
        assert kept.find() is None
    assert "chmod go-w" in caplog.text


def test_others_have_another_jar(kept: WriterJar) -> None:
    """The classes fit one Java, one Spark and one Kafka client, wherever that lies, also in a folder of jars or among
    Spark's own.
    """
    client = Path(kept.class_path)
    in_folder = replace(kept, class_path=f"{client.parent}/*")
    before, of_folder = kept.path, in_folder.path

    assert replace(kept, java=Java(Path("/java"), 21)).path != before
    assert replace(kept, java=Java(Path("/other/java"), 17)).path == before
    assert replace(kept, home=replace(kept.home, spark_version="4.0.1")).path != before
    assert replace(kept, class_path=str(client.with_name("other.jar"))).path != before
    client.write_bytes(b"another client")
    assert kept.find() is None
    assert kept.path != before
    assert in_folder.path != of_folder
    before = kept.path
    (kept.home.jars / "kafka-clients-3.9.1.jar").touch()
    assert kept.path != before


def test_the_layer_of_an_image_keeps_it(writer: WriterJar) -> None:
    """It has the times of files in whole seconds only."""
    second = 1_000_000_000

    def path_at(ns: int) -> Path:
        os.utime(writer.class_path, ns=(ns, ns))
        return writer.path

    assert path_at(7 * second + 5) == path_at(7 * second)
    assert path_at(8 * second) != path_at(7 * second)


def test_what_cannot_be_kept_is_named(writer: WriterJar, tmp_path: Path) -> None:
    with pytest.raises(ClassArchiveError, match=r"The writer's classes must be kept in .*No such file"):
        writer.keep(tmp_path / "nothing.jar")
    assert writer.find() is None
