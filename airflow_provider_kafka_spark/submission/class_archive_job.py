"""Make a class archive by a driver that loads what copies load, and whose JVM writes the archive when it ends; and
before it the jar of the writer, by a driver that compiles it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import ClassArchiveError
from airflow_provider_kafka_spark.core.shown_text import shown_lines
from airflow_provider_kafka_spark.core.spark.file_names import CRASH_REPORT
from airflow_provider_kafka_spark.core.spark.java_options import java_option
from airflow_provider_kafka_spark.core.spark.tuning import local_defaults, spark_defaults
from airflow_provider_kafka_spark.submission.job_files import job_script, write_code
from airflow_provider_kafka_spark.submission.prepared_job import (
    DEFAULT_CONF,
    FIRST_COMPILER,
    LAUNCHER_OPTIONS,
    LOCAL_ENVIRONMENT,
)
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.class_archive import WITHOUT, ClassArchive
from airflow_provider_kafka_spark.toolchain.private_folder import PRIVATE_UMASK
from airflow_provider_kafka_spark.toolchain.process_group import end_group
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar

_MAX_SECONDS = 600.0
#: What a JVM says that has no archive of Java's own classes, to which others only add.
_NO_BASE = "base CDS archive is not loaded"
_TAIL_LINES, _LONGEST_LINE = 30, 500


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
    conf = {**DEFAULT_CONF, **spark_defaults(), **local_defaults(str(folder))}
    command = [
        *(str(made.home.submit), "--master", "local[1]", "--name", "class-archive"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *(("--driver-class-path", made.class_path) if made.class_path else ()),
        *("--py-files", str(write_code(folder))),
        *(str(job_script(script)), str(os.getpid()), *arguments),
    ]
    output = folder / "output"
    with output.open("wb") as log:
        try:
            process = subprocess.Popen(
                command,
                env=_environment(made, folder, java_options),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=PRIVATE_UMASK,
            )
        except OSError as error:
            raise ClassArchiveError(f"{made.home.submit} must be a program that runs; got {error}.") from error
        try:
            code: int | None = process.wait(_MAX_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # The driver's Python and its JVM are in the group that spark-submit leads.
            end_group(process.pid)
            process.wait()
    if code != 0:
        said = shown_lines(output.read_text(errors="replace"), _TAIL_LINES, _LONGEST_LINE)
        got = f"it took more than {_MAX_SECONDS:.0f} s" if code is None else f"it ended with exit code {code}"
        advice = "Its output has the cause."
        if _NO_BASE in said:
            advice = f"Java has no archive of its own: `{made.java.executable} -Xshare:dump` makes it."
        raise ClassArchiveError(
            f"The driver that makes the class archive must succeed; {got}. {advice} {WITHOUT}\n{said}"
        )


def _environment(made: ClassArchive | WriterJar, folder: Path, java_options: Sequence[str]) -> dict[str, str]:
    """As for a job with a local master."""
    temporary = java_option(f"-Djava.io.tmpdir={folder}")
    crash = map(java_option, made.java.crash_options(str(folder / CRASH_REPORT)))
    options = [temporary, *crash, FIRST_COMPILER, *java_options]
    given = {name: os.environ.get(name, "") for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
    return {
        **LOCAL_ENVIRONMENT,
        **child_environment(),
        "SPARK_HOME": str(made.home.jars.parent),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, [*options, given["SPARK_SUBMIT_OPTS"]])),
        "SPARK_LAUNCHER_OPTS": " ".join(filter(None, [LAUNCHER_OPTIONS, given["SPARK_LAUNCHER_OPTS"]])),
    }
