from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import ClassArchiveError
from airflow_provider_kafka_spark.toolchain.class_archive import ClassArchive
from airflow_provider_kafka_spark.toolchain.java import Java, find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

pytestmark = pytest.mark.spark


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """One in a cache of its own, whose path has a space."""
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "my cache"))
    archive = ClassArchive(find_java(), find_spark_home(), "")
    archive.check_folder()
    return archive


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a JVM writes."""
    folder = tmp_path_factory.mktemp("made")
    archive = ClassArchive(find_java(), find_spark_home(), "")
    start_jvm(archive, archive.writing_options(folder))
    return folder / "classes.jsa"


@pytest.fixture(scope="module")
def stored(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has kept it."""
    folder = tmp_path_factory.mktemp("stored")
    shutil.copy(made, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_FOLDER.variable, str(folder / "my cache"))
        archive = ClassArchive(find_java(), find_spark_home(), "")
        archive.check_folder()
        archive.keep(folder)
    assert list(folder.glob("*.jsa")) == []
    return folder / "my cache"


@pytest.fixture
def kept(archive: ClassArchive, stored: Path) -> ClassArchive:
    """In a cache that a test may damage."""
    shutil.copytree(stored, archive.path.parents[1], dirs_exist_ok=True)
    return archive


def start_jvm(archive: ClassArchive, options: str) -> subprocess.CompletedProcess[str]:
    """What a job does, as far as the JVM is concerned: `spark-submit` with the archive's options."""
    environment = {**os.environ, "SPARK_HOME": str(archive.home.jars.parent), "SPARK_SUBMIT_OPTS": options}
    command = [str(archive.home.submit), "--version"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.long
def test_jobs_use_what_was_kept(kept: ClassArchive, tmp_path: Path) -> None:
    """They load their classes from the archive, and nothing is left where it was made."""
    assert kept.is_ready
    assert kept.is_usable(tmp_path)

    job = start_jvm(kept, f"{kept.jvm_options()} -Xlog:class+load")
    assert "shared objects file (top)" in job.stdout


def test_no_job_writes_one(
    archive: ClassArchive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take longer by the time for that. Its log says how an archive is made; it can be switched off."""
    with caplog.at_level(logging.INFO):
        assert [archive.jvm_options() for _ in range(3)] == ["", "", ""]

    assert "`airflow kafka-spark prepare` makes it once" in caplog.messages[0]
    monkeypatch.setenv(CLASS_ARCHIVE.variable, "False")
    assert not archive.is_wanted


@pytest.mark.parametrize("damage", [pytest.param(1_000, id="cut-off"), pytest.param(0, id="empty")])
def test_a_damaged_archive_is_not_used(kept: ClassArchive, tmp_path: Path, damage: int) -> None:
    """A JVM would crash on a truncated one, so its size is compared with what was noted."""
    os.truncate(kept.path, damage)

    assert not kept.is_ready
    assert not kept.is_usable(tmp_path)
    assert kept.jvm_options() == ""


def test_one_of_another_class_path_is_not_usable(kept: ClassArchive, tmp_path: Path) -> None:
    """The JVM would ignore it without a word, and jobs would start as slowly as without."""
    other = ClassArchive(kept.java, kept.home, str(next(kept.home.jars.glob("*.jar"))))
    shutil.copy(kept.path, other.path)
    other.path.with_suffix(".size").write_text(str(other.path.stat().st_size))

    assert other.is_ready
    assert not other.is_usable(tmp_path)


def test_what_no_jvm_starts_with_is_not_kept(archive: ClassArchive, made: Path, tmp_path: Path) -> None:
    """An archive that was cut off by a full disk is tried, and thrown away; a JVM that writes none is named."""
    with pytest.raises(ClassArchiveError, match="it wrote none"):
        archive.keep(tmp_path)
    shutil.copy(made, tmp_path)
    os.truncate(tmp_path / "classes.jsa", made.stat().st_size // 2)

    with pytest.raises(ClassArchiveError, match="A JVM must start with"):
        archive.keep(tmp_path)
    assert not archive.is_ready


@pytest.mark.parametrize("part", [0, 1], ids=["classes", "cache"])
def test_one_that_others_may_write_is_not_used(
    archive: ClassArchive, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    """A job runs without, and the log says why."""
    archive.path.write_bytes(b"forged")
    archive.path.with_suffix(".size").write_text("6")
    assert "SharedArchiveFile" in archive.jvm_options()

    archive.path.parents[part].chmod(0o777)

    assert archive.jvm_options() == ""
    assert "chmod go-w" in caplog.text
    with pytest.raises(ClassArchiveError, match="chmod go-w"):
        archive.check_folder()


def test_the_layer_of_an_image_keeps_it(archive: ClassArchive, tmp_path: Path) -> None:
    """It has the times of files in whole seconds only. A newer Java gets an archive of its own."""
    java = tmp_path / "java"
    java.touch()

    def path_at(ns: int) -> Path:
        os.utime(java, ns=(ns, ns))
        return ClassArchive(Java(java, 17), archive.home, "").path

    second = 1_000_000_000
    assert path_at(7 * second + 5) == path_at(7 * second)
    assert path_at(8 * second) != path_at(7 * second)
