"""A class data archive for the driver's JVM: parsed classes, mapped into memory instead of being read from 280 jars at
every start.

It saves a fifth of the time of a small job on a local master, and two fifths with SQL. A JVM writes it when it ends
(``-XX:ArchiveClassesAtExit``, since Java 13), which takes 10 to 20 s. No task waits for that: the command
``python -m airflow_provider_kafka_spark.prepare`` makes it, and jobs only use it. The JVM ignores an archive of another
JVM or class path, but a truncated one would crash it. So an archive is stored only complete, tested and with its size.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import ClassArchiveError
from airflow_provider_kafka_spark.core.spark.java_options import java_option
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.java import Java
from airflow_provider_kafka_spark.toolchain.private_folder import check_private, make_private
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

_OLDEST_JAVA = 13
_TRIAL_SECONDS = 60
#: Suppresses the JVM's warnings about classes that cannot be archived.
_QUIET = "-Xlog:cds*=off"
_NEW = "classes.jsa"
#: Ends the messages of errors.
WITHOUT = "With --no-class-archive it is left out; jobs then start as fast as before."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptClasses:
    """What is made once for one JVM, one Spark and one class path.

    :param java: runs the driver.
    :param home: the Spark.
    :param class_path: the jars in addition to Spark's own.
    """

    java: Java
    home: SparkHome
    class_path: str

    def _kept_path(self, kind: str, identity: Iterable[str]) -> Path:
        """:param identity: all that it depends on, apart from its kind."""
        digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
        return cache_root() / "classes" / f"{kind}-{self.home.spark_version}-{digest}"


class ClassArchive(KeptClasses):
    """The archive of parsed classes."""

    @property
    def path(self) -> Path:
        """The path of the archive, whether it exists or not."""
        identity = [
            str(self.java.executable.resolve()),
            # In whole seconds, which are all that the layer of an image keeps.
            str(int(self.java.executable.resolve().stat().st_mtime)),
            str(self.home.jars),
            self.home.spark_version,
            self.class_path,
            os.environ.get("SPARK_CONF_DIR", ""),
            os.environ.get("HADOOP_CONF_DIR", ""),
        ]
        kept = self._kept_path("spark", identity)
        return kept.with_name(f"{kept.name}.jsa")

    @property
    def is_wanted(self) -> bool:
        return CLASS_ARCHIVE.flag() and self.java.major >= _OLDEST_JAVA

    @property
    def is_ready(self) -> bool:
        """Whether it exists with its recorded size."""
        try:
            return self.path.stat().st_size == int(self._size_file.read_text())
        except (OSError, ValueError):
            return False

    def jvm_options(self) -> str:
        """The options for a driver to use the archive, as Spark's launcher splits them; none without an archive."""
        try:
            check_private(cache_root(), self.path.parent)
        except OSError as error:
            log.warning("No class archive, with which jobs start faster: %s", error)
            return ""
        if self.is_ready:
            return f"{java_option(f'-XX:SharedArchiveFile={self.path}')} {_QUIET}"
        log.info(
            "This worker has no class archive for this job. `airflow kafka-spark prepare` makes it once, and then each "
            "job starts one or two seconds faster."
        )
        return ""

    def writing_options(self, folder: Path) -> str:
        """The options for a driver to write a new archive in ``folder`` when it ends, as Spark's launcher splits
        them.
        """
        return f"{java_option(f'-XX:ArchiveClassesAtExit={folder / _NEW}')} {_QUIET}"

    def is_usable(self, folder: Path) -> bool:
        """Whether it is ready, and a JVM starts with it.

        :param folder: for the temporary files of that JVM.
        """
        try:
            self._try(self.path, folder)
        except (OSError, subprocess.SubprocessError):
            return False
        return self.is_ready

    def check_folder(self) -> None:
        """Create its folder, before anything else is done.

        :raises ClassArchiveError: if it cannot be written, or others may write it.
        """
        try:
            make_private(cache_root())
            make_private(self.path.parent)
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".writable-")
            os.close(descriptor)
            Path(name).unlink()
        except OSError as error:
            raise self._cannot_be_kept(error) from error

    def keep(self, folder: Path) -> None:
        """Store the archive that a driver has written in ``folder``, if a JVM starts with it.

        :raises ClassArchiveError: if there is none, no JVM starts with it, or it cannot be stored.
        """
        made = folder / _NEW
        if not made.is_file():
            raise ClassArchiveError(
                f"{self.java.executable} must write a class archive when it ends; it wrote none, as if it had been "
                f"killed. Is there memory left? {WITHOUT}"
            )
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            self._try(made, folder)
            shutil.move(made, partial)
            # In this order a reader may see an archive without its size, which it ignores, but never a wrong one.
            partial.chmod(0o600)
            self._size_file.unlink(missing_ok=True)
            partial.replace(self.path)
            self._size_file.touch(mode=0o600)
            self._size_file.write_text(str(self.path.stat().st_size))
        except OSError as error:
            raise self._cannot_be_kept(error) from error
        except subprocess.SubprocessError as error:
            raise ClassArchiveError(
                f"A JVM must start with the class archive that was made; it did not, so the archive was thrown away: "
                f"{error}. Free disk space in {folder.parent}, and try again. {WITHOUT}"
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    def _cannot_be_kept(self, error: OSError) -> ClassArchiveError:
        return ClassArchiveError(
            f"The class archive, some 200 MB, must be kept in {self.path.parent}; got {error}. Correct that, or set "
            f"{CACHE_FOLDER} to another folder. {WITHOUT}"
        )

    @property
    def _size_file(self) -> Path:
        return self.path.with_suffix(".size")

    def _try(self, archive: Path, folder: Path) -> None:
        """:raises subprocess.SubprocessError: if a JVM does not start with it, as with one that was cut off by a full
        disk.
        """
        subprocess.run(
            [str(self.home.submit), "--driver-class-path", self.class_path, "--version"],
            env={
                **child_environment(),
                "SPARK_HOME": str(self.home.jars.parent),
                "SPARK_SUBMIT_OPTS": " ".join(
                    [
                        # By itself a JVM would ignore an archive that it cannot use.
                        "-Xshare:on",
                        java_option(f"-XX:SharedArchiveFile={archive}"),
                        java_option(f"-Djava.io.tmpdir={folder}"),
                        _QUIET,
                    ]
                ),
            },
            # A JVM that crashes writes its report to its working directory.
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=True,
        )
