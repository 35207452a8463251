"""A consumer-producer loop on Kafka's Java clients: the limit of what a copy by them can reach on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.jobs.janino import compile_java, java_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "benchmarks.JavaLoop$Loop"
_PREFIX = "kafka."


def compiled(spark: SparkSession) -> Any:
    """The loop, compiled by Spark's own compiler, as the writer is."""
    jvm: Any = spark.sparkContext._jvm
    constructor = compile_java(jvm, java_sources("benchmarks")).loader.loadClass(_CLASS).getConstructors()[0]
    return constructor.newInstance(spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 0))  # type: ignore[union-attr]


def copy(loop: Any, spark: SparkSession, request: CopyJob, source: str, target: str, ends: Mapping[int, int]) -> None:
    """Copy a topic with the settings of a request of ours.

    :param loop: from :func:`compiled`.
    :param ends: end offset of each partition of the source, whose log starts at 0.
    :raises RuntimeError: if a record was not acknowledged.
    """
    threads = spark.sparkContext.defaultParallelism
    consumer, producer = (_java(options) for options in (request.source_options, request.sink_options))
    consumer |= {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    jvm: Any = spark.sparkContext._jvm

    def java_map(values: Mapping[Any, Any]) -> Any:
        result = jvm.java.util.HashMap()
        for name, value in values.items():
            result.put(name, value)
        return result

    arguments = java_map(consumer), java_map(producer), source, target, PROVENANCE_HEADER, java_map(ends), threads
    acknowledged = loop.copy(*arguments)
    if acknowledged != sum(ends.values()):
        raise RuntimeError(f"{acknowledged} records were acknowledged of {sum(ends.values())}.")


def _java(options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
