"""Count what is read and written, range by range, while it happens."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.jobs.range_index import RANGE_INDEX
from airflow_provider_kafka_spark.jobs.transform import KEEP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation


_OBSERVATION_SECONDS = 60.0


class RangeCounts:
    """Counts of records per range, from Spark's observed metrics: accumulators that only finished tasks add to.

    A grouped count cannot be observed, so a histogram stands in: ``histogram_numeric`` keeps one exact bin per distinct value as long as the bins suffice, and a range is read
    by one task, or by one for each piece it is split into.

    :param bins: at least the number of pieces that ranges are read in.
    :param drops_records: whether some may be left out; otherwise what is read is kept, and need not be counted again.
    """

    def __init__(self, bins: int, *, drops_records: bool) -> None:
        from pyspark.sql import Observation

        self._bins = max(2, bins)
        self._drops_records = drops_records
        self._observation: Observation = Observation()

    def observe(self, records: DataFrame) -> DataFrame:
        """Count the records that pass here: those that are read, and among them those that are kept."""
        from pyspark.sql import functions as F

        metrics = [F.expr("count(*)").alias("read"), self._by_range(RANGE_INDEX).alias("read_by_range")]
        if self._drops_records:
            metrics += [
                F.expr(f"count_if({KEEP})").alias("kept"),
                self._by_range(f"if({KEEP}, {RANGE_INDEX}, null)").alias("kept_by_range"),
            ]
        return records.observe(self._observation, *metrics)

    def _by_range(self, index: str) -> Column:
        from pyspark.sql import functions as F

        return F.expr(f"to_json(histogram_numeric(double({index}), {self._bins}))")

    def get(self) -> tuple[Counter[int], Counter[int]]:
        """Records read and records kept, by range index. Only after the write has succeeded: a failed one leaves partial counts, without an error.

        :raises DeliveryError: if there are no counts, or those of the ranges do not add up to the whole.
        """
        observed = self._observed()
        read = _counts(observed["read_by_range"], observed["read"])
        return read, _counts(observed["kept_by_range"], observed["kept"]) if self._drops_records else read

    def _observed(self) -> dict[str, Any]:
        """What Spark observed; it has no time limit of its own, and would wait for ever for a write that does not report (V1)."""
        answer: Future[dict[str, Any]] = Future()

        def observe() -> None:
            try:
                answer.set_result(self._observation.get)
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
                answer.set_exception(error)

        # A daemon, so that a wait without end does not hold the driver's exit.
        Thread(target=observe, name="observation", daemon=True).start()
        if not wait([answer], timeout=_OBSERVATION_SECONDS).done:
            raise DeliveryError(
                f"Spark did not tell its counts within {_OBSERVATION_SECONDS:.0f} s of the write. Is 'kafka' still in spark.sql.sources.useV1SourceList?"
            )
        return answer.result()


def _counts(histogram: str | None, total: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for each in json.loads(histogram) if histogram else ():
        counts[int(each["x"])] += int(each["y"])
    if counts.total() != total:
        raise DeliveryError(
            f"The counts per range must add up to the {total:,} records counted in all; they make {counts.total():,}. This is a fault of this package; please "
            f"report it."
        )
    return counts
