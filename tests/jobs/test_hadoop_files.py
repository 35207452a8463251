from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.jobs import hadoop_files

pytestmark = pytest.mark.spark


@pytest.fixture
def at(tmp_path: Path) -> Callable[[str], str]:
    """The URI of a file in this test's folder."""
    return lambda name: f"file://{tmp_path}/{name}"


@pytest.fixture
def bare_scheme(spark: SparkSession) -> str:
    """A scheme whose file system has no ``FileContext``, as those of some object stores have none; it leads to the
    local disk.
    """
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.pfile.impl", "org.apache.hadoop.fs.ProxyLocalFileSystem")  # type: ignore[union-attr]
    return "pfile"


def files(folder: Path) -> list[str]:
    """Hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"owner": "schlüssel ✓"}\n', id="not-only-ascii"),
        pytest.param("\0v1\n{}", id="nul-byte"),
        pytest.param("x" * 1_000_000, id="long"),
    ],
)
@pytest.mark.parametrize("write", [hadoop_files.write_whole, hadoop_files.overwrite, hadoop_files.create])
def test_what_is_written_reads_back(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path, write: Callable[..., object], text: str
) -> None:
    """The same text by every way of writing, also for the worker, into folders that are made on the way; nothing else
    is left there.
    """
    write(spark, at("a/b/file"), text)

    assert hadoop_files.read(spark, at("a/b/file")) == text
    assert (tmp_path / "a" / "b" / "file").read_text() == text
    assert files(tmp_path) == ["a/b/file"]


def test_a_file_is_created_once_and_replaced_any_number_of_times(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path
) -> None:
    """A new one replaces none, as of a commit; one that was deleted, as a lock, can be created again. No other file is
    left.
    """
    lock = at("lock")
    hadoop_files.delete(spark, lock)
    assert (hadoop_files.read(spark, lock), hadoop_files.names(spark, at("missing"))) == (None, [])
    assert hadoop_files.create(spark, lock, "first")
    assert not hadoop_files.create(spark, lock, "second")
    with pytest.raises(OSError, match="does it exist already"):
        hadoop_files.write_whole(spark, lock, "third")
    assert hadoop_files.read(spark, lock) == "first"
    for number in range(3):
        hadoop_files.overwrite(spark, lock, f"text {number}")
    assert hadoop_files.read(spark, lock) == "text 2"
    hadoop_files.delete(spark, lock)
    assert hadoop_files.read(spark, lock) is None
    assert hadoop_files.create(spark, lock, "again")
    assert files(tmp_path) == ["lock"]


def test_a_folder_has_names_and_is_no_file(spark: SparkSession, at: Callable[[str], str], tmp_path: Path) -> None:
    """Of files and folders, without checksum files. It is not read as one, and not deleted with all that is in it."""
    for name in ("offsets/0", "offsets/1", "offsets/sub/2"):
        hadoop_files.write_whole(spark, at(name), "text")

    assert sorted(hadoop_files.names(spark, at("offsets"))) == ["0", "1", "sub"]
    with pytest.raises(OSError, match="reading file:"):
        hadoop_files.read(spark, at("offsets"))
    with pytest.raises(OSError, match="deleting file:"):
        hadoop_files.delete(spark, at("offsets"))
    assert files(tmp_path) == ["offsets/0", "offsets/1", "offsets/sub/2"]


def test_of_many_at_once_one_creates_a_file(spark: SparkSession, at: Callable[[str], str]) -> None:
    """Just one caller gets the file, and the file has its text."""
    for turn in range(20):
        together = threading.Barrier(8)

        def create(number: int, uri: str = at(f"lock-{turn}"), together: threading.Barrier = together) -> bool:
            together.wait()
            return hadoop_files.create(spark, uri, f"owner {number}")

        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(create, range(8)))

        assert taken.count(True) == 1
        assert hadoop_files.read(spark, at(f"lock-{turn}")) == f"owner {taken.index(True)}"


def test_a_reader_meets_a_whole_file_while_it_is_replaced(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path
) -> None:
    """A worker that looks at any moment sees one text or the next, never none and never half of one."""
    texts = ["a" * 100_000, "b" * 100_000]
    hadoop_files.overwrite(spark, at("record"), texts[0])
    stop, seen = threading.Event(), set[str]()

    def look() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "record").read_text())

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(look)
        for number in range(50):
            hadoop_files.overwrite(spark, at("record"), texts[number % 2])
        stop.set()
        reader.result()

    assert seen <= set(texts)


def test_a_file_system_without_the_newer_interface_will_do(
    spark: SparkSession, bare_scheme: str, tmp_path: Path
) -> None:
    """Spark gets along with such a one, so that a lock must be renewed there too."""
    uri = f"{bare_scheme}://{tmp_path}/lock"
    assert hadoop_files.create(spark, uri, "first")

    hadoop_files.overwrite(spark, uri, "second")

    assert hadoop_files.read(spark, uri) == "second"
    assert not hadoop_files.create(spark, uri, "third")
    assert files(tmp_path) == ["lock"]


@pytest.mark.parametrize("write", [hadoop_files.write_whole, hadoop_files.overwrite, hadoop_files.create])
@pytest.mark.parametrize("name", ["lock.json", "lock.json.partial"])
def test_what_a_link_leads_to_is_not_written(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path, write: Callable[..., object], name: str
) -> None:
    """Others may write to the folder, and a link would turn the driver's right to write against its own user."""
    own = tmp_path / "own"
    own.write_text("text of the driver's user")
    own.chmod(0o600)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / name).symlink_to(own)

    with suppress(FileExistsError):
        write(spark, at("checkpoint/lock.json"), "lock")

    assert (own.read_text(), own.stat().st_mode & 0o777) == ("text of the driver's user", 0o600)


