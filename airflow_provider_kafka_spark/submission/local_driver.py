"""Run a driver of this machine that reads and writes no record: it makes something for jobs, or answers a question."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from airflow_provider_kafka_spark.toolchain.java import Java
from airflow_provider_kafka_spark.toolchain.private_folder import PRIVATE_UMASK
from airflow_provider_kafka_spark.toolchain.process_group import end_group
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

_TAIL_LINES, _LONGEST_LINE = 30, 500


@dataclass(frozen=True, slots=True)
class LocalDriver:
    """A driver with the master ``local[1]``, which ends with this process.

    :param script: the name of its module in ``jobs``.
    :param arguments: after the id of this process.
    :param options: further ones of ``spark-submit``.
    :param java_options: further ones of its JVM, as Spark's launcher splits them.
    """

    java: Java
    home: SparkHome
    script: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    java_options: Sequence[str] = ()

    def run(self, folder: Path, max_seconds: float) -> tuple[str | None, str]:
        """Start it, and wait for its end.

        :param folder: readable by this user only; its files are removed by the caller.
        :return: how it failed, None if it has not; and the end of its output.
        :raises OSError: if ``spark-submit`` cannot be started.
        """
        output = folder / "output"
        with output.open("wb") as log:
            process = subprocess.Popen(
                self._command(folder),
                env=self._environment(folder),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=PRIVATE_UMASK,
            )
            try:
                code: int | None = process.wait(max_seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # The driver's Python and its JVM are in the group that spark-submit leads.
                end_group(process.pid)
                process.wait()
        said = shown_lines(output.read_text(errors="replace"), _TAIL_LINES, _LONGEST_LINE)
        if code == 0:
            return None, said
        return (f"it took more than {max_seconds:.0f} s" if code is None else f"it ended with exit code {code}"), said

    def _command(self, folder: Path) -> list[str]:
        conf = {**DEFAULT_CONF, **spark_defaults(), **local_defaults(str(folder))}
        return [
            *(str(self.home.submit), "--master", "local[1]", "--name", self.script.replace("_", "-")),
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            *self.options,
            *("--py-files", str(write_code(folder))),
            *(str(job_script(self.script)), str(os.getpid()), *self.arguments),
        ]

    def _environment(self, folder: Path) -> Mapping[str, str]:
        """As for a job with a local master."""
        temporary = java_option(f"-Djava.io.tmpdir={folder}")
        crash = map(java_option, self.java.crash_options(str(folder / CRASH_REPORT)))
        options = [temporary, *crash, FIRST_COMPILER, *self.java_options]
        given = {name: os.environ.get(name, "") for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
        return {
            **LOCAL_ENVIRONMENT,
            **child_environment(),
            "SPARK_HOME": str(self.home.jars.parent),
            "SPARK_SUBMIT_OPTS": " ".join(filter(None, [*options, given["SPARK_SUBMIT_OPTS"]])),
            "SPARK_LAUNCHER_OPTS": " ".join(filter(None, [LAUNCHER_OPTIONS, given["SPARK_LAUNCHER_OPTS"]])),
        }
