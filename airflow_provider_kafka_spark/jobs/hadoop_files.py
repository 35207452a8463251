"""Small files on whatever Hadoop's file systems reach, through the driver's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from airflow_provider_kafka_spark.core.streams.checkpoint import LARGEST_FILE
from airflow_provider_kafka_spark.jobs import local_files
from airflow_provider_kafka_spark.jobs.java_names import java_of

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext


#: Object stores, where a rename is a copy, and where readers see a file when it is closed, or the one before.
_SEEN_WHEN_CLOSED = frozenset({"s3", "s3a", "s3n", "gs"})


def write_whole(spark: HasContext, uri: str, text: str) -> None:
    """Write a new file whole or not at all: a reader must never meet half of it.

    :raises OSError: if it is there already, or cannot be written.
    """
    file_system, path = _open(spark, uri)
    if (local := _local_path(path)) is not None:
        with _named(f"writing {uri}"):
            local_files.write_whole(local, text, replace=False)
        return
    partial = _partial(spark, path)
    try:
        _write(file_system, partial, text, overwrite=False)
        renamed = file_system.rename(partial, path)
        if not renamed:
            file_system.delete(partial, False)
    except Py4JJavaError as error:
        raise _to_error(error, f"writing {uri}") from error
    if not renamed:
        raise FileExistsError(f"{uri} could not be written: does it exist already?")


def overwrite(spark: HasContext, uri: str, text: str) -> None:
    """Write a file in place of what is there, in one step where the file system can: HDFS, local disks and the object
    stores of Amazon and Google do.

    :raises OSError: if it cannot be written.
    """
    file_system, path = _open(spark, uri)
    if (local := _local_path(path)) is not None:
        with _named(f"writing {uri}"):
            local_files.write_whole(local, text, replace=True)
        return
    try:
        if path.toUri().getScheme() in _SEEN_WHEN_CLOSED:
            _write(file_system, path, text, overwrite=True)
            return
        partial = _partial(spark, path)
        _write(file_system, partial, text, overwrite=False)
        try:
            _replace(spark, partial, path)
        except Py4JJavaError as error:
            if "UnsupportedFileSystemException" not in str(error.java_exception):
                raise
            # Spark gets along with a file system that has no FileContext, and so must we.
            _write(file_system, path, text, overwrite=True)
            file_system.delete(partial, False)
    except Py4JJavaError as error:
        raise _to_error(error, f"writing {uri}") from error


def _replace(spark: HasContext, partial: Any, path: Any) -> None:
    gateway, jvm = spark.sparkContext._gateway, java_of(spark.sparkContext)
    rename: Any = getattr(jvm, "org.apache.hadoop.fs.Options$Rename")
    options = gateway.new_array(rename, 1)  # type: ignore[union-attr]
    options[0] = rename.OVERWRITE
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    # FileSystem.rename() refuses a target that is there.
    jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), conf).rename(partial, path, options)


def create(spark: HasContext, uri: str, text: str) -> bool:
    """Write a file if it is not there, and say whether it was not.

    HDFS and local disks decide that in one step; object stores may not.

    :raises OSError: if it cannot be written.
    """
    file_system, path = _open(spark, uri)
    if (local := _local_path(path)) is not None:
        with _named(f"making the folder of {uri}"):
            local_files.make_folder(local.parent)
        try:
            # Hadoop's create() only looks first: of eight at once, eight believe that the file is theirs.
            with _named(f"writing {uri}"):
                local_files.write_new(local, text)
        except FileExistsError:
            return False
        return True
    try:
        _write(file_system, path, text, overwrite=False)
    except Py4JJavaError as error:
        if "FileAlreadyExistsException" in str(error.java_exception) or "already exists" in str(error.java_exception):
            return False
        raise _to_error(error, f"writing {uri}") from error
    return True


def _partial(spark: HasContext, path: Any) -> Any:
    jvm = java_of(spark.sparkContext)
    return jvm.org.apache.hadoop.fs.Path(path.getParent(), local_files.partial_name(path.getName()))


def _local_path(path: Any) -> Path | None:
    """The path on the driver's own disks, or None if it is elsewhere."""
    uri = path.toUri()
    return Path(uri.getPath()) if uri.getScheme() == "file" else None


def read(spark: HasContext, uri: str) -> str | None:
    """The text of a file, or None if there is none.

    :raises OSError: if it cannot be read, is no regular file, or is larger than what is written here.
    """
    file_system, path = _open(spark, uri)
    content: bytes | None
    if (local := _local_path(path)) is not None:
        with _named(f"reading {uri}"):
            content = local_files.read(local, LARGEST_FILE + 1)
    else:
        content = _read(file_system, path, uri)
    if content is None:
        return None
    if len(content) > LARGEST_FILE:
        raise OSError(f"reading {uri} failed: it must have at most {LARGEST_FILE:,} bytes; it has more")
    return content.decode(errors="replace")


def _read(file_system: Any, path: Any, uri: str) -> bytes | None:
    try:
        if not file_system.exists(path):
            return None
        stream = file_system.open(path)
        try:
            return bytes(stream.readNBytes(LARGEST_FILE + 1))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise _to_error(error, f"reading {uri}") from error


def delete(spark: HasContext, uri: str) -> None:
    """Delete a file, if it is there.

    :raises OSError: if it is there and cannot be deleted.
    """
    file_system, path = _open(spark, uri)
    try:
        file_system.delete(path, False)
    except Py4JJavaError as error:
        raise _to_error(error, f"deleting {uri}") from error


def names(spark: HasContext, uri: str) -> list[str]:
    """Names of what is in a folder; none if there is no such folder.

    :raises OSError: if it cannot be read.
    """
    file_system, path = _open(spark, uri)
    try:
        if not file_system.exists(path):
            return []
        return [status.getPath().getName() for status in file_system.listStatus(path)]
    except Py4JJavaError as error:
        raise _to_error(error, f"listing {uri}") from error


def _open(spark: HasContext, uri: str) -> tuple[Any, Any]:
    jvm = java_of(spark.sparkContext)
    path = jvm.org.apache.hadoop.fs.Path(uri)
    try:
        file_system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        raise _to_error(error, f"reaching {uri}") from error
    # A local folder would get a hidden checksum file beside each of ours, which nobody removes.
    file_system.setWriteChecksum(False)
    return file_system, path


def _write(file_system: Any, path: Any, text: str, *, overwrite: bool) -> None:
    stream = file_system.create(path, overwrite)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _to_error(error: Py4JJavaError, action: str) -> OSError:
    return OSError(f"{action} failed: {error.java_exception}")


@contextmanager
def _named(action: str) -> Iterator[None]:
    """Say what failed on a local disk, as :func:`_to_error` does of Java."""
    try:
        yield
    except FileExistsError as error:
        raise FileExistsError(f"{action} failed: does it exist already?") from error
    except OSError as error:
        raise OSError(f"{action} failed: {error.strerror or error}") from error
