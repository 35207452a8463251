"""Whether the parameters of a copy agree with one another, and their SQL with Spark's names. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_kafka_spark.core.copies.batch_path import check_segments
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.errors import ExpressionError, InvalidInputError
from airflow_provider_kafka_spark.core.records.dead_letters import check_dead_letters
from airflow_provider_kafka_spark.core.records.expressions import (
    check_size,
    unknown_column,
    unknown_columns,
    unknown_function,
    unknown_functions,
)
from airflow_provider_kafka_spark.core.records.spark_functions import NEWEST_SPARK


def check_parameters(parameters: CopyParameters) -> None:
    """:raises KafkaSparkError: if two of them contradict each other, or an expression is too long."""
    for name, sql in parameters.transform.sql.items():
        check_size(name, sql, example="offset >= 100")
    transform = parameters.transform
    if transform.preserve_partition and "partition" in transform.columns:
        raise InvalidInputError(
            "preserve_partition=True and columns['partition'] contradict each other; give one of the two."
        )
    Target.of(transform)
    written = transform.topic_map.values() if transform.topic is None else (transform.topic,)
    check_dead_letters(transform.dead_letter_topic, transform.reject_when, written)
    check_segments(transform)


def check_names(parameters: CopyParameters, spark_version: str) -> list[str]:
    """Check the names of functions and columns before Spark starts, and so in a plan, too.

    :param spark_version: such as ``"4.0.0"``.
    :return: warnings, if Spark is newer than ``NEWEST_SPARK``: names that it may refuse.
    :raises ExpressionError: if Spark has no function of a name, or a record no such column.
    """
    unknown = list(_unknown_names(parameters))
    if unknown and tuple(map(int, spark_version.split(".")[:2])) <= NEWEST_SPARK:
        raise ExpressionError(unknown[0])
    return [f"Spark {spark_version} may refuse this: {message}" for message in unknown]


def _unknown_names(parameters: CopyParameters) -> Iterator[str]:
    for name, sql in parameters.transform.sql.items():
        yield from (unknown_function(name, sql, function) for function in unknown_functions(sql))
        yield from (unknown_column(name, sql, column) for column in unknown_columns(sql))
