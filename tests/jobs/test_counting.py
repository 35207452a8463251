from __future__ import annotations

import pytest
from pyspark.errors import PySparkAssertionError

from airflow_provider_kafka_spark.jobs.counting import RangeCounts


def test_what_spark_says_in_place_of_counts_is_told() -> None:
    """At once, and as it is: it is no matter of time, and not of the settings."""
    with pytest.raises(PySparkAssertionError):
        RangeCounts(1, drops_records=False).get()
