"""The writer of every job: a Java class that is compiled on the driver and runs on the executors.

Its source is ``RecordWriter.java`` beside this module. Spark ships a compiler (Janino) for its own generated code, so
there is no build step and no binary.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

_SOURCE = "RecordWriter.java"
_CLASS = "airflow_provider_kafka_spark.jobs.RecordWriter"
#: The class loader of the compiled classes, by Spark application.
_loaders: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
#: What :func:`compile_ahead` has begun.
_ahead: list[Future[Any]] = []


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What the writer did, counted by acknowledgements.

    :param read: records read, by index of their range.
    :param written: records acknowledged, in this attempt of each Spark task and in earlier ones.
    :param skipped: records that ``where`` or the exact window left out.
    :param before: of the written records, those that an earlier attempt had committed.
    :param targets: where each Spark task wrote, in this attempt and in earlier ones.
    :param groups: the consumer groups that hold the Spark tasks' progress.
    :param unknown_targets: for each Spark task, whether it is unknown where earlier attempts wrote.
    """

    read: Counter[int] = field(default_factory=Counter)
    written: Counter[int] = field(default_factory=Counter)
    skipped: Counter[int] = field(default_factory=Counter)
    before: Counter[int] = field(default_factory=Counter)
    targets: list[OffsetRange] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    unknown_targets: list[bool] = field(default_factory=list)

    def add(self, task_report: str) -> None:
        """Add what one Spark task returned."""
        value = json.loads(task_report)
        for index, *counts in value["ranges"]:
            for counter, count in zip((self.read, self.written, self.skipped, self.before), counts, strict=True):
                counter[index] += count
        self.targets.extend(OffsetRange(t, p, first, last + 1) for t, p, first, last in value["targets"] if last >= 0)
        self.groups.extend([value["group"]] if value["group"] else [])
        self.unknown_targets.append(value["unknown"])


def merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """One range for each partition, from the first offset to the last end."""
    found: dict[TopicPartition, OffsetRange] = {}
    for r in sorted(ranges):
        first = found.setdefault(r.topic_partition, r)
        found[r.topic_partition] = replace(first, until_offset=max(first.until_offset, r.until_offset))
    return tuple(found.values())


def range_table(
    ranges: Mapping[OffsetRange, int], tasks: Sequence[Sequence[OffsetRange]], topic_ids: Mapping[str, str]
) -> str:
    """The ranges as the Java class reads them: one line each, with topic, partition, start, end, index and task name.

    An attempt finds its progress by the task name, so the same plan gives the same names.

    :param ranges: with the index of the planned range that each lies in.
    :param tasks: the spans that each Spark task reads; together they cover all ranges.
    :param topic_ids: id of each topic, as far as it is known: a topic that is created again gives other task names.
    """
    tasks_by_partition = Counter(task[0].topic_partition for task in tasks)
    starts: dict[TopicPartition, list[tuple[int, str]]] = {}
    for task in tasks:
        first = task[0]
        start = [first.from_offset] if tasks_by_partition[first.topic_partition] > 1 else []
        topic_id = [topic_ids[first.topic]] if first.topic in topic_ids else []
        name = "-".join(map(str, [first.topic, *topic_id, first.partition, *start]))
        starts.setdefault(first.topic_partition, []).extend((span.from_offset, name) for span in task)
    lines = []
    for r, index in ranges.items():
        name = max(start for start in starts[r.topic_partition] if start[0] <= r.from_offset)[1]
        lines.append(f"{r.topic} {r.partition} {r.from_offset} {r.until_offset} {index} {name}")
    return "\n".join(lines)