@pytest.mark.parametrize("write", [hadoop_files.write_whole, hadoop_files.overwrite, hadoop_files.create])
def test_what_is_written_is_nobody_elses(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path, write: Callable[..., object]
) -> None:
    """Whatever the umask, and nobody else may put other files into folders that are made on the way."""
    before = os.umask(0)
    try:
        write(spark, at("a/b/file"), "text")
    finally:
        os.umask(before)

    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/file")}
    assert modes == {"a": 0o755, "a/b": 0o755, "a/b/file": 0o600}


def test_a_partial_file_has_a_name_that_nobody_knows(spark: SparkSession, bare_scheme: str, tmp_path: Path) -> None:
    """On a file system of Hadoop too: what lies under an obvious name is neither written nor moved."""
    (tmp_path / "file.partial").write_text("somebody else's")

    hadoop_files.write_whole(spark, f"{bare_scheme}://{tmp_path}/file", "text")

    assert {name: (tmp_path / name).read_text() for name in files(tmp_path)} == {
        "file": "text", "file.partial": "somebody else's",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("act", "doing"),
    [
        pytest.param(lambda s, uri: hadoop_files.create(s, uri, "t"), "making the folder of", id="create"),
        pytest.param(lambda s, uri: hadoop_files.overwrite(s, uri, "t"), "writing", id="overwrite"),
        pytest.param(lambda s, uri: hadoop_files.write_whole(s, uri, "t"), "writing", id="write-whole"),
    ],
)
def test_what_cannot_be_written_is_an_error(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path, act: Callable[..., object], doing: str
) -> None:
    """Below a file nothing can be made, which is not the same as a file that somebody else has made."""
    (tmp_path / "taken").write_text("")

    with pytest.raises(OSError, match=f"{doing} file:.*taken/lock failed"):
        act(spark, at("taken/lock"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["named-pipe", "endless", "link", "too-large"])
def test_a_file_that_has_no_end_is_not_read(
    spark: SparkSession, at: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    """Others may write to the folder: the driver neither hangs nor fills its memory."""
    file = tmp_path / "lock.json"
    if kind == "named-pipe":
        os.mkfifo(file)
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    elif kind == "link":
        (tmp_path / "private").write_text("s3cret")
        file.symlink_to(tmp_path / "private")
    else:
        with file.open("wb") as sparse:
            sparse.truncate(hadoop_files.LARGEST_FILE + 1)

    with pytest.raises(OSError, match=r"reading file:.*lock\.json failed: it must (be a regular file|have at most)"):
        hadoop_files.read(spark, at("lock.json"))


@pytest.mark.parametrize("uri", ["nosuch://host/file", "s3a://bucket/file"])
def test_a_file_system_that_spark_lacks_is_an_error(spark: SparkSession, uri: str) -> None:
    """Named with the address, as an error of files."""
    with pytest.raises(OSError, match=f"reaching {uri} failed"):
        hadoop_files.read(spark, uri)
