"""Sources of Spark's Kafka connector: fetched jars, a folder of jars, a Maven coordinate, or the cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.connector_hashes import CONNECTOR_HASHES
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.private_folder import check_trusted
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, SparkHome, find_spark_home

#: The connector is on the cluster's class path already.
PROVIDED = "provided"
_SPARKS_MODULE = re.compile(r"org\.apache\.spark:spark-sql-kafka-0-10_[0-9.]+:[\w.-]+", re.ASCII)
_SCALA = re.compile(r"spark-sql-kafka-0-10_(\d+\.\d+)\b")
_COORDINATE = re.compile(r"[^:/\s]+:[^:/\s]+:[^:/\s]+")


def is_coordinate(wanted: str) -> bool:
    """Whether it is a Maven coordinate, and not a path."""
    return _COORDINATE.fullmatch(wanted) is not None


def is_sparks_module(coordinate: str) -> bool:
    """Whether a Maven coordinate is one of Spark's own connector."""
    return _SPARKS_MODULE.fullmatch(coordinate) is not None


def connector_jars(wanted: str | None, home: Callable[[], SparkHome] = find_spark_home) -> list[Path]:
    """The connector's jars, kafka-clients among them.

    :param wanted: None for those of the Spark in use, which are fetched once and cached; a folder or glob of jars; or a
        Maven coordinate.
    :param home: finds the Spark in use; called only if its version matters.
    :raises SparkSubmitNotFoundError: if there is no Spark with a version.
    :raises JarError: if they are unavailable or unreadable, for another Scala, others than those that are known for
        this Spark, or if other users may replace them.
    """
    if wanted is None:
        spark = home()
        expected = CONNECTOR_HASHES.get((spark.spark_version, spark.scala_version))
        return resolve(spark.connector_coordinates, excludes=CONNECTOR_EXCLUDES, expected=expected)
    if is_coordinate(wanted):
        _check_scala(wanted, [wanted], home)
        return resolve([wanted], excludes=CONNECTOR_EXCLUDES)
    jars = _readable_jars(wanted)
    _check_scala(wanted, [jar.name for jar in jars], home)
    return jars


def client_jars(wanted: str | None, home: Callable[[], SparkHome] = find_spark_home) -> list[Path]:
    """The jars of Kafka's Java client on this machine: the connector's, and those of Spark that an OAUTHBEARER login
    needs.

    :param wanted: as for :func:`connector_jars`; or ``"provided"``, where the cluster has its own: then those of the
        Spark in use are fetched.
    :raises SparkSubmitNotFoundError: if there is no Spark.
    :raises JarError: as :func:`connector_jars`.
    """
    jars = home().jars
    return [
        *connector_jars(None if wanted == PROVIDED else wanted, home),
        *(jar for name in ("core", "databind", "annotations") for jar in jars.glob(f"jackson-{name}-2*.jar")),
    ]


def _check_scala(wanted: str, names: Iterable[str], home: Callable[[], SparkHome]) -> None:
    """Check that the connector is for the Scala of the Spark in use: another one fails in the middle of a job.

    :raises JarError: if it is not.
    """
    for name in names:
        found = _SCALA.search(name)
        if found is not None and found[1] != home().scala_version:
            spark = home()
            raise JarError(
                f"kafka_connector must be for Scala {spark.scala_version}, as Spark {spark.spark_version} in "
                f"{spark.jars.parent} is; {wanted!r} has {name}, which is for Scala {found[1]}. Name "
                f"{spark.connector_coordinates[0]}, or leave kafka_connector out."
            )


def _readable_jars(wanted: str) -> list[Path]:
    path = Path(wanted)
    found = path.glob("*") if path.is_dir() else path.parent.glob(path.name)
    # A dangling link is reported as unreadable.
    jars = sorted(jar for jar in found if jar.suffix == ".jar" and not jar.is_dir())
    _check_trusted(path if path.is_dir() else path.parent, *jars)
    unreadable = [str(jar) for jar in jars if not os.access(jar, os.R_OK)]
    if unreadable:
        raise JarError(
            f"The Kafka connector's jars must be readable by the worker; these are not: {unreadable}. Correct their "
            "permissions."
        )
    if not any("spark-sql-kafka" in jar.name for jar in jars):
        raise JarError(
            "kafka_connector must be a folder or glob of jars with a spark-sql-kafka-0-10 jar among them, a Maven "
            f"coordinate such as 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0', or 'provided'; got {wanted!r}, "
            f"where there are {[jar.name for jar in jars]}."
        )
    return jars


def _check_trusted(*paths: Path) -> None:
    checked = set[Path]()
    try:
        for path in paths:
            check_trusted(path, checked)
    except OSError as error:
        raise JarError(f"kafka_connector: {error}, or name another folder.") from error
