"""From a source to the target: the settings of the writer, and what its failures mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_kafka_spark.core.copies.batch_path import (
    clients_in_the_way,
    rewritten_because,
    wants_batches,
    warning_of,
    warnings_of_codec,
)
from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS
from airflow_provider_kafka_spark.core.spark.tuning import COMPRESSION, batches_memory
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.core.wire.task_failures import failure_of_task
from airflow_provider_kafka_spark.core.wire.writer_messages import (
    Batches,
    SharedPace,
    WriterSettings,
    task_text,
)
from airflow_provider_kafka_spark.jobs.computed_rows import computed_rows
from airflow_provider_kafka_spark.jobs.kafka_rdd import poll_timeout_ms, wait_for_records_ms
from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor, WriteResult, missing_internals, run_writer
from airflow_provider_kafka_spark.jobs.remaining import Remaining
from airflow_provider_kafka_spark.jobs.run_store import TIMEOUT_OPTION
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import names_headers, needs_sql, to_rows

_BATCH_SIZE = "kafka.batch.size"
#: How long a producer tries to deliver a record (``delivery.timeout.ms``) by default, in ms.
_DELIVERY_TIMEOUT_MS = 120_000
_MARGIN_MS = 10_000
#: Records of one transaction at most; most are committed after a time, so that consumers see them.
COMMIT_RECORDS, COMMIT_MS = 1_000_000, 2_000
#: Smaller batches take longer, one request each, than new ones of many records: see docs/explanation/performance.md.
LEAST_BYTES = 32_768
#: A record that is read into memory, however it is compressed: more than any that can be sent by default.
_MAX_RECORD_BYTES, _MAX_REQUEST = 64 * 1024 * 1024, "kafka.max.request.size"
#: What a broker answers that fails at a record which it writes anew.
_UNNAMED = "UnknownServerException"
#: What a broker takes by default, where the target's setting is not known.
_MAX_MESSAGE_BYTES = 1_048_588
#: Of the consumer of batches: the worker has decided all offsets, and the writer knows the fetches of
#: the classic consumer.
_CONSUMER = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "group.protocol": "classic",
}


def write_records(
    spark: SparkApplication,
    request: CopyJob,
    remaining: Remaining,
    configs: Mapping[str, Mapping[str, str]],
    monitor: TaskMonitor,
    pace: SharedPace | None = None,
) -> WriteResult:
    """Write what is selected of a source, and return when all of it is acknowledged, or committed.

    :param configs: settings of each target, as far as they are known.
    :param pace: None for no limit.
    :raises KafkaSparkError: if one record cannot be written; it names the record.
    """
    from py4j.protocol import Py4JJavaError

    source, transform = remaining.source, request.transform
    if source is None:
        return WriteResult()
    largest = {name: int(config["max.message.bytes"]) for name, config in configs.items()}
    settings = _settings(request, remaining, _fitting_batches(request.sink_options, largest), pace)
    records = source.records
    batches, notes = _batches(spark, request, remaining, configs)
    settings = replace(settings, batches=batches)
    if batches is not None:
        memory = batches_memory(request.sink_options, batches.max_bytes)
        settings = replace(settings, producer={**settings.producer, "buffer.memory": memory})
    if records is None or needs_sql(transform):
        is_beside = records is not None
        of_source = source.rows(spark.session, headers=names_headers(transform), beside_records=is_beside)
        rows = to_rows(of_source, transform, whole=not is_beside)
        settings = replace(settings, columns=tuple(rows.columns))
        records = computed_rows(rows)
    tasks = [task_text(task, remaining.slots) for task in source.tasks]
    try:
        return replace(run_writer(spark.sparkContext, records, settings, tasks, monitor), notes=notes)
    except Py4JJavaError as error:
        failure = monitor.failure
        if failure is None:
            raise
        if batches is not None and notes and _UNNAMED in failure.reason:
            then = f"Leave {COMPRESSION} out of sink_options, or give all targets one compression.type."
            raise TargetError(f"{failure.message} {notes[0]} {then}") from error
        raise failure_of_task(failure, largest, request) from error


def _settings(
    request: CopyJob, remaining: Remaining, fitting: Mapping[str, str], pace: SharedPace | None
) -> WriterSettings:
    transform, options = request.transform, {**request.sink_options, **fitting}
    options.setdefault(TIMEOUT_OPTION, str(TRANSACTION_TIMEOUT_MS))
    delivery_timeout_ms = int(options.get("kafka.delivery.timeout.ms", _DELIVERY_TIMEOUT_MS))
    return WriterSettings(
        run_id=remaining.run.run_id,
        provenance_header=transform.provenance.header,
        transform=transform,
        target_ids=remaining.target_ids,
        columns=None,
        counted_from_ms=None if request.window is None else request.window.start_ms,
        counted_until_ms=None if request.window is None else request.window.end_ms,
        delivery_timeout_ms=delivery_timeout_ms + _MARGIN_MS,
        stall_timeout_ms=poll_timeout_ms(request.source_options),
        commit_records=COMMIT_RECORDS,
        # A pause begins after a commit.
        commit_ms=COMMIT_MS if request.how.pace is None or request.how.pace.pause is None else COMMIT_MS // 2,
        owner=remaining.run.owner,
        id_prefix=remaining.run.id_prefix,
        delivered=remaining.is_delivered,
        segments=transform.provenance.in_segments,
        pace=pace,
        producer={name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")},
    )


def _batches(
    spark: SparkApplication, request: CopyJob, remaining: Remaining, configs: Mapping[str, Mapping[str, str]]
) -> tuple[Batches | None, tuple[str, ...]]:
    """How batches are read, or None for Spark's source; and what the author should know, who asked for batches."""
    options, transform, source = request.source_options, request.transform, remaining.source
    is_wanted = wants_batches(request.how.reader, transform)
    # Without its RDD there are only rows, and a warning of its own.
    if source is None or source.records is None or needs_sql(transform):
        return None, ()
    # Spark's source opens a consumer for each partition, where that of the writer goes from one to the next.
    if not is_wanted and not (source.has_bundles and request.how.reader is None):
        return None, ()
    others = clients_in_the_way(request.sink_options, fail_on_data_loss=request.how.fail_on_data_loss)
    if not others and (missing := missing_internals(spark.sparkContext)):
        others = (f"Kafka's client: {missing}",)
    if others:
        return None, (warning_of(others),) if is_wanted else ()
    consumer = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    # Where the target's limit is not known, the author's batch.size says all there is.
    unknown = min(_MAX_MESSAGE_BYTES, int(request.sink_options.get(_BATCH_SIZE, _MAX_MESSAGE_BYTES)))
    largest = min((int(config["max.message.bytes"]) for config in configs.values()), default=unknown)
    # One that is too large to be sent may yet be one that is not wanted.
    largest_record = max(_MAX_RECORD_BYTES, int(request.sink_options.get(_MAX_REQUEST, 0)))
    passes_on = not rewritten_because(transform, request.sink_options, sorted(remaining.target_ids), configs)
    wait_ms = wait_for_records_ms(options, int(request.sink_options.get(TIMEOUT_OPTION, TRANSACTION_TIMEOUT_MS)))
    batches = Batches({**consumer, **_CONSUMER}, passes_on, largest, wait_ms, LEAST_BYTES, largest_record)
    return batches, warnings_of_codec(request.sink_options[COMPRESSION], configs)


def _fitting_batches(options: Mapping[str, str], largest: Mapping[str, int]) -> dict[str, str]:
    """The size of producer batches that are not larger than what every target takes, if that has to be said.

    A batch that is too large is split into batches of ``batch.size``: where that is larger itself, the producer splits
    without end.
    """
    limit = min(largest.values(), default=None)
    return {} if limit is None or int(options.get(_BATCH_SIZE, 0)) <= limit else {_BATCH_SIZE: str(limit)}
