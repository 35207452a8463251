from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.toolchain.class_archive import ClassArchive
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

pytestmark = pytest.mark.spark


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """One in a cache of its own, whose path has a space."""
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "my cache"))
    return ClassArchive(find_java(), find_spark_home(), "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the second job of a machine makes."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_FOLDER.variable, str(folder / "cache"))
        archive = ClassArchive(find_java(), find_spark_home(), "")
        # The first job makes none.
        archive.jvm_options(folder)
        start_jvm(archive, folder)
    return folder / "classes.jsa"


def start_jvm(archive: ClassArchive, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """What a job does, as far as the JVM is concerned: `spark-submit` with the archive's options."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(archive.home.jars.parent),
        "SPARK_SUBMIT_OPTS": f"{archive.jvm_options(folder)} {more.get('options', '')}",
    }
    command = [str(archive.home.submit), "--version"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)


def test_the_second_job_makes_it_and_the_third_uses_it(archive: ClassArchive, tmp_path: Path) -> None:
    """A worker that runs one job only pays nothing; later jobs load their classes from the archive."""
    start_jvm(archive, tmp_path)
    archive.keep(tmp_path)
    assert not archive.is_ready

    start_jvm(archive, tmp_path)
    archive.keep(tmp_path)
    assert archive.is_ready

    third = start_jvm(archive, tmp_path, options="-Xlog:class+load")
    assert "shared objects file (top)" in third.stdout
    assert list(tmp_path.glob("*.jsa")) == []


@pytest.mark.parametrize("damage", [pytest.param(1_000, id="cut-off"), pytest.param(0, id="empty")])
def test_a_damaged_archive_is_not_used(archive: ClassArchive, made: Path, tmp_path: Path, damage: int) -> None:
    """A JVM would crash on a truncated one, so its size is compared with what was noted."""
    shutil.copy(made, tmp_path)
    archive.keep(tmp_path)
    assert archive.is_ready
    archive.path.chmod(0o600)
    os.truncate(archive.path, damage)

    assert not archive.is_ready
    assert "SharedArchiveFile" not in archive.jvm_options(tmp_path)


def test_what_no_jvm_starts_with_is_not_kept(archive: ClassArchive, made: Path, tmp_path: Path) -> None:
    """An archive that was cut off by a full disk is tried, and thrown away."""
    shutil.copy(made, tmp_path)
    os.truncate(tmp_path / "classes.jsa", made.stat().st_size // 2)

    archive.keep(tmp_path)

    assert not archive.is_ready


def test_only_this_user_reads_and_writes_its_folder(archive: ClassArchive, tmp_path: Path) -> None:
    """The driver's JVM runs what is in there."""
    before = os.umask(0)
    try:
        archive.jvm_options(tmp_path)
    finally:
        os.umask(before)

    assert {folder.stat().st_mode & 0o777 for folder in (archive.path.parent, archive.path.parents[1])} == {0o700}


@pytest.mark.parametrize("part", [0, 1], ids=["classes", "cache"])
def test_one_that_others_may_write_is_not_used(archive: ClassArchive, tmp_path: Path, part: int) -> None:
    """A job runs without, and the log says why."""
    archive.jvm_options(tmp_path)
    archive.path.write_bytes(b"forged")
    archive.path.with_suffix(".size").write_text("6")
    assert "SharedArchiveFile" in archive.jvm_options(tmp_path)

    archive.path.parents[part].chmod(0o777)

    assert archive.jvm_options(tmp_path) == ""


def test_can_be_switched_off(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLASS_ARCHIVE.variable, "False")

    assert not archive.is_wanted
