"""Parts of the writer: one test for each method of ``SinkTests.java``, with Kafka's own mock of a producer, of
``BatchWalkerTests.java``, against Kafka's own classes, and of ``BatchReaderTests.java``, against a real broker. The
method's comment is the promise.
"""

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

_SINKS, _READER, _WALKER = "SinkTests", "BatchReaderTests", "BatchWalkerTests"
_SOURCES = {name: Path(__file__).with_name(f"{name}.java").read_text() for name in (_SINKS, _READER, _WALKER)}
_PACKAGE = "airflow_provider_kafka_spark.jobs"

pytestmark = pytest.mark.spark


def _methods(name: str) -> list[str]:
    return re.findall(r"public static void (\w+)\(", _SOURCES[name])


@pytest.fixture(scope="module")
def loader(spark: SparkSession) -> Any:
    """Of the classes, which are compiled with the writer: they are in the same package."""
    folder = f"{_PACKAGE}.writer".replace(".", "/")
    tests = {f"{folder}/{name}.java": source for name, source in _SOURCES.items()}
    return compile_java(spark.sparkContext._jvm, {**java_sources(_PACKAGE, "writer"), **tests}).loader


def _call(spark: SparkSession, loader: Any, name: str, method: str, *texts: str) -> None:
    from py4j.protocol import Py4JJavaError

    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    types, arguments = (gateway.new_array(kind, len(texts)) for kind in (jvm.java.lang.Class, jvm.java.lang.Object))
    for i, text in enumerate(texts):
        types[i], arguments[i] = jvm.java.lang.Class.forName("java.lang.String"), text
    try:
        loader.loadClass(f"{_PACKAGE}.writer.{name}").getMethod(method, types).invoke(None, arguments)
    except Py4JJavaError as error:
        raise AssertionError(str(error.java_exception.getCause())) from error


@pytest.mark.parametrize("name", _methods(_SINKS))
def test_a_sink(spark: SparkSession, loader: Any, name: str) -> None:
    _call(spark, loader, _SINKS, name)


@pytest.mark.parametrize("name", _methods(_WALKER))
def test_records_as_bytes(spark: SparkSession, loader: Any, name: str) -> None:
    _call(spark, loader, _WALKER, name)


@pytest.mark.broker
@pytest.mark.parametrize("name", _methods(_READER))
def test_a_reader(spark: SparkSession, loader: Any, kafka_broker: KafkaBroker, topic: TopicFactory, name: str) -> None:
    source = topic()
    kafka_broker.produce(source, [Record(b"k", b"%d" % i) for i in range(60)], {"batch.num.messages": 10})

    _call(spark, loader, _READER, name, kafka_broker.bootstrap_servers, source)
