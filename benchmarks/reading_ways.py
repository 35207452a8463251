"""The ways of our job to read a source whose records stay as they are, each of which can be forced here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobReport
from benchmarks.bulk import copy_ours
from benchmarks.topics import WrongCopyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of the operator: what makes a copy pass batches on.
UNCHANGED: dict[str, Any] = {"provenance": None, "preserve_partition": True}


@dataclass(frozen=True)
class Way:
    """How the records of a source are read.

    :param name: as in the tables.
    :param attribute: what is replaced of ``jobs.write``.
    :param value: by what.
    :param passes: whether all records are in batches that are passed on, or none.
    """

    name: str
    attribute: str
    value: Any
    passes: bool

    def copy(self, spark: SparkSession, request: CopyJob, target: str, records: int) -> JobReport:
        """Copy in this way.

        :param request: with the options ``UNCHANGED``.
        :raises WrongCopyError: if a record went another way.
        """
        with self._forced():
            report = copy_ours(spark, request, target, records)
        if (report.batches_passed > 0) != self.passes or report.warnings:
            raise WrongCopyError(f"The records must be read {self.name}, without a warning; the report says {report}.")
        return report

    @contextmanager
    def _forced(self) -> Iterator[None]:
        from airflow_provider_kafka_spark.jobs import write

        with mock.patch.object(write, self.attribute, self.value):
            yield


#: However small batches are.
BY_BATCHES = Way("passed on", "LEAST_BYTES", 0, passes=True)
#: What the writer does itself where batches are small, or where something changes.
AS_BYTES = Way("as bytes", "LEAST_BYTES", 100_000_000, passes=False)
#: With Spark's source, as every copy with SQL.
BY_RECORD = Way("record by record", "_batches", lambda *_: (None, ()), passes=False)
