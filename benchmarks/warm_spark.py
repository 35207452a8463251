"""One Spark session for all warm copies, set as the operator sets a job's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.spark.tuning import spark_defaults
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from benchmarks.environment import MASTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connector_jars() -> list[Path]:
    """Spark's Kafka connector, fetched once into the cache: the jars that the operator puts on the class path."""
    return resolve(find_spark_home().connector_coordinates, excludes=CONNECTOR_EXCLUDES)


@contextmanager
def warm_session() -> Iterator[SparkSession]:
    """A local session that has the connector on its class path and is stopped afterwards."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER)
    for name, value in spark_defaults().items():
        builder = builder.config(name, value)
    spark = (
        builder.appName("benchmarks")
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, connector_jars())))
        .config("spark.task.maxFailures", "1")
        .config("spark.speculation", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()
