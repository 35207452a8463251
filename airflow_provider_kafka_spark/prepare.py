"""``python -m airflow_provider_kafka_spark.prepare``: fetch and make what the first tasks of a worker would wait for.

``airflow kafka-spark prepare`` is the same.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_kafka_spark.command_line import Command
from airflow_provider_kafka_spark.core.errors import KafkaSparkError

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.toolchain.class_archive import ClassArchive
    from airflow_provider_kafka_spark.toolchain.java import Java
    from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

READY_CODE, FAILED_CODE, INTERRUPTED_CODE = 0, 1, 130
DESCRIPTION = (
    "Check Java and Spark, fetch Spark's Kafka connector, compile the writer, and make a class archive with which jobs "
    "on a local master start faster. What is there already is checked only."
)
EPILOG = "Run it as the user of the tasks, with their environment. Exit code: 0 if all is ready, 1 if not."
#: The arguments, by the name of the option.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "--kafka-connector": {
        "metavar": "JARS",
        "help": "as kafka_connector of the tasks: a folder or glob of jars, a Maven coordinate, or 'provided' "
        "(default: the connector of this Spark, fetched once)",
    },
    "--driver-class-path": {
        "metavar": "PATHS",
        "help": "as driver_class_path of the tasks, if they have one: another class path needs another archive",
    },
    "--no-class-archive": {
        "action": "store_true",
        "help": "compile nothing and make no class archive; only jobs with a local master use it",
    },
}
_MB = 1_000_000
_Result = TypeVar("_Result")


def prepare(options: argparse.Namespace) -> int:
    """Prepare this machine, with a line for each step on the standard output, and a line for a failure on the standard
    error.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    try:
        with _interrupted_by_signals():
            _prepare(options)
    except KafkaSparkError as error:
        # The error is one line; what another program said is not part of it.
        first, *said = str(error).splitlines()
        for line in said:
            _emit(line)
        sys.stderr.write(f"{type(error).__name__}: {first}\n")
        return FAILED_CODE
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; everything that was started is stopped. A further call goes on.\n")
        return INTERRUPTED_CODE
    return READY_CODE


def _prepare(options: argparse.Namespace) -> None:
    # With it, airflow.cfg is read as in a task.
    import airflow.sdk.configuration  # noqa: F401

    from airflow_provider_kafka_spark.toolchain.jars import cache_root
    from airflow_provider_kafka_spark.toolchain.java import find_java
    from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

    home = find_spark_home()
    _emit(f"Spark {home.spark_version}: {home.submit}")
    java = find_java(home.minimum_java)
    _emit(f"Java {java.major}: {java.executable}")
    jars = _prepare_jars(options.kafka_connector, home)
    archive = "no class archive"
    if not options.no_class_archive and _prepare_archive(java, home, _class_path(options.driver_class_path, jars)):
        archive = "a class archive"
    _emit(f"Ready: {len(jars)} jars of the Kafka connector and {archive}, cached in {cache_root()}.")


def _prepare_jars(wanted: str | None, home: SparkHome) -> list[Path]:
    from airflow_provider_kafka_spark.toolchain.connector import PROVIDED, connector_jars
    from airflow_provider_kafka_spark.toolchain.jars import cache_root

    if wanted == PROVIDED:
        _emit("Kafka connector: provided; nothing is fetched.")
        return []
    fetched = cache_root() / "jars"
    before = set(fetched.glob("*"))
    jars, seconds = _timed(lambda: connector_jars(wanted, lambda: home))
    folder = jars[0].parent
    is_new = folder.parent == fetched and folder not in before
    _emit(f"Kafka connector: {len(jars)} jars in {folder}, {f'fetched in {seconds:.0f} s' if is_new else 'checked'}.")
    return jars


def _class_path(given: str | None, jars: Sequence[Path]) -> str:
    """As that of a task with a local master."""
    from airflow_provider_kafka_spark.core.spark.paths import absolute_paths

    options = absolute_paths({"driver_class_path": given}, Path.cwd())
    return ":".join(filter(None, [options["driver_class_path"], *map(str, jars)]))


def _prepare_archive(java: Java, home: SparkHome, class_path: str) -> bool:
    """
    :return: whether there is one.
    """
    from airflow_provider_kafka_spark.toolchain.class_archive import ClassArchive
    from airflow_provider_kafka_spark.toolchain.settings import CLASS_ARCHIVE
    from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder

    archive = ClassArchive(java, home, class_path)
    if not archive.is_wanted:
        why = f"Java {java.major} has none" if CLASS_ARCHIVE.flag() else f"{CLASS_ARCHIVE} is False"
        _emit(f"Class archive: none, since {why}.")
        return False
    archive = replace(archive, class_path=_prepare_writer(java, home, class_path))
    with temporary_folder() as folder:
        if archive.is_ready and archive.is_usable(folder):
            _emit(f"Class archive: {_described(archive)}, checked.")
            return True
    from airflow_provider_kafka_spark.submission.class_archive_job import make_class_archive

    _emit("Class archive: a driver loads the classes and writes them, some 25 s ...")
    _, seconds = _timed(lambda: make_class_archive(archive))
    _emit(f"Class archive: {_described(archive)}, made in {seconds:.0f} s.")
    return True


def _prepare_writer(java: Java, home: SparkHome, class_path: str) -> str:
    """
    :return: the class path of a task with a local master, with the writer's classes.
    """
    from airflow_provider_kafka_spark.submission.class_archive_job import make_writer_jar
    from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar

    if not class_path:
        # As a task, which adds nothing to an empty class path.
        return class_path
    writer = WriterJar(java, home, class_path)
    if writer.find() is None:
        _, seconds = _timed(lambda: make_writer_jar(writer))
        _emit(f"Writer: {writer.path}, compiled in {seconds:.0f} s.")
    else:
        _emit(f"Writer: {writer.path}, checked.")
    return writer.extended_class_path()


def _described(archive: ClassArchive) -> str:
    return f"{archive.path}, {archive.path.stat().st_size / _MB:.0f} MB"


def _timed(work: Callable[[], _Result]) -> tuple[_Result, float]:
    started = time.monotonic()
    result = work()
    return result, time.monotonic() - started


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, with all its processes. SIGINT is ignored in the background of some shells."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    earlier = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, earlier, strict=True):
            signal.signal(number, handler)


def _emit(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


COMMAND = Command("prepare", DESCRIPTION, EPILOG, ARGUMENTS, prepare)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
