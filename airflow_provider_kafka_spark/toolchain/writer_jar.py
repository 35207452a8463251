"""The writer's classes, compiled once for a machine: a driver with a local master loads them from its class path, and
from its class archive, instead of compiling them at every start.

``prepare`` makes the jar, and jobs only use it. A job without one compiles the classes itself. The classes fit the
Java, Spark and Kafka client that they were compiled with, so others have another jar.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.core.errors import ClassArchiveError, JarError
from airflow_provider_kafka_spark.core.wire.writer_classes import sources_digest
from airflow_provider_kafka_spark.toolchain.class_archive import WITHOUT, KeptClasses
from airflow_provider_kafka_spark.toolchain.jar_set import record_jars, recorded_jars
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.private_folder import check_private, make_private
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER

_SOURCES = Path(airflow_provider_kafka_spark.__file__).parent / "jobs" / "writer"
_JAR = "writer.jar"

log = logging.getLogger(__name__)


class WriterJar(KeptClasses):
    """The jar of the writer; its class path has Kafka's client."""

    @property
    def path(self) -> Path:
        """The path of the jar, whether it exists or not."""
        entries = [Path(entry) for entry in self.class_path.split(":") if entry]
        identity = [
            sources_digest({file.name: file.read_text(encoding="utf-8") for file in _SOURCES.glob("*.java")}),
            str(self.java.major),
            self.home.spark_version,
            *(_described(jar) for entry in entries for jar in _jars(entry)),
            *(_described(jar) for jar in sorted(self.home.jars.glob("*kafka*.jar"))),
        ]
        return self._kept_path("writer", identity) / _JAR

    def find(self) -> Path | None:
        """The jar as it was kept, or None if there is none, or it was changed, which is logged."""
        path = self.path
        try:
            check_private(cache_root(), path.parents[1], path.parent)
            return path if recorded_jars(path.parent) == [path] else None
        except (OSError, JarError) as error:
            log.warning("The writer is compiled for this job, since the jar with its classes is not used: %s", error)
            return None

    def extended_class_path(self) -> str:
        """The class path with the jar, if there is one, at its end."""
        jar = self.find()
        return self.class_path if jar is None else f"{self.class_path}:{jar}"

    def keep(self, made: Path) -> None:
        """Store a jar that a driver has made.

        :raises ClassArchiveError: if there is none, or it cannot be stored.
        """
        path = self.path
        try:
            make_private(cache_root())
            make_private(path.parents[1])
            # Mode 0700, and complete before it has its name.
            partial = Path(tempfile.mkdtemp(dir=path.parents[1], prefix=".writer-"))
            try:
                shutil.copyfile(made, partial / _JAR)
                record_jars(partial)
                shutil.rmtree(path.parent, ignore_errors=True)
                partial.rename(path.parent)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            # Another process may have been faster.
            if self.find() is None:
                raise ClassArchiveError(
                    f"The writer's classes must be kept in {path.parents[1]}; got {error}. Correct that, or set "
                    f"{CACHE_FOLDER} to another folder. {WITHOUT}"
                ) from error


def _jars(entry: Path) -> list[Path]:
    """The jars that an entry of a class path leads to."""
    return sorted(entry.parent.glob("*.jar")) if entry.name == "*" else [entry]


def _described(path: Path) -> str:
    """The path with what changes with its content; in whole seconds, which are all that the layer of an image keeps."""
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return f"{path} {status.st_size} {int(status.st_mtime)}"
