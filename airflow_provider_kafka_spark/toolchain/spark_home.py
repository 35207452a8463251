"""Find ``spark-submit`` and its Spark version, which decides the connector's version. Nothing is started here."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JarError, SparkSubmitNotFoundError, SparkVersionError

#: The required version of the Python packages; the whole test suite runs with it.
REQUIRED_SPARK = "4.0.0"

_CORE_JAR = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>\d+\.\d+\.\d+\S*)\.jar")
#: On Spark's own class path already, and 60 of the connector's 63 MB.
CONNECTOR_EXCLUDES = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")


@dataclass(frozen=True, slots=True)
class SparkHome:
    """A Spark distribution, as its ``spark-submit`` finds it.

    :param submit: the ``spark-submit`` to run.
    :param jars: the folder of Spark's own jars.
    :param spark_version: such as ``"4.0.0"``.
    :param scala_version: such as ``"2.13"``.
    """

    submit: Path
    jars: Path
    spark_version: str
    scala_version: str

    @property
    def connector_coordinates(self) -> tuple[str, ...]:
        """The Kafka connector for this Spark: both modules must be of Spark's own version."""
        return connector_coordinates(self.spark_version, self.scala_version)

    @property
    def minimum_java(self) -> int:
        """The oldest Java that this Spark runs on: 17 since Spark 4.0."""
        return 17 if int(self.spark_version.split(".")[0]) >= 4 else 8


def connector_coordinates(spark_version: str, scala_version: str) -> tuple[str, ...]:
    """The Maven coordinates of the Kafka connector for a Spark."""
    return tuple(
        f"org.apache.spark:{module}_{scala_version}:{spark_version}"
        for module in ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10")
    )


def find_spark_home(binary: str = "spark-submit") -> SparkHome:
    """Find ``spark-submit`` on the PATH, in SPARK_HOME, or in the installed ``pyspark``, with its version.

    Airflow's worker often runs without its environment's ``bin`` on the PATH, so the folder of this Python is searched
    too.

    :param binary: the name that the Spark connection gives.
    :raises SparkSubmitNotFoundError: if there is none.
    :raises SparkVersionError: if it is that of the installed ``pyspark``, and ``pyspark-client`` is of another version.
    :raises JarError: if its jars do not show the version.
    """
    # spark-submit itself follows SPARK_HOME first, wherever the script lies.
    home = os.environ.get("SPARK_HOME")
    folders = [Path(home) / "bin"] if home else []
    on_path = shutil.which(binary, path=os.environ.get("PATH", ""))
    folders += [Path(on_path).parent] if on_path else []
    folders += [Path(sys.executable).parent, *(folder / "bin" for folder in _pyspark_folders())]
    submit = next((folder / binary for folder in folders if os.access(folder / binary, os.X_OK)), None)
    if submit is None:
        raise SparkSubmitNotFoundError(
            f"{binary!r} must be on the worker's PATH, in SPARK_HOME/bin, or come with the Python package pyspark; "
            f"looked in {[str(folder) for folder in folders]}. Set SPARK_HOME to a Spark 3.5 or 4, or install one "
            "into Airflow's environment: pip install 'airflow-provider-kafka-spark[spark4]'."
        )
    candidates = [Path(home)] if home else [submit.resolve().parent.parent, *_pyspark_folders()]
    for folder in candidates:
        for jar in sorted((folder / "jars").glob("spark-core_*.jar")):
            if match := _CORE_JAR.fullmatch(jar.name):
                if folder in _pyspark_folders():
                    _check_pyspark()
                return SparkHome(submit, folder / "jars", match["spark"], match["scala"])
    raise JarError(
        f"The Spark version of {submit} must be that of a spark-core jar in one of "
        f"{[str(folder / 'jars') for folder in candidates]}; there is none. Set SPARK_HOME to the distribution, or "
        "name the connector yourself with kafka_connector=."
    )


def _check_pyspark() -> None:
    """The Spark provider requires ``pyspark-client``, which installs hundreds of files at the paths of ``pyspark``."""
    found = {}
    for name in ("pyspark", "pyspark-client"):
        # Either may be missing: a distribution has its own pyspark.
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    if len(set(found.values())) > 1:
        raise SparkVersionError(
            f"pyspark and pyspark-client must be of one version, such as {REQUIRED_SPARK}, since they install files at "
            f"the same paths; got {found['pyspark']} and {found['pyspark-client']}. Run: pip install --force-reinstall "
            f"--no-deps pyspark=={REQUIRED_SPARK} pyspark-client=={REQUIRED_SPARK}"
        )


def _pyspark_folders() -> list[Path]:
    # Found, not imported: importing pyspark takes a second.
    spec = importlib.util.find_spec("pyspark")
    return [Path(folder) for folder in (spec.submodule_search_locations or [] if spec else [])]
