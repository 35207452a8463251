"""A class data archive for the driver's JVM: parsed classes, mapped into memory in place of being read from 280 jars at
every start.

It saves about a fifth of the time of a small job on a local master. The JVM makes it when a job ends
(``-XX:ArchiveClassesAtExit``, since Java 13), which takes some 15 s once, so the second job of a machine makes it,
every later one uses it, and a worker that runs one job only never pays for it. An archive of another JVM or class path
is ignored by the JVM; a truncated one would crash it, so an archive appears whole, tried and with its size noted, or
not at all.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.core.job.java_options import java_option
from airflow_provider_kafka_spark.hooks.runtime.child_environment import child_environment
from airflow_provider_kafka_spark.hooks.runtime.jars import cache_root
from airflow_provider_kafka_spark.hooks.runtime.java import Java
from airflow_provider_kafka_spark.hooks.runtime.private_folder import check_private, make_private
from airflow_provider_kafka_spark.hooks.runtime.spark_home import SparkHome

#: Set to ``off`` to do without.
SWITCH_VARIABLE = "AIRFLOW_KAFKA_SPARK_CLASS_ARCHIVE"
_OLDEST_JAVA = 13
_TRIAL_SECONDS = 60
#: What the JVM has to say about classes that cannot be archived interests nobody.
_QUIET = "-Xlog:cds*=off"
_NEW = "classes.jsa"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive that belongs to one JVM, one Spark and one class path.

    :param java: runs the driver.
    :param home: the Spark.
    :param class_path: what is added to Spark's own jars.
    """

    java: Java
    home: SparkHome
    class_path: str

    @property
    def path(self) -> Path:
        """Where it is kept, whether it is there or not."""
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
        return self.java.major >= _OLDEST_JAVA and os.environ.get(SWITCH_VARIABLE, "").lower() != "off"

    @property
    def is_ready(self) -> bool:
        """Whether it is there, as large as it was when it was made."""
        try:
            return self.path.stat().st_size == int(self._size_file.read_text())
        except (OSError, ValueError):
            return False

    def jvm_options(self, folder: Path) -> str:
        """The options by which a driver uses the archive, or makes it in ``folder``, as Spark's launcher splits them;
        none for the first job of a machine.
        """
        try:
            check_private(cache_root())
            check_private(self.path.parent)
        except OSError as error:
            log.warning("No class archive, by which jobs start faster: %s", error)
            return ""
        if self.is_ready:
            return f"{java_option(f'-XX:SharedArchiveFile={self.path}')} {_QUIET}"
        if not self._seen_before():
            return ""
        log.info("This job also makes a class archive when it ends, some 15 s once, so that later jobs start faster.")
        return f"{java_option(f'-XX:ArchiveClassesAtExit={folder / _NEW}')} {_QUIET}"

    def _seen_before(self) -> bool:
        """Whether this machine has run such a job before; from now on it has."""
        seen = self.path.with_suffix(".seen")
        try:
            if seen.exists():
                return True
            self._make_folder()
            seen.touch()
        except OSError as error:
            log.debug("No class archive: %s", error)
        return False

    def keep(self, folder: Path) -> None:
        """Keep what a driver that ended well has made in ``folder``, if it made one and a JVM starts with it.

        Nothing depends on it, so what goes wrong here is only logged.
        """
        made = folder / _NEW
        if not made.is_file():
            return
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            self._try(made)
            self._make_folder()
            shutil.move(made, partial)
            # In this order a reader sees an archive without its size, and leaves it alone, but never a wrong one.
            self._size_file.unlink(missing_ok=True)
            partial.replace(self.path)
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
                "SPARK_SUBMIT_OPTS": f"{java_option(f'-XX:SharedArchiveFile={made}')} {_QUIET}",
            },
            # A JVM that crashes leaves its report where it runs.
            cwd=made.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=True,
        )
