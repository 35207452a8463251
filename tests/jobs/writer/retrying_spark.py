"""A program that runs a job of the writer where Spark runs a failed task again: it prints how often the task failed.

Its arguments are a broker, a source, a target and the number of records.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.jars import resolve
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from tests.jobs.writer.conftest import TaskFailedError, WriterJob

_ATTEMPTS = 4


def main(servers: str, source: str, target: str, count: str) -> None:
    jars = resolve(find_spark_home().connector_coordinates, excludes=CONNECTOR_EXCLUDES)
    spark = (
        SparkSession.builder.master(f"local[2,{_ATTEMPTS}]")
        .config("spark.driver.extraClassPath", ":".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    with KafkaBroker.existing(servers) as broker:
        job = WriterJob(spark, broker, broker, source, target, int(count))
        job.claim()
        job.open()
        try:
            job.run()
        except TaskFailedError as error:
            tracker = spark.sparkContext.statusTracker()
            failed = [info.numFailedTasks for i in range(10) if (info := tracker.getStageInfo(i)) is not None]
            sys.stdout.write(json.dumps({"reason": error.failure.reason, "failed": sum(failed)}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
