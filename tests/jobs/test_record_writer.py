from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.wire.writer_messages import TargetSpan, TaskReport
from airflow_provider_kafka_spark.jobs import record_writer
from airflow_provider_kafka_spark.jobs.janino import CompiledClasses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sources = Callable[[str], None]


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    """A Java source in place of the writer's, for an application that has compiled nothing."""
    monkeypatch.setattr(record_writer, "_loaders", {})
    return lambda text: monkeypatch.setattr(record_writer, "java_sources", lambda *_: {"a/A.java": text})


@pytest.mark.spark
@pytest.mark.usefixtures("on_class_path")
def test_a_class_that_does_not_compile_is_named(spark: SparkSession, sources: Sources) -> None:
    """As where this Spark has another Kafka client, or none. Those on the class path are not of these sources."""
    sources("package a; import org.apache.kafka.nowhere.Producer; public class A { Producer p; }")

    with pytest.raises(JarError, match=r"must compile against the Kafka connector .*org.apache.kafka.nowhere"):
        record_writer.TaskMonitor(spark.sparkContext, "group")


@pytest.mark.spark
def test_a_class_that_cannot_be_shipped_is_named(
    spark: SparkSession, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jar goes to Spark's local folder."""

    def full(_: CompiledClasses, path: Path) -> None:
        raise OSError(28, "No space left on device")

    sources("package a; public class A {}")
    monkeypatch.setattr(CompiledClasses, "write_jar", full)

    with pytest.raises(JarError, match=r"local folder must take the jar .*No space left on device"):
        record_writer.TaskMonitor(spark.sparkContext, "group")


@pytest.fixture
def on_class_path(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The writer's jar is on the class path, as that of `prepare` is in a local driver; its URL."""
    jvm: Any = spark.sparkContext._jvm
    jar = tmp_path / "writer.jar"
    record_writer.write_writer_jar(jvm, jar)
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)  # type: ignore[union-attr]
    urls[0] = jvm.java.net.URI(jar.as_uri()).toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    yield str(urls[0])
    thread.setContextClassLoader(before)


def shipped(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    return int(context.listJars().size())


@pytest.mark.spark
def test_classes_on_the_class_path_are_used(
    spark: SparkSession, on_class_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither compiled nor shipped."""
    monkeypatch.setattr(record_writer, "_loaders", {})
    before = shipped(spark)

    function = record_writer.record_handoff(spark.sparkContext, None)

    assert str(function.getClass().getProtectionDomain().getCodeSource().getLocation()) == on_class_path
    assert shipped(spark) == before


def _report(piece: str, **fields: Any) -> TaskReport:
    return TaskReport(
        **{"piece": piece, "ranges": (), "targets": (), "targets_unknown": False, "resumed_at": None} | fields
    )


def test_reports_of_all_pieces_are_added_up() -> None:
    """By planned range; two pieces may hold parts of one."""
    result = record_writer.WriteResult()

    result.add(_report("a", ranges=((0, 5, 4, 1, 2, 3), (1, 1, 1, 0, 0, 0)), targets=(TargetSpan("copy", 0, 7, 9),)))
    result.add(_report("b", ranges=((0, 2, 2, 0, 0, 1),), targets_unknown=True))

    assert (result.read, result.written) == ({0: 7, 1: 1}, {0: 6, 1: 1})
    assert (result.filtered[0], result.already_committed[0]) == (1, 2)
    assert result.targets == [OffsetRange("copy", 0, 7, 10)]
    assert result.pieces == {"a", "b"}
    assert result.has_unknown_targets


def test_records_that_no_client_writes_as_they_were_are_a_warning() -> None:
    """With their number, and the first of them."""
    result = record_writer.WriteResult()

    result.add(_report("a"))
    assert result.warnings == ()
    result.add(_report("b", changed=2, first_changed="orders[1]@7"))
    result.add(_report("c", changed=3, first_changed="orders[2]@8"))

    (warning,) = result.warnings
    assert warning.startswith("5 records are not as they were in the source, such as orders[1]@7: ")
