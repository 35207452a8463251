"""A hand-written stream: Spark's Kafka source and sink with Spark's own settings, and availableNow.

``handwritten_stream.py BOOTSTRAP SOURCE TARGET CHECKPOINT``; ``spark-submit`` starts this file, so it imports PySpark
only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_stream(spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    """Copy keys, values and headers up to where the topic ends now.

    :param checkpoint: a folder for this stream only.
    """
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        records.select("key", "value", "headers")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(argv: Sequence[str]) -> None:
    """Catch up in a new session."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("handwritten").getOrCreate()
    copy_stream(spark, *argv)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
