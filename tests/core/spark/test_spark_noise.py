"""Promises of :func:`is_noise`: what nobody can act on is left out, and nothing else."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.spark.spark_noise import is_noise

_AT = "26/11/24 01:55:21"


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
        'Setting Spark log level to "WARN".',
        f"{_AT} INFO SparkContext: Running Spark version 4.0.0",
        f"{_AT} WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin-java "
        "classes where applicable",
        f"{_AT} WARN Utils: Service 'SparkUI' could not bind on port 4040. Attempting port 4041.",
        f"{_AT} WARN Utils: Service 'org.apache.spark.network.netty.NettyBlockTransferService' could not bind on port "
        "7079. Attempting port 7080.",
        f"{_AT} WARN SparkConf: Note that spark.local.dir will be overridden by the value set by the cluster manager "
        "(via SPARK_LOCAL_DIRS in standalone/kubernetes and LOCAL_DIRS in YARN).",
        f"{_AT} WARN KafkaDataConsumer: KafkaDataConsumer is not running in UninterruptibleThread. It may hang when "
        "KafkaDataConsumer's methods are interrupted because of KAFKA-1894",
        f"{_AT} WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.1.1; using 10.0.0.5 instead",
    ],
)
def test_what_nobody_can_act_on(line: str) -> None:
    assert is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        f"{_AT} ERROR SparkUI: Failed to bind SparkUI",
        f"{_AT} ERROR Utils: Service 'SparkUI' could not bind on port 4055. Attempting port 4056.",
        f"{_AT} WARN Utils: Service 'SparkUI' could not bind on port 4040 after 16 retries",
        "java.net.BindException: Address already in use: Service 'SparkUI' failed after 16 retries",
        f"{_AT} WARN TaskSetManager: Lost task 0.0 in stage 0.0: WARNING: Using incubator modules: "
        "jdk.incubator.vector",
        f"{_AT} WARN NativeCodeLoader: Unable to load libzstd",
        "WARNING: Using incubator modules: another.module",
        "",
    ],
)
def test_all_else_is_logged(line: str) -> None:
    assert not is_noise(line)
