"""The reader of record batches against a real broker: one test for each method of ``BatchReaderTests.java``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.jobs.janino import compile_java, java_sources
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("BatchReaderTests.java").read_text()
_PACKAGE = "airflow_provider_kafka_spark.jobs"
_NAMES = re.findall(r"public static void (\w+)\(", _SOURCE)

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def reader_tests(spark: SparkSession) -> Any:
    """The class of the tests, compiled with the writer: it is in the same package."""
    folder = f"{_PACKAGE}.writer".replace(".", "/")
    sources = {**java_sources(_PACKAGE, "writer"), f"{folder}/BatchReaderTests.java": _SOURCE}
    return compile_java(spark.sparkContext._jvm, sources).loader.loadClass(f"{_PACKAGE}.writer.BatchReaderTests")


@pytest.mark.parametrize("name", _NAMES)
def test_a_reader(
    spark: SparkSession, reader_tests: Any, kafka_broker: KafkaBroker, topic: TopicFactory, name: str
) -> None:
    """The method's comment is the promise."""
    from py4j.protocol import Py4JJavaError

    source = topic()
    kafka_broker.produce(source, [Record(b"k", b"%d" % i) for i in range(60)], {"batch.num.messages": 10})
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    types, arguments = (gateway.new_array(kind, 2) for kind in (jvm.java.lang.Class, jvm.java.lang.Object))
    for i, argument in enumerate((kafka_broker.bootstrap_servers, source)):
        types[i], arguments[i] = jvm.java.lang.Class.forName("java.lang.String"), argument
    try:
        reader_tests.getMethod(name, types).invoke(None, arguments)
    except Py4JJavaError as error:
        raise AssertionError(str(error.java_exception.getCause())) from error
