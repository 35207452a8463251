"""The sinks of the writer with Kafka's own mock of a producer: one test for each method of ``SinkTests.java``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.jobs.janino import compile_java, java_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("SinkTests.java").read_text()
_PACKAGE = "airflow_provider_kafka_spark.jobs"
_NAMES = re.findall(r"public static void (\w+)\(", _SOURCE)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sink_tests(spark: SparkSession) -> Any:
    """The class of the tests, compiled with the writer: it is in the same package."""
    folder = f"{_PACKAGE}.writer".replace(".", "/")
    sources = {**java_sources(_PACKAGE, "writer"), f"{folder}/SinkTests.java": _SOURCE}
    return compile_java(spark.sparkContext._jvm, sources).loader.loadClass(f"{_PACKAGE}.writer.SinkTests")


@pytest.mark.parametrize("name", _NAMES)
def test_a_sink(spark: SparkSession, sink_tests: Any, name: str) -> None:
    """The method's comment is the promise."""
    from py4j.protocol import Py4JJavaError

    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    nothing = gateway.new_array(jvm.java.lang.Object, 0)
    method = sink_tests.getMethod(name, gateway.new_array(jvm.java.lang.Class, 0))
    try:
        method.invoke(None, nothing)
    except Py4JJavaError as error:
        raise AssertionError(str(error.java_exception.getCause())) from error
