"""What Spark SQL computes of records, such that its errors quote none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.jobs.record_writer import row_guard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def computed_rows(rows: DataFrame) -> Any:
    """A ``JavaRDD`` of what a DataFrame computes, with the session's own settings of SQL on the executors.

    Where an expression fails, the error of the Spark task names the record and quotes nothing of it.
    """
    context = rows.sparkSession.sparkContext
    session: Any = rows.sparkSession._jsparkSession
    # One text, since each version of Scala has converters of its own.
    settings: str = session.sessionState().conf().getAllConfs().mkString("\0")
    for setting in settings.split("\0"):
        name, _, value = setting.partition(" -> ")
        if name.startswith("spark.sql."):
            context.setLocalProperty(name, value)
    return rows._jdf.queryExecution().toRdd().toJavaRDD().mapPartitions(row_guard(context))


def as_computed(rows: DataFrame) -> DataFrame:
    """The same as a DataFrame, for more SQL over it."""
    from pyspark.sql import DataFrame

    spark = rows.sparkSession
    session: Any = spark._jsparkSession
    return DataFrame(session.internalCreateDataFrame(computed_rows(rows).rdd(), rows._jdf.schema(), False), spark)
