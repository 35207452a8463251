"""Make a class archive by a driver that loads what copies load, and whose JVM writes the archive when it ends; and
before it the jar of the writer, by a driver that compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import ClassArchiveError
from airflow_provider_kafka_spark.submission.local_driver import LocalDriver
from airflow_provider_kafka_spark.toolchain.class_archive import WITHOUT, ClassArchive
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar

_MAX_SECONDS = 600.0
#: What a JVM says that has no archive of Java's own classes, to which others only add.
_NO_BASE = "base CDS archive is not loaded"


def make_class_archive(archive: ClassArchive) -> None:
    """Make and keep an archive, which takes some 25 s. The driver ends with this process.

    :raises ClassArchiveError: if the driver fails, or the archive cannot be kept.
    :raises JobFolderError: if there is no room for the files of a job.
    """
    archive.check_folder()
    with temporary_folder() as folder:
        _run_driver(archive, folder, "class_loading", (), [archive.writing_options(folder)])
        archive.keep(folder)


def make_writer_jar(writer: WriterJar) -> None:
    """Compile the writer and keep its jar, which takes some seconds. The driver ends with this process.

    :raises ClassArchiveError: if the driver fails, or the jar cannot be kept.
    :raises JobFolderError: if there is no room for the files of a job.
    """
    with temporary_folder() as folder:
        made = folder / "writer.jar"
        _run_driver(writer, folder, "writer_compilation", [str(made)])
        writer.keep(made)


def _run_driver(
    made: ClassArchive | WriterJar,
    folder: Path,
    script: str,
    arguments: Sequence[str],
    java_options: Sequence[str] = (),
) -> None:
    class_path = ("--driver-class-path", made.class_path) if made.class_path else ()
    driver = LocalDriver(made.java, made.home, script, arguments, class_path, java_options)
    try:
        failure, said = driver.run(folder, _MAX_SECONDS)
    except OSError as error:
        raise ClassArchiveError(f"{made.home.submit} must be a program that runs; got {error}.") from error
    if failure is not None:
        advice = "Its output has the cause."
        if _NO_BASE in said:
            advice = f"Java has no archive of its own: `{made.java.executable} -Xshare:dump` makes it."
        raise ClassArchiveError(
            f"The driver that makes the class archive must succeed; {failure}. {advice} {WITHOUT}\n{said}"
        )
