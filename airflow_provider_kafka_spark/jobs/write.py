"""From a source to the target: the settings of the writer, and what its failures mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import JobFailedError, error_named
from airflow_provider_kafka_spark.core.handoff.refused_records import find_refused_record
from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.jobs.kafka_source import Source
from airflow_provider_kafka_spark.jobs.record_writer import ReadCounter, WriteResult, run_writer
from airflow_provider_kafka_spark.jobs.run_ownership import Claim
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import names_headers, needs_sql, to_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_SIZE = "kafka.batch.size"
#: How long a producer tries to deliver a record (``delivery.timeout.ms``) by default, in ms.
_DELIVERY_TIMEOUT_MS = 120_000
_MARGIN_MS = 10_000
#: Records of one transaction, at most; most are committed after a time (RecordWriter.java).
COMMIT_RECORDS = 1_000_000


def write_records(
    spark: SparkApplication,
    request: JobRequest,
    source: Source,
    configs: Mapping[str, Mapping[str, str]],
    claim: Claim | None,
    counter: ReadCounter,
) -> WriteResult:
    """Write what is kept of a source, and return when all of it is acknowledged, or committed.

    :param configs: settings of each target, as far as they are known.
    :param claim: to write exactly once; None for at least once.
    :raises KafkaSparkError: if one record cannot be written; it names the record.
    """
    from py4j.protocol import Py4JJavaError

    largest = {name: int(config["max.message.bytes"]) for name, config in configs.items()}
    settings = {**_settings(request), **_fitting_batches(request.sink_options, largest)}
    if claim is not None:
        settings |= claim.settings | {"commit_records": str(COMMIT_RECORDS)}
    records, transform = source.records, request.transform
    if records is None or needs_sql(transform):
        is_beside = records is not None
        of_source = source.rows(spark.session, headers=names_headers(transform), beside_records=is_beside)
        rows = to_rows(of_source, transform, whole=not is_beside)
        settings["columns"] = " ".join(rows.columns)
        records = _rows(spark.session, rows)
    try:
        return run_writer(spark.sparkContext, records, settings, source.table, counter)
    except Py4JJavaError as error:
        refused = find_refused_record(str(error), largest, request)
        if refused is None:
            raise
        raise error_named(refused.error, JobFailedError)(refused.message) from error


def _settings(request: JobRequest) -> dict[str, str]:
    """Settings of the Java class; a flag is there or not."""
    transform = request.transform
    delivery_timeout_ms = int(request.sink_options.get("kafka.delivery.timeout.ms", _DELIVERY_TIMEOUT_MS))
    found = {
        "run_id": request.run_id,
        "delivery_timeout_ms": str(delivery_timeout_ms + _MARGIN_MS),
        "provenance_header": PROVENANCE_HEADER if transform.provenance_headers else None,
        "target_topic": transform.topic,
        "include_headers": "yes" if transform.include_headers else None,
        "preserve_partition": "yes" if transform.preserve_partition else None,
        "preserve_timestamps": "yes" if transform.preserve_timestamps else None,
        "window_start_ms": transform.window_start_ms,
        "window_end_ms": transform.window_end_ms,
        **request.sink_options,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _fitting_batches(options: Mapping[str, str], largest: Mapping[str, int]) -> dict[str, str]:
    """The size of producer batches that are not larger than what every target takes, if that has to be said.

    A batch that is too large is split into batches of ``batch.size``: where that is larger itself, the producer splits
    without end.
    """
    limit = min(largest.values(), default=None)
    return {} if limit is None or int(options.get(_BATCH_SIZE, 0)) <= limit else {_BATCH_SIZE: str(limit)}


def _rows(spark: SparkSession, rows: Any) -> Any:
    """A ``JavaRDD`` of what a DataFrame computes, with the session's own settings of SQL on the executors."""
    session: Any = spark._jsparkSession
    settings = session.sessionState().conf().getAllConfs()
    jvm: Any = spark.sparkContext._jvm
    for name, value in dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(settings)).items():
        if name.startswith("spark.sql."):
            spark.sparkContext.setLocalProperty(name, value)
    return rows._jdf.queryExecution().toRdd().toJavaRDD()
