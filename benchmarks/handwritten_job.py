"""A hand-written job: Spark's Kafka source and sink with Spark's own settings.

``handwritten_job.py BOOTSTRAP SOURCE TARGET [STARTING_OFFSETS ENDING_OFFSETS]``; ``spark-submit`` starts this file, so
it imports PySpark only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy(
    spark: SparkSession,
    bootstrap: str,
    source: str,
    target: str,
    starting_offsets: str = "earliest",
    ending_offsets: str = "latest",
    where: str = "true",
    value: str = "value",
) -> None:
    """Copy keys, values and headers.

    :param starting_offsets: ``"earliest"``, or Spark's JSON of offsets by topic and partition.
    :param ending_offsets: ``"latest"``, or the same; exclusive.
    :param where: an SQL predicate.
    :param value: an SQL expression.
    """
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", starting_offsets)
        .option("endingOffsets", ending_offsets)
        .option("includeHeaders", "true")
        .load()
    )
    (
        records.where(where)
        .selectExpr("key", f"{value} as value", "headers")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .save()
    )


def main(argv: Sequence[str]) -> None:
    """Copy in a new session."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("handwritten").getOrCreate()
    copy(spark, *argv)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
