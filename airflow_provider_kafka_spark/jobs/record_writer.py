"""The writer of every job: the Java classes in the folder ``writer``, which run on the executors.

They are compiled on the driver (:mod:`janino`) and shipped with the job. With a local master, the jar of a prepared
worker has them on the class path already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.wire.audit_messages import AuditSettings
from airflow_provider_kafka_spark.core.wire.writer_classes import marker
from airflow_provider_kafka_spark.core.wire.writer_messages import TaskFailure, TaskReport, WriterSettings
from airflow_provider_kafka_spark.jobs.janino import CompiledClasses, compile_java, java_sources
from airflow_provider_kafka_spark.jobs.java_names import items_of, java_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_PACKAGE, _FOLDER = "airflow_provider_kafka_spark.jobs", "writer"
#: What ``ReadyBatch`` needs of Kafka's client.
_SINCE_KAFKA_3_8 = "org.apache.kafka.common.compress.Compression"
#: How long to wait for the last events of a job that has ended.
_EVENTS_MS = 10_000
#: The class loader of the compiled classes, by Spark application.
_loaders: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
#: What :func:`compile_ahead` has begun.
_ahead: list[Future[CompiledClasses]] = []


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What the writer did, counted by acknowledgements.

    :param read: records read, by index of their range.
    :param written: records acknowledged, in this attempt of each Spark task and in earlier ones.
    :param filtered: records that a filter or the exact window left out.
    :param already_committed: of the written and the rejected records, those that an earlier attempt had committed.
    :param rejected: records acknowledged by the dead-letter topic, as ``written``.
    :param targets: where each Spark task wrote, in this attempt and in earlier ones.
    :param reports: of the pieces, by their names.
    :param notes: what the author should know of the whole job.
    """

    read: Counter[int] = field(default_factory=Counter)
    written: Counter[int] = field(default_factory=Counter)
    filtered: Counter[int] = field(default_factory=Counter)
    already_committed: Counter[int] = field(default_factory=Counter)
    rejected: Counter[int] = field(default_factory=Counter)
    targets: list[OffsetRange] = field(default_factory=list)
    reports: dict[str, TaskReport] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def pieces(self) -> set[str]:
        """Names of the pieces whose Spark tasks have reported."""
        return set(self.reports)

    @property
    def has_unknown_targets(self) -> bool:
        """Whether it is unknown where earlier attempts wrote."""
        return any(report.targets_unknown for report in self.reports.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """That records could not be written as they were, if it is so."""
        changed = [report for report in self.reports.values() if report.changed]
        if not changed:
            return self.notes
        return (
            *self.notes,
            f"{sum(report.changed for report in changed):,} records are not as they were in the source, such as "
            f"{changed[0].first_changed}: Kafka's Java client writes no timestamp below 0 (the target has the time of "
            "the copy) and no header whose name is not UTF-8 (the other bytes became U+FFFD).",
        )

    def add(self, report: TaskReport) -> None:
        """Add what one Spark task returned."""
        self.reports[report.piece] = report
        for index, *counts in report.ranges:
            counters = (self.read, self.written, self.filtered, self.already_committed, self.rejected)
            for counter, count in zip(counters, counts, strict=True):
                counter[index] += count
        self.targets.extend(OffsetRange(t.topic, t.partition, t.first, t.last + 1) for t in report.targets)


def run_writer(
    context: SparkContext, records: Any, settings: WriterSettings, tasks: Sequence[str], monitor: TaskMonitor
) -> WriteResult:
    """Write all records, and return when every one is acknowledged.

    :param records: a ``JavaRDD`` of Kafka's records, or of rows as ``transform.to_rows`` makes them.
    :param tasks: for each Spark partition what ``writer_messages.task_text`` gave.
    :param monitor: watches the job group that is set.
    :raises Py4JJavaError: what Spark raised; ``monitor.failure`` has the failure of a task that has a name.
    """
    result = WriteResult()
    writer = _new(context, "RecordWriter", settings.to_json(), _broadcast(context, tasks), monitor.total)
    for report in items_of(records.mapPartitions(writer).collect()):
        result.add(TaskReport.from_json(str(report)))
    return result


def missing_internals(context: SparkContext) -> str | None:
    """What Kafka's client of this Spark lacks to read and to write batches, or None."""
    found = _new(context, "BatchSupport").missing()
    return None if found is None else str(found)


def in_range(context: SparkContext, pieces: Sequence[str]) -> Any:
    """A Java function that passes the records that lie in a range.

    :param pieces: for each Spark partition its only one, as ``writer_messages.piece_text`` gave it.
    """
    return _new(context, "InRange", _broadcast(context, pieces))


def record_handoff(context: SparkContext, to_row: Any) -> Any:
    """A Java function that makes a row of a record, and passes the record to the writer of the same Spark task."""
    return _new(context, "RecordHandoff", to_row)


def row_guard(context: SparkContext) -> Any:
    """A Java function that passes rows, and names the record on which an expression fails without quoting it."""
    return _new(context, "ComputedRows")


class AuditFunctions:
    """The Java functions of an audit.

    :param ranges: what ``audit_messages.ranges_text`` gave.
    :param monitor: watches the job group that is set.
    """

    def __init__(self, context: SparkContext, ranges: str, monitor: TaskMonitor) -> None:
        self._context = context
        self._ranges = _broadcast(context, [ranges])
        self._monitor = monitor

    def read(self, records: Any, settings: AuditSettings) -> Any:
        """What was found in one side, by chunks of source offsets: a ``JavaPairRDD``.

        :param records: a ``JavaRDD`` of what ``settings.input`` says.
        """
        reader = _new(self._context, "AuditReader", settings.to_json(), self._ranges, self._monitor.total)
        return records.mapPartitionsToPair(reader)

    def merge(
        self, sides: Sequence[Any], tasks: int, group_bits: int, limits: tuple[int, int], *, compares: bool
    ) -> list[str]:
        """Put the sides together.

        :param tasks: Spark tasks that merge.
        :param group_bits: how many chunks that follow each other go to one task, as a power of two.
        :param limits: of missing ranges, and of records that are named.
        :return: what each task reports.
        :raises Py4JJavaError: what Spark raised.
        """
        if not sides:
            return []
        found = sides[0] if len(sides) == 1 else sides[0].union(sides[1])
        partitioner = _new(self._context, "AuditPartitioner", tasks, group_bits)
        merger = _new(self._context, "AuditMerger", self._ranges, *limits, compares)
        return [str(text) for text in items_of(found.groupByKey(partitioner).mapPartitions(merger).collect())]


class TaskMonitor:
    """Watches the Spark tasks of one job group, inside ``with``.

    Spark's heartbeats say how many records were read. At a failure that each attempt would have again, the group is
    cancelled.
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._sc: Any = context._jsc.sc()
        #: For the Java class.
        self.total = self._sc.longAccumulator()
        self._listener = _new(context, "TaskMonitor", self._sc, group, self.total)

    def __enter__(self) -> TaskMonitor:
        self._sc.addSparkListener(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        # A JVM that is gone has no listeners.
        with suppress(Exception):
            self._sc.removeSparkListener(self._listener)

    @property
    def records(self) -> int:
        """How many records were read until now."""
        return int(self._listener.recordsRead())

    @property
    def tasks(self) -> tuple[int, int]:
        """How many Spark tasks run now, and how many have succeeded."""
        return int(self._listener.running()), int(self._listener.succeeded())

    @property
    def failure(self) -> TaskFailure | None:
        """How a task of the job that has just failed did so, if that has a name."""
        # Events arrive after the answer to the job. A JVM that is gone has none.
        with suppress(Exception):
            self._sc.listenerBus().waitUntilEmpty(_EVENTS_MS)
            text = self._listener.failure()
            return None if text is None else TaskFailure.from_json(str(text))
        return None


def _broadcast(context: SparkContext, texts: Sequence[str]) -> Any:
    """Every executor gets the texts once, and a task parses only its own."""
    jvm = java_of(context)
    array = context._gateway.new_array(jvm.java.lang.String, len(texts))  # type: ignore[union-attr]
    for i, text in enumerate(texts):
        array[i] = text
    return context._jsc.broadcast(array)


def _new(context: SparkContext, name: str, *arguments: Any) -> Any:
    """A new object of a compiled class."""
    jvm = java_of(context)
    loader = _loaders.get(context)
    if loader is None:
        loader = _loaders[context] = _compile_and_ship(context)
    array = context._gateway.new_array(jvm.java.lang.Object, len(arguments))  # type: ignore[union-attr]
    for i, argument in enumerate(arguments):
        array[i] = argument
    return loader.loadClass(f"{_PACKAGE}.{_FOLDER}.{name}").getConstructors()[0].newInstance(array)


def compile_ahead(jvm: Any) -> None:
    """Begin to compile the writer, while the application of this JVM starts; that saves a sixth of a second."""
    executor = ThreadPoolExecutor(1, "compile")
    _ahead.append(executor.submit(_find_or_compile, jvm))
    executor.shutdown(wait=False)


def write_writer_jar(jvm: Any, path: Path) -> None:
    """Compile the writer into a jar. A local driver that has it on its class path compiles nothing.

    :raises JarError: naming what is missing.
    """
    sources = java_sources(_PACKAGE, _FOLDER)
    with _named_errors():
        compiled = _compile(jvm, sources)
    replace(compiled, bytecodes={**compiled.bytecodes, marker(sources): b""}).write_jar(path)


def _compile_and_ship(context: SparkContext) -> Any:
    """Compile the classes and hand them to all executors.

    :return: a class loader that has them.
    :raises JarError: naming what is missing.
    """
    jvm = java_of(context)
    with _named_errors():
        compiled = _ahead.pop().result() if _ahead else _find_or_compile(jvm)
        if compiled.bytecodes:
            jar = (
                Path(jvm.org.apache.spark.SparkFiles.getRootDirectory())
                / f"record-writer-{_digest(compiled.bytecodes)}.jar"
            )
            compiled.write_jar(jar)
            # Without other processes, nobody has to fetch it from the driver.
            context._jsc.addJar(f"local:{jar}" if context._jsc.isLocal() else str(jar))
        return compiled.loader


@contextmanager
def _named_errors() -> Iterator[None]:
    """:raises JarError: naming what is missing."""
    from py4j.protocol import Py4JError

    try:
        yield
    # TypeError: py4j's answer where a class is absent.
    except (Py4JError, TypeError, OSError) as error:
        raise JarError(_missing(error)) from error


def _find_or_compile(jvm: Any) -> CompiledClasses:
    """The classes on the class path, if they were compiled from these sources; otherwise compile them.

    :return: without bytecodes, if they are on the class path: that is so with a local master only.
    """
    sources = java_sources(_PACKAGE, _FOLDER)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(marker(sources)) is not None:
        return CompiledClasses({}, loader)
    return _compile(jvm, sources)


def _compile(jvm: Any, sources: Mapping[str, str]) -> CompiledClasses:
    """Compile the writer against the Kafka client of a JVM.

    :raises Py4JJavaError: if it does not compile.
    :raises TypeError: if the driver has no Janino.
    """
    from py4j.protocol import Py4JJavaError

    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_SINCE_KAFKA_3_8, False, loader)
    except Py4JJavaError:
        # Where it is absent, no batch is passed on: see BatchSupport.
        sources = {path: text for path, text in sources.items() if not path.endswith("/ReadyBatch.java")}
    return compile_java(jvm, sources)


def _digest(bytecodes: Mapping[str, bytes]) -> str:
    return sha256(b"".join(content for _, content in sorted(bytecodes.items()))).hexdigest()[:16]


def _missing(error: Exception) -> str:
    text = str(getattr(error, "java_exception", error)).strip()
    first = next(iter(text.splitlines()), "no message")[:300]
    if isinstance(error, OSError):
        return (
            f"Spark's local folder must take the jar of the writer; got {error}. Free space there, or set "
            "spark.local.dir. Nothing was written to Kafka."
        )
    if isinstance(error, TypeError):
        return (
            "Spark's own compiler (janino and commons-compiler, part of every Spark distribution) must be on the "
            f"class path of the driver; got {first}. Restore the jars of the Spark distribution. Nothing was written "
            "to Kafka."
        )
    return (
        f"The writer must compile against the Kafka connector of this Spark version; got {first}. Leave "
        "kafka_connector out to have the connector fetched, or use a Spark version that "
        "the documentation on versions names. "
        "Nothing was written."
    )
