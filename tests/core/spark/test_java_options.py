from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.core.spark.java_options import java_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_HOSTILE = (
    *('"', "'", "\\", '\\"', "`", " ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u2028", "\u3000", "$(id)", "ä"),
    'x" -agentlib:jdwp=transport=dt_socket "',
    "x\u2003-XX:OnError=id",
    "\\",
    "'x' \"y\"",
)


@pytest.fixture(scope="module")
def splitters(spark: SparkSession) -> list[Callable[[str], list[str]]]:
    """What Spark itself splits options with: its launcher that of a driver, its workers those of executors."""
    gateway = spark.sparkContext._gateway
    jvm: Any = gateway.jvm
    launcher = jvm.java.lang.Class.forName("org.apache.spark.launcher.CommandBuilderUtils")
    (parse,) = [method for method in launcher.getDeclaredMethods() if method.getName() == "parseOptionString"]
    parse.setAccessible(True)

    def by_launcher(text: str) -> list[str]:
        arguments = gateway.new_array(jvm.java.lang.Object, 1)
        arguments[0] = text
        return list(parse.invoke(None, arguments))

    def by_worker(text: str) -> list[str]:
        found = jvm.org.apache.spark.util.Utils.splitCommandString(text)
        return [found.apply(i) for i in range(found.size())]

    return [by_launcher, by_worker]


@pytest.mark.parametrize("hostile", _HOSTILE, ids=ascii)
def test_one_option_stays_one(splitters: list[Callable[[str], list[str]]], hostile: str) -> None:
    """With nothing taken from it, wherever in it the text stands."""
    options = [f"-Da={hostile}", f"-Db={hostile}c", f"-Dd=e{hostile}"]

    for split in splitters:
        assert split(" ".join(map(java_option, options))) == options
