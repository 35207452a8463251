"""Kafka's records as an RDD: any number of spans of a partition in one go, and no SQL.

The RDD is the one inside Spark's own Kafka source. Its classes are internal to Spark (``private[kafka010]``, public in
the bytecode) and may change, so this module is the only one that uses them. It returns None where they are not as
known, and ``kafka_source`` then reads by Spark's public reader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import uuid4, uuid5

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS
from airflow_provider_kafka_spark.jobs.java_names import java_of
from airflow_provider_kafka_spark.jobs.record_writer import record_handoff

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_kafka_spark.jobs.spark_application import HasContext

_POLL_TIMEOUT = "kafkaConsumer.pollTimeoutMs"
_DEFAULT_POLL_TIMEOUT_MS = 120_000
#: What the consumer waits for any other answer, such as that about the offsets of a partition.
_API_TIMEOUT, _DEFAULT_API_TIMEOUT_MS = "default.api.timeout.ms", 60_000
_MIN_POLL_TIMEOUT_MS = 1_000
#: Of this driver.
_OWN = uuid4()


def poll_timeout_ms(options: Mapping[str, str]) -> int:
    """How long the source may give nothing, in ms.

    :param options: of the source.
    """
    return int(options.get(_POLL_TIMEOUT, _DEFAULT_POLL_TIMEOUT_MS))


def wait_for_records_ms(options: Mapping[str, str], transaction_timeout_ms: int) -> int:
    """How long one wait for records is at most: the writer commits what is open before it waits again.

    :param options: of the source.
    :param transaction_timeout_ms: of the transactions that are open meanwhile.
    """
    return min(poll_timeout_ms(options), max(_MIN_POLL_TIMEOUT_MS, transaction_timeout_ms // 4))


def read_tasks(
    spark: HasContext,
    tasks: Sequence[Sequence[OffsetRange]],
    options: Mapping[str, str],
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> Any:
    """A ``JavaRDD`` of ``ConsumerRecord``, one Spark partition per task, or None if this Spark has no such RDD.

    One wait for records is short: the writer commits what is open before it waits again.

    :param tasks: the spans of each task, which it reads one after the other.
    :param options: of the source, without the offsets.
    :param transaction_timeout_ms: of the transactions that are open meanwhile.
    """
    from py4j.protocol import Py4JError

    try:
        return _read(spark, tasks, options, wait_for_records_ms(options, transaction_timeout_ms))
    # TypeError: py4j's answer where a name is a package, that is, where the class is absent.
    except (Py4JError, TypeError, AttributeError) as error:
        sys.stderr.write(
            f"Spark {spark.sparkContext.version} has no Kafka RDD as known here; its public reader is used: {error}\n"
        )
        return None


def as_rows(spark: SparkSession, records: Any, *, headers: bool = True, beside_records: bool = False) -> DataFrame:
    """Kafka's records with the columns of Spark's Kafka source, in the same Spark partitions and order.

    :param records: a ``JavaRDD`` of ``ConsumerRecord``.
    :param headers: whether there is a column of them, which costs a quarter of a copy.
    :param beside_records: whether the writer gets the records as well.
    """
    from pyspark.sql import DataFrame

    jvm = java_of(spark.sparkContext)
    session: Any = spark._jsparkSession
    kafka010 = jvm.org.apache.spark.sql.kafka010
    converter = kafka010.KafkaRecordToRowConverter()
    to_row = converter.toInternalRowWithHeaders() if headers else converter.toInternalRowWithoutHeaders()
    if beside_records:
        rows = records.map(record_handoff(spark.sparkContext, to_row)).rdd()
    else:
        row_class = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        rows = records.rdd().map(to_row, jvm.scala.reflect.ClassTag.apply(row_class))
    schema = kafka010.KafkaRecordToRowConverter.kafkaSchema(headers)
    return DataFrame(session.internalCreateDataFrame(rows, schema, False), spark)


def _read(spark: HasContext, tasks: Sequence[Sequence[OffsetRange]], options: Mapping[str, str], wait_ms: int) -> Any:
    jvm = java_of(spark.sparkContext)
    context = spark.sparkContext._jsc.sc()
    kafka010 = jvm.org.apache.spark.sql.kafka010
    params = jvm.java.util.HashMap()
    for name, value in options.items():
        if name.startswith("kafka."):
            params.put(name.removeprefix("kafka."), value)
    # After a poll without records, Spark's consumer asks for the offsets of the partition.
    params.put(_API_TIMEOUT, str(min(int(params.get(_API_TIMEOUT) or _DEFAULT_API_TIMEOUT_MS), wait_ms)))
    executor_params = kafka010.KafkaSourceProvider.kafkaParamsForExecutors(
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(params),
        _group(options),
    )
    fail_on_data_loss = options.get("failOnDataLoss", "true") == "true"

    def rdd_of(spans: Iterable[OffsetRange]) -> Any:
        ranges = _offset_ranges(jvm, spans)
        return kafka010.KafkaSourceRDD(context, executor_params, ranges, wait_ms, fail_on_data_loss).toJavaRDD()

    parts = list[Any]()
    for is_single, group in groupby(tasks, key=lambda task: len(task) == 1):
        if is_single:
            # A Spark partition for each span.
            parts.append(rdd_of(span for (span,) in group))
        else:
            # Without a shuffle and without preferred places, a coalesced partition holds its parents in their order.
            parts += [rdd_of(task).coalesce(1, False) for task in group]
    # A stream's first run may have none.
    first, *others = parts or [rdd_of(())]
    if not others:
        return first
    array = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.api.java.JavaRDD, len(others) + 1)  # type: ignore[union-attr]
    for i, each in enumerate((first, *others)):
        array[i] = each
    return spark.sparkContext._jsc.union(array)


def _group(options: Mapping[str, str]) -> str:
    """By which Spark keeps consumers on an executor: one batch of a stream gets those of the batch before, and nobody
    gets those of another cluster or of other settings.
    """
    same = uuid5(_OWN, repr(sorted(options.items())))
    return f"{options.get('groupIdPrefix', 'spark-kafka-relation')}-{same}-executor"


def _offset_ranges(jvm: Any, spans: Iterable[OffsetRange]) -> Any:
    kafka010 = jvm.org.apache.spark.sql.kafka010
    nowhere = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    buffer = jvm.scala.collection.mutable.ArrayBuffer()
    for span in spans:
        partition = jvm.org.apache.kafka.common.TopicPartition(span.topic, span.partition)
        offsets = kafka010.KafkaOffsetRange(partition, span.from_offset, span.until_offset, nowhere)
        # The name that it has in every version of Scala.
        getattr(buffer, "$plus$eq")(offsets)
    return buffer.toSeq()
