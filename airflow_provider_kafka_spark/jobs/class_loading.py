"""Load the classes that copies load, for an archive that the JVM writes of them when it ends. Nothing is copied, and no
broker is needed.

``spark-submit`` starts this file with the id of the process that waits for it as its only argument.
"""

from __future__ import annotations

import socket
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import cut
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.spark.tuning import COMPRESSION, DEFAULT_CODEC, sink_defaults
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.core.wire.writer_messages import WriterSettings, piece_text
from airflow_provider_kafka_spark.jobs.computed_rows import computed_rows
from airflow_provider_kafka_spark.jobs.java_names import java_of
from airflow_provider_kafka_spark.jobs.kafka_admin import client_config
from airflow_provider_kafka_spark.jobs.kafka_rdd import as_rows, read_tasks
from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor, run_writer
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import check_expressions, needs_sql, to_rows
from airflow_provider_kafka_spark.jobs.worker_watchdog import end_with_owner

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_TOPIC, _GROUP = "classes", "class-loading"
#: For requests of clients that nobody answers.
_WAIT_MS = 200
#: One class of each jar whose classes are loaded.
_OF_JARS = (
    "org.apache.kafka.clients.admin.AdminClient",
    "org.apache.spark.sql.kafka010.KafkaSourceRDD",
    "org.apache.spark.kafka010.KafkaConfigUpdater",
)
_WRITER = "airflow_provider_kafka_spark.jobs.writer.RecordWriter"


def load_classes(spark: SparkApplication) -> None:
    """Do what a copy does, as far as that needs no broker; load the rest by name.

    :raises Py4JJavaError: if Spark cannot do it.
    :raises JarError: if the connector is not on the class path.
    """
    from py4j.protocol import Py4JJavaError

    _copy_nothing(spark, Transform(topic=_TOPIC))
    _copy_nothing(
        spark,
        Transform(
            where="string(value) is not null",
            columns={"value": "upper(string(value))"},
            topic_expr="concat(topic, '_copy')",
        ),
    )
    _open_clients(spark)
    for name in _OF_JARS:
        _load_jar_of(spark, name)
    # Without it on the class path, the writer was compiled in memory.
    with suppress(Py4JJavaError):
        _load_jar_of(spark, _WRITER)


def _copy_nothing(spark: SparkApplication, transform: Transform) -> None:
    """Copy an empty range, about which Spark asks no broker."""
    context = spark.sparkContext
    records = read_tasks(spark, [[OffsetRange(_TOPIC, 0, 0, 0)]], {"kafka.bootstrap.servers": "localhost:9"})
    if records is None:
        return
    columns = None
    if needs_sql(transform):
        check_expressions(spark.session, transform)
        rows = to_rows(as_rows(spark.session, records, headers=False, beside_records=True), transform, whole=False)
        records, columns = computed_rows(rows), tuple(rows.columns)
    settings = WriterSettings(
        run_id=_GROUP,
        provenance_header=PROVENANCE_HEADER,
        transform=transform,
        target_ids={},
        columns=columns,
        delivery_timeout_ms=_WAIT_MS,
        stall_timeout_ms=_WAIT_MS,
        commit_records=1,
        commit_ms=_WAIT_MS,
        owner=None,
        id_prefix=None,
        delivered=False,
        pace=None,
        producer={},
    )
    planned = OffsetRange(_TOPIC, 0, 0, 1)
    (piece,) = cut({planned: 0}, [[planned]], {})
    context.setJobGroup(_GROUP, "Load classes")
    with TaskMonitor(context, _GROUP) as monitor:
        run_writer(context, records, settings, [piece_text(piece, None)], monitor)


def _open_clients(spark: SparkApplication) -> None:
    """Kafka's clients, each with a request to a port that refuses them."""
    jvm = java_of(spark.sparkContext)
    clients, serialization = jvm.org.apache.kafka.clients, jvm.org.apache.kafka.common.serialization
    wait = jvm.java.time.Duration.ofMillis(_WAIT_MS)
    with _closed_port() as port:
        config = client_config(
            jvm,
            {
                **sink_defaults(),
                COMPRESSION: DEFAULT_CODEC,
                "kafka.bootstrap.servers": f"127.0.0.1:{port}",
                "kafka.max.block.ms": str(_WAIT_MS),
                "kafka.request.timeout.ms": str(_WAIT_MS),
                "kafka.default.api.timeout.ms": str(_WAIT_MS),
            },
        )
        partition = jvm.org.apache.kafka.common.TopicPartition(_TOPIC, 0)
        admin = clients.admin.AdminClient.create(config)
        _try(lambda: admin.describeTopics(_list(jvm, _TOPIC)).allTopicNames().get())
        _try(lambda: admin.listConsumerGroupOffsets(_GROUP).partitionsToOffsetAndMetadata().get())
        admin.close(wait)
        config.put("transactional.id", _GROUP)
        bytes_out, bytes_in = serialization.ByteArraySerializer, serialization.ByteArrayDeserializer
        producer = clients.producer.KafkaProducer(config, bytes_out(), bytes_out())
        _try(producer.initTransactions)
        producer.close(wait)
        config.remove("transactional.id")
        consumer = clients.consumer.KafkaConsumer(config, bytes_in(), bytes_in())
        consumer.assign(_list(jvm, partition))
        consumer.seek(partition, 0)
        _try(lambda: consumer.poll(wait))
        consumer.close(wait)


@contextmanager
def _closed_port() -> Iterator[int]:
    """A port of this machine where nobody listens, and that nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def _try(request: Callable[[], object]) -> None:
    from py4j.protocol import Py4JJavaError

    # Nobody answers it.
    with suppress(Py4JJavaError):
        request()


def _load_jar_of(spark: SparkApplication, name: str) -> None:
    """All classes of the jar that has this one: a copy loads most of them only when brokers answer."""
    from py4j.protocol import Py4JJavaError

    jvm = java_of(spark.sparkContext)
    known: JavaObject = jvm.java.lang.Class.forName(name)
    loader = known.getClassLoader()
    with zipfile.ZipFile(known.getProtectionDomain().getCodeSource().getLocation().toURI().getPath()) as jar:
        entries = jar.namelist()
    for entry in entries:
        if entry.endswith(".class") and not entry.startswith("META-INF/"):
            # Some need classes that Spark does not ship.
            with suppress(Py4JJavaError):
                loader.loadClass(entry.removesuffix(".class").replace("/", "."))


def _list(jvm: Any, item: object) -> Any:
    java_list = jvm.java.util.ArrayList()
    java_list.add(item)
    return java_list


def main(argv: Sequence[str] | None = None) -> int:
    """Load the classes, while the process whose id is the first argument lives."""
    (owner,) = sys.argv[1:] if argv is None else argv
    end_with_owner(int(owner))
    spark = SparkApplication()
    load_classes(spark)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
