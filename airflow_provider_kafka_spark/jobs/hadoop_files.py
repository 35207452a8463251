"""Small files on whatever Hadoop's file systems reach, through the driver's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_whole(spark: SparkSession, uri: str, text: str) -> None:
    """Write a new file whole or not at all: a reader must never meet half of it.

    :raises OSError: if it is there already, or cannot be written.
    """
    file_system, path = _open(spark, uri)
    _, partial = _open(spark, f"{uri}.partial")
    try:
        _write(file_system, partial, text, overwrite=True)
        renamed = file_system.rename(partial, path)
    except Py4JJavaError as error:
        raise _named(error, f"writing {uri}") from error
    if not renamed:
        raise FileExistsError(f"{uri} could not be written: does it exist already?")


def overwrite(spark: SparkSession, uri: str, text: str) -> None:
    """Write a file in place of what is there, in one step where the file system can: HDFS and local disks do.

    :raises OSError: if it cannot be written.
    """
    file_system, path = _open(spark, uri)
    _, partial = _open(spark, f"{uri}.partial")
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    rename: Any = getattr(jvm, "org.apache.hadoop.fs.Options$Rename")
    options = gateway.new_array(rename, 1)  # type: ignore[union-attr]
    options[0] = rename.OVERWRITE
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        _write(file_system, partial, text, overwrite=True)
        # FileSystem.rename() refuses a target that is there.
        jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), conf).rename(partial, path, options)  # type: ignore[union-attr]
    except Py4JJavaError as error:
        if "UnsupportedFileSystemException" in str(error.java_exception):
            _overwrite_in_place(file_system, partial, path, uri, text)
            return
        raise _named(error, f"writing {uri}") from error


def _overwrite_in_place(file_system: Any, partial: Any, path: Any, uri: str, text: str) -> None:
    """Where a file system has no ``FileContext``. Object stores are among them, and a file of theirs is not seen before it is closed."""
    try:
        _write(file_system, path, text, overwrite=True)
        file_system.delete(partial, False)
    except Py4JJavaError as error:
        raise _named(error, f"writing {uri}") from error


def create(spark: SparkSession, uri: str, text: str) -> bool:
    """Write a file if it is not there, and say whether it was not.

    HDFS and local disks decide that in one step; object stores may not.

    :raises OSError: if it cannot be written.
    """
    file_system, path = _open(spark, uri)
    is_local = path.toUri().getScheme() == "file"
    try:
        file_system.mkdirs(path.getParent())
    except Py4JJavaError as error:
        raise _named(error, f"making the folder of {uri}") from error
    try:
        if is_local:
            _claim(spark, path)
        _write(file_system, path, text, overwrite=is_local)
    except Py4JJavaError as error:
        if "FileAlreadyExistsException" in str(error.java_exception) or "already exists" in str(error.java_exception):
            return False
        raise _named(error, f"writing {uri}") from error
    return True


def _claim(spark: SparkSession, path: Any) -> None:
    """Make an empty file on the local disk, or fail. (Hadoop's ``create`` only looks first: of eight at once, eight were told that the file is theirs.)"""
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    files: Any = jvm.java.nio.file  # type: ignore[union-attr]
    attributes = gateway.new_array(files.attribute.FileAttribute, 0)  # type: ignore[union-attr]
    files.Files.createFile(jvm.java.io.File(path.toUri().getPath()).toPath(), attributes)  # type: ignore[union-attr]


def read(spark: SparkSession, uri: str) -> str | None:
    """The text of a file, or None if there is none.

    :raises OSError: if it cannot be read.
    """
    file_system, path = _open(spark, uri)
    jvm: Any = spark.sparkContext._jvm
    try:
        if not file_system.exists(path):
            return None
        stream = file_system.open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise _named(error, f"reading {uri}") from error


def delete(spark: SparkSession, uri: str) -> None:
    """Delete a file, if it is there.

    :raises OSError: if it is there and cannot be deleted.
    """
    file_system, path = _open(spark, uri)
    try:
        file_system.delete(path, False)
    except Py4JJavaError as error:
        raise _named(error, f"deleting {uri}") from error


def names(spark: SparkSession, uri: str) -> list[str]:
    """Names of what is in a folder; none if there is no such folder.

    :raises OSError: if it cannot be read.
    """
    file_system, path = _open(spark, uri)
    try:
        if not file_system.exists(path):
            return []
        return [status.getPath().getName() for status in file_system.listStatus(path)]
    except Py4JJavaError as error:
        raise _named(error, f"listing {uri}") from error


def _open(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(uri)
    try:
        file_system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        raise _named(error, f"reaching {uri}") from error
    # A local folder would get a hidden checksum file beside each of ours, which nobody removes.
    file_system.setWriteChecksum(False)
    return file_system, path


def _write(file_system: Any, path: Any, text: str, *, overwrite: bool) -> None:
    stream = file_system.create(path, overwrite)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _named(error: Py4JJavaError, doing: str) -> OSError:
    return OSError(f"{doing} failed: {error.java_exception}")
