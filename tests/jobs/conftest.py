"""A Spark session in the tests' own process: what a driver has, without the start of one for every test."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.core.tuning import sink_defaults, source_defaults, spark_defaults
from airflow_provider_kafka_spark.hooks.jars import resolve
from airflow_provider_kafka_spark.hooks.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from airflow_provider_kafka_spark.jobs.batch import copy
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

Copy = Callable[..., JobReport]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark of two cores with the Kafka connector."""
    jars = resolve(find_spark_home().connector_coordinates, excludes=CONNECTOR_EXCLUDES)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]")
    for name, value in spark_defaults().items():
        builder = builder.config(name, value)
    session = (
        builder.config("spark.driver.extraClassPath", ":".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        # A copy needs no Python on the executors.
        .config("spark.pyspark.python", "/bin/false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.heartbeatInterval", "200ms")
        .getOrCreate()
    )
    # It says goodbye at exit, when pytest has closed what it would say it to.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield session
    session.stop()


@pytest.fixture
def run_copy(spark: SparkSession, kafka_broker: KafkaBroker) -> Copy:
    """Run the job in this process: ``run_copy(["orders:0:0:10"], topic="copy", where=...)``."""

    def run(ranges: Sequence[str], run_id: str = "0123456789abcdef", **options: Any) -> JobReport:
        parsed = OffsetRanges.parse(ranges)
        spans = plan_spans(parsed)
        login = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}
        request_fields = {name: options.pop(name) for name in list(options) if name in JobRequest.__dataclass_fields__}
        request = JobRequest(
            run_id=run_id,
            plan_digest="digest",
            ranges=tuple(parsed.format()),
            spans=spans,
            transform=Transform(**options),
            source_options={**source_defaults(spans, read_committed=True), **login},
            sink_options={**sink_defaults(), **login},
            report_uri="",
            **request_fields,
        )
        return copy(spark, request)

    return run