def run_writer(
    context: SparkContext, records: Any, settings: Mapping[str, str], table: str, counter: ReadCounter
) -> WriteResult:
    """Write all records, and return when every one is acknowledged.

    :param records: a ``JavaRDD`` of Kafka's records, or of rows as ``transform.to_rows`` makes them.
    :param settings: of the Java class; producer properties have the prefix ``kafka.``.
    :param table: from :func:`range_table`.
    :param counter: is increased while records are read.
    :raises Py4JJavaError: what Spark raised.
    """
    result = WriteResult()
    java_settings = context._jvm.java.util.HashMap()  # type: ignore[union-attr]
    for name, value in settings.items():
        java_settings.put(name, value)
    for report in records.mapPartitions(_new(context, _CLASS, java_settings, table, counter.total)).collect():
        result.add(str(report))
    return result


def in_range(context: SparkContext, table: str) -> Any:
    """A Java function that passes the records that lie in a range."""
    return _new(context, f"{_CLASS}$InRange", table)


def pass_record(context: SparkContext, to_row: Any) -> Any:
    """A Java function that makes a row of a record, and passes the record to the writer of the same Spark task."""
    return _new(context, f"{_CLASS}$PassRecord", to_row)


class ReadCounter:
    """Counts the records that the tasks of a writer have read until now, inside ``with``, from Spark's heartbeats."""

    def __init__(self, context: SparkContext) -> None:
        self._sc: Any = context._jsc.sc()
        #: For the Java class.
        self.total = self._sc.longAccumulator()
        self._listener = _new(context, f"{_CLASS}$ReadCounter", self.total)

    def __enter__(self) -> ReadCounter:
        self._sc.addSparkListener(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        # A JVM that is gone has no listeners.
        with suppress(Exception):
            self._sc.removeSparkListener(self._listener)

    @property
    def records(self) -> int:
        return int(self._listener.recordsRead())


def _new(context: SparkContext, name: str, *arguments: Any) -> Any:
    """A new object of a compiled class."""
    jvm: Any = context._jvm
    loader = _loaders.get(context)
    if loader is None:
        loader = _loaders[context] = _compile_and_ship(context)
    array = context._gateway.new_array(jvm.java.lang.Object, len(arguments))  # type: ignore[union-attr]
    for i, argument in enumerate(arguments):
        array[i] = argument
    return loader.loadClass(name).getConstructors()[0].newInstance(array)


def compile_ahead(jvm: Any) -> None:
    """Begin to compile the writer, while the application of this JVM starts; that saves a sixth of a second."""
    executor = ThreadPoolExecutor(1, "compile")
    _ahead.append(executor.submit(compile_java, jvm, _source()))
    executor.shutdown(wait=False)


def _source() -> str:
    return files(__package__ or "").joinpath(_SOURCE).read_text(encoding="utf-8")


def compile_java(jvm: Any, source: str) -> Any:
    """Spark's own compiler, which has compiled a source; it has the bytecodes and a class loader."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler


def _compile_and_ship(context: SparkContext) -> Any:
    """Compile the class and hand it to all executors.

    :return: a class loader that has it.
    :raises JarError: naming what is missing.
    """
    from py4j.protocol import Py4JError

    jvm: Any = context._jvm
    source = _source()
    try:
        compiler = _ahead.pop().result() if _ahead else compile_java(jvm, source)
        classes = compiler.getBytecodes()
        jar = Path(jvm.org.apache.spark.SparkFiles.getRootDirectory()) / f"record-writer-{_digest(source)}.jar"
        _write_jar(jar, {name: bytes(classes[name]) for name in classes})
        # Without other processes, nobody has to fetch it from the driver.
        context._jsc.addJar(f"local:{jar}" if context._jsc.isLocal() else str(jar))
        return compiler.getClassLoader()
    # TypeError: py4j's answer where a class is absent.
    except (Py4JError, TypeError, OSError) as error:
        raise JarError(_missing(error)) from error


def _write_jar(path: Path, classes: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in sorted(classes.items()):
            jar.writestr(f"{name.replace('.', '/')}.class", content)


def _digest(source: str) -> str:
    return sha256(source.encode()).hexdigest()[:16]


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
        "docs/reference/versions.md names. "
        "Nothing was written."
    )
