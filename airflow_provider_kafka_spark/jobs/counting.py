"""Count what is read and written, range by range, while it happens."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.jobs.range_index import RANGE_INDEX
from airflow_provider_kafka_spark.jobs.transform import KEEP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


class RangeCounts:
    """Counts of records per range, from Spark's observed metrics: accumulators that only finished tasks add to.

    A grouped count cannot be observed, so a histogram stands in: ``histogram_numeric`` keeps one exact bin per distinct value as long as the bins suffice, and a range is read
    by one task, or by one for each piece it is split into.

    :param bins: at least the number of pieces that ranges are read in.
    """

    def __init__(self, bins: int) -> None:
        from pyspark.sql import Observation

        self._bins = max(2, bins)
        self._observation: Observation = Observation()

    def observe(self, records: DataFrame) -> DataFrame:
        """Count the records that pass here: those that are read, and among them those that are kept."""
        from pyspark.sql import functions as F

        kept = f"if({KEEP}, {RANGE_INDEX}, null)"
        return records.observe(
            self._observation,
            F.expr("count(*)").alias("read"),
            F.expr(f"count_if({KEEP})").alias("kept"),
            F.expr(f"to_json(histogram_numeric({RANGE_INDEX}, {self._bins}))").alias("read_by_range"),
            F.expr(f"to_json(histogram_numeric({kept}, {self._bins}))").alias("kept_by_range"),
        )

    def get(self) -> tuple[Counter[int], Counter[int]]:
        """Records read and records kept, by range index. Only after the write has succeeded: before that, it would wait for ever.

        :raises DeliveryError: if the counts of the ranges do not add up to the whole.
        """
        observed: dict[str, Any] = self._observation.get
        read, kept = _counts(observed["read_by_range"]), _counts(observed["kept_by_range"])
        if (read.total(), kept.total()) != (observed["read"], observed["kept"]):
            raise DeliveryError(
                f"The counts per range must add up to the records read and kept: {read.total():,} and {kept.total():,} of {observed['read']:,} and "
                f"{observed['kept']:,}. This is a fault of this package; please report it."
            )
        return read, kept


def _counts(histogram: str | None) -> Counter[int]:
    counts: Counter[int] = Counter()
    for each in json.loads(histogram) if histogram else ():
        counts[int(each["x"])] += int(each["y"])
    return counts
