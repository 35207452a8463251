"""Compile the expressions of a plan, as the job does before it writes anything. No broker is asked.

``spark-submit`` starts this file with the id of the process that waits for it, the path of the expressions, and the
path of the answer as its only arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.jobs.spark_application import started_jvm
from airflow_provider_kafka_spark.jobs.transform import check_expressions
from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(session: SparkSession, asked: Path, answered: Path) -> None:
    """Write the faults that a job would report: none, or the first.

    :param asked: a :class:`Transform` in JSON.
    """
    found = []
    try:
        check_expressions(session, decode_text(Transform, asked.read_text()))
    except KafkaSparkError as error:
        found.append(encode(Fault.of(error)))
    answered.write_text(json.dumps(found))


def main(argv: Sequence[str] | None = None) -> int:
    """Answer, while the process whose id is the first argument lives."""
    owner, asked, answered = sys.argv[1:] if argv is None else argv
    end_with_owner(int(owner))
    started_jvm()
    from pyspark.sql import SparkSession

    answer(SparkSession.builder.getOrCreate(), Path(asked), Path(answered))
    return 0


if __name__ == "__main__":
    sys.exit(main())
