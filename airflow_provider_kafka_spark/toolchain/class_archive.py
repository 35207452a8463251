"""A class data archive for the driver's JVM: parsed classes, mapped into memory instead of being read from 280 jars at
every start.

It saves about a fifth of the time of a small job on a local master. The JVM writes it when a job ends
(``-XX:ArchiveClassesAtExit``, since Java 13), which takes some 10 s once. So the second job of a machine writes it, and
every later one uses it; a worker with only one job does not write it. The JVM ignores an archive of another JVM or
class path, but a truncated one would crash it. So an archive is stored only complete, tested and with its size.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.core.handoff.java_options import java_option
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.java import Java
from airflow_provider_kafka_spark.toolchain.private_folder import check_private, make_private
from airflow_provider_kafka_spark.toolchain.settings import class_archive_enabled
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

_OLDEST_JAVA = 13
_TRIAL_SECONDS = 60
#: Suppresses the JVM's warnings about classes that cannot be archived.
_QUIET = "-Xlog:cds*=off"
_NEW = "classes.jsa"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one JVM, one Spark and one class path.

    :param java: runs the driver.
    :param home: the Spark.
    :param class_path: the jars in addition to Spark's own.
    """

    java: Java
    home: SparkHome
    class_path: str

    @property
    def path(self) -> Path:
        """The path of the archive, whether it exists or not."""
        identity = [
            str(self.java.executable.resolve()),
            str(self.java.executable.resolve().stat().st_mtime_ns),
            str(self.home.jars),
            self.home.spark_version,
            self.class_path,
            os.environ.get("SPARK_CONF_DIR", ""),
            os.environ.get("HADOOP_CONF_DIR", ""),
        ]
        digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
        return cache_root() / "classes" / f"spark-{self.home.spark_version}-{digest}.jsa"

    @property
    def is_wanted(self) -> bool:
        return class_archive_enabled() and self.java.major >= _OLDEST_JAVA

    @property
    def is_ready(self) -> bool:
        """Whether it exists with its recorded size."""
        try:
            return self.path.stat().st_size == int(self._size_file.read_text())
        except (OSError, ValueError):
            return False

    def jvm_options(self, folder: Path) -> str:
        """The options for a driver to use the archive, or to write it in ``folder``, as Spark's launcher splits them;
        none for the first job of a machine.
        """
        try:
            check_private(cache_root(), self.path.parent)
        except OSError as error:
            log.warning("No class archive, with which jobs start faster: %s", error)
            return ""
        if self.is_ready:
            return f"{java_option(f'-XX:SharedArchiveFile={self.path}')} {_QUIET}"
        if not self._seen_before():
            return ""
        log.info("This job also makes a class archive when it ends, some 10 s once, so that later jobs start faster.")
        return f"{java_option(f'-XX:ArchiveClassesAtExit={folder / _NEW}')} {_QUIET}"

    def _seen_before(self) -> bool:
        """Whether this machine has run such a job before; the call records it."""
        seen = self.path.with_suffix(".seen")
        try:
            if seen.exists():
                return True
            self._make_folder()
            seen.touch(mode=0o600)
        except OSError as error:
            log.debug("No class archive: %s", error)
        return False

    def keep(self, folder: Path) -> None:
        """Store the archive that a successful driver has written in ``folder``, if a JVM starts with it.

        A failure is only logged, since nothing depends on it.
        """
        made = folder / _NEW
        if not made.is_file():
            return
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            self._try(made)
            self._make_folder()
            shutil.move(made, partial)
            # In this order a reader may see an archive without its size, which it ignores, but never a wrong one.
            partial.chmod(0o600)
            self._size_file.unlink(missing_ok=True)
            partial.replace(self.path)
            self._size_file.touch(mode=0o600)
            self._size_file.write_text(str(self.path.stat().st_size))
        except (OSError, subprocess.SubprocessError) as error:
            log.info("The class archive that would make later jobs start faster could not be kept: %s", error)
            partial.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        make_private(cache_root())
        make_private(self.path.parent)

    @property
    def _size_file(self) -> Path:
        return self.path.with_suffix(".size")

    def _try(self, made: Path) -> None:
        """:raises subprocess.SubprocessError: if a JVM does not start with it, as with one that was cut off by a full
        disk.
        """
        subprocess.run(
            [str(self.home.submit), "--driver-class-path", self.class_path, "--version"],
            env={
                **child_environment(),
                "SPARK_HOME": str(self.home.jars.parent),
                "SPARK_SUBMIT_OPTS": (
                    f"{java_option(f'-XX:SharedArchiveFile={made}')} {java_option(f'-Djava.io.tmpdir={made.parent}')} "
                    f"{_QUIET}"
                ),
            },
            # A JVM that crashes writes its report to its working directory.
            cwd=made.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=True,
        )
