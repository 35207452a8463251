from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.jobs import record_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Java source in place of the writer's, for an application that has compiled nothing."""
    file = tmp_path / "RecordWriter.java"
    monkeypatch.setattr(record_writer, "files", lambda _: tmp_path)
    monkeypatch.setattr(record_writer, "_loaders", {})
    return file


@pytest.mark.spark
def test_a_class_that_does_not_compile_is_named(spark: SparkSession, source: Path) -> None:
    """As where this Spark has another Kafka client, or none."""
    source.write_text("import org.apache.kafka.nowhere.Producer; public class A { Producer p; }")

    with pytest.raises(JarError, match=r"must compile against the Kafka connector .*org.apache.kafka.nowhere"):
        record_writer.ReadCounter(spark.sparkContext)


@pytest.mark.spark
def test_a_class_that_cannot_be_shipped_is_named(
    spark: SparkSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jar goes to Spark's local folder."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source.write_text("public class A {}")
    monkeypatch.setattr(record_writer, "_write_jar", full)

    with pytest.raises(JarError, match=r"local folder must take the jar .*No space left on device"):
        record_writer.ReadCounter(spark.sparkContext)


def test_tasks_are_named_by_what_they_read() -> None:
    """The name stays the same in a retry, and no two tasks share it."""
    ranges = {OffsetRange("o", 0, 0, 5): 0, OffsetRange("o", 0, 8, 9): 1, OffsetRange("o", 1, 3, 4): 2}
    spans = [OffsetRange("o", 0, 0, 5), OffsetRange("o", 0, 8, 9), OffsetRange("o", 1, 3, 4)]

    together = record_writer.range_table(ranges, [spans[:2], spans[2:]], {"o": "id"})
    apart = record_writer.range_table(ranges, [[span] for span in spans], {})

    assert together.splitlines() == ["o 0 0 5 0 o-id-0", "o 0 8 9 1 o-id-0", "o 1 3 4 2 o-id-1"]
    assert apart.splitlines() == ["o 0 0 5 0 o-0-0", "o 0 8 9 1 o-0-8", "o 1 3 4 2 o-1"]


def test_one_target_range_for_each_partition() -> None:
    """From the first record of any task to the last."""
    parts = [OffsetRange("b", 0, 5, 9), OffsetRange("a", 1, 0, 2), OffsetRange("b", 0, 3, 6)]

    assert record_writer.merged(parts) == (OffsetRange("a", 1, 0, 2), OffsetRange("b", 0, 3, 9))
