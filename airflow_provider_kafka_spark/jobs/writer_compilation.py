"""Compile the writer into a jar, which later jobs find on their class path.

``spark-submit`` starts this file with the id of the process that waits for it and the path of the jar as its only
arguments. Only the JVM is needed: no application is started.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_kafka_spark.jobs.record_writer import write_writer_jar
from airflow_provider_kafka_spark.jobs.spark_application import started_jvm
from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner


def main(argv: Sequence[str] | None = None) -> int:
    """Compile, while the process whose id is the first argument lives.

    :raises JarError: if the writer does not compile.
    """
    owner, jar = sys.argv[1:] if argv is None else argv
    end_with_owner(int(owner))
    write_writer_jar(started_jvm(), Path(jar))
    return 0


if __name__ == "__main__":
    sys.exit(main())
