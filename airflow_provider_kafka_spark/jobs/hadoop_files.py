"""Small files on whatever Hadoop's file systems reach, through the driver's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from airflow_provider_kafka_spark.core.streams.checkpoint import LARGEST_FILE

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext


#: Object stores, where a rename is a copy, and where readers see a file when it is closed, or the one before.
_SEEN_WHEN_CLOSED = frozenset({"s3", "s3a", "s3n", "gs"})


def write_whole(spark: HasContext, uri: str, text: str) -> None:
    """Write a new file whole or not at all: a reader must never meet half of it.

    :raises OSError: if it is there already, or cannot be written.
    """
    file_system, path = _open(spark, uri)
    _, partial = _open(spark, f"{uri}.partial")
    try:
        _write(file_system, partial, text, overwrite=True)
        renamed = file_system.rename(partial, path)
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
    _, partial = _open(spark, f"{uri}.partial")
    try:
        if path.toUri().getScheme() in _SEEN_WHEN_CLOSED:
            _write(file_system, path, text, overwrite=True)
            return
        _write(file_system, partial, text, overwrite=True)
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
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    if _is_local(path):
        # Hadoop would delete first: a reader that comes between finds no lock, and a crash leaves none of the two.
        files: Any = jvm.java.nio.file  # type: ignore[union-attr]
        moves = gateway.new_array(files.CopyOption, 1)  # type: ignore[union-attr]
        moves[0] = files.StandardCopyOption.ATOMIC_MOVE
        files.Files.move(_local_path(spark, partial), _local_path(spark, path), moves)
        return
    rename: Any = getattr(jvm, "org.apache.hadoop.fs.Options$Rename")
    options = gateway.new_array(rename, 1)  # type: ignore[union-attr]
    options[0] = rename.OVERWRITE
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    # FileSystem.rename() refuses a target that is there.
    jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), conf).rename(partial, path, options)  # type: ignore[union-attr]


def create(spark: HasContext, uri: str, text: str) -> bool:
    """Write a file if it is not there, and say whether it was not.

    HDFS and local disks decide that in one step; object stores may not.

    :raises OSError: if it cannot be written.
    """
    file_system, path = _open(spark, uri)
    is_local = _is_local(path)
    try:
        if is_local:
            file_system.mkdirs(path.getParent())
    except Py4JJavaError as error:
        raise _to_error(error, f"making the folder of {uri}") from error
    try:
        if is_local:
            _claim(spark, path)
        _write(file_system, path, text, overwrite=is_local)
    except Py4JJavaError as error:
        if "FileAlreadyExistsException" in str(error.java_exception) or "already exists" in str(error.java_exception):
            return False
        raise _to_error(error, f"writing {uri}") from error
    return True


def _claim(spark: HasContext, path: Any) -> None:
    """Make an empty file on the local disk, or fail. (Hadoop's ``create`` only looks first: of eight at once, eight
    believe that the file is theirs.)
    """
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    files: Any = jvm.java.nio.file  # type: ignore[union-attr]
    attributes = gateway.new_array(files.attribute.FileAttribute, 0)  # type: ignore[union-attr]
    files.Files.createFile(_local_path(spark, path), attributes)


def _is_local(path: Any) -> bool:
    return bool(path.toUri().getScheme() == "file")


def _local_path(spark: HasContext, path: Any) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.java.io.File(path.toUri().getPath()).toPath()


def read(spark: HasContext, uri: str) -> str | None:
    """The text of a file, or None if there is none.

    :raises OSError: if it cannot be read, is no regular file, or is larger than what is written here.
    """
    file_system, path = _open(spark, uri)
    try:
        if not file_system.exists(path):
            return None
        # Hadoop takes a named pipe for a file, and opening one waits for a writer.
        if _is_local(path) and not _local_path(spark, path).toFile().isFile():
            raise OSError(f"reading {uri} failed: it must be a regular file; it is a folder, a named pipe or a device")
        stream = file_system.open(path)
        try:
            content = bytes(stream.readNBytes(LARGEST_FILE + 1))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise _to_error(error, f"reading {uri}") from error
    if len(content) > LARGEST_FILE:
        raise OSError(f"reading {uri} failed: it must have at most {LARGEST_FILE:,} bytes; it has more")
    return content.decode(errors="replace")


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
    jvm: Any = spark.sparkContext._jvm
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
