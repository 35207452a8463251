"""Compile the expressions of a plan by the worker's Spark, since nobody should approve SQL that the copy refuses."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from airflow_provider_kafka_spark.core.spark.java_properties import format_properties
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.submission.job_files import write_private
from airflow_provider_kafka_spark.submission.local_driver import LocalDriver
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder

#: Some 20 times what it takes.
_MAX_SECONDS = 120.0

log = logging.getLogger(__name__)


def compile_expressions(cluster: SparkCluster, transform: Transform) -> list[str]:
    """Compile all SQL as the job does it, which takes a start of Spark; without SQL nothing is started.

    :return: a warning, if Spark could not be asked.
    :raises ExpressionError: if the job would refuse an expression.
    """
    if not transform.sql:
        return []
    log.info("Spark %s compiles %s.", cluster.spark_home.spark_version, ", ".join(transform.sql))
    with temporary_folder() as folder:
        answered = folder / "answer.json"
        failure, said = _ask(cluster, transform, folder, answered)
        faults = json.loads(answered.read_text()) if failure is None and answered.exists() else None
    if faults is None:
        log.warning("Spark could not be asked: %s.\n%s", failure or "it left no answer", said)
        names = ", ".join(transform.sql)
        return [f"Only the copy compiles SQL: {names} may still be refused. The task's log says why the plan has not."]
    for fault in faults:
        raise decode(Fault, fault).error(())
    return []


def _ask(cluster: SparkCluster, transform: Transform, folder: Path, answered: Path) -> tuple[str | None, str]:
    sql = Transform(
        where=transform.where,
        columns=transform.columns,
        topic_expr=transform.topic_expr,
        reject_when=transform.reject_when,
    )
    asked = write_private(folder / "asked.json", json.dumps(encode(sql)).encode())
    # In the place of Spark's own file of properties, which may lead to an event log, plugins and other machines.
    properties = write_private(folder / "sql.conf", format_properties(cluster.sql_properties).encode())
    driver = LocalDriver(
        find_java(cluster.spark_home.minimum_java),
        cluster.spark_home,
        "expression_check",
        [str(asked), str(answered)],
        ["--properties-file", str(properties), "--conf", "spark.ui.enabled=false"],
    )
    try:
        return driver.run(folder, _MAX_SECONDS)
    except OSError as error:
        return str(error), ""
