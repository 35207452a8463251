from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.handoff.tuning import is_small, sink_defaults, source_defaults, spark_defaults
from airflow_provider_kafka_spark.core.offset_range import OffsetRange


@pytest.mark.parametrize(
    ("sizes", "fetch"),
    [
        pytest.param([20_000], "large", id="long-span"),
        pytest.param([19_999], "small", id="just-too-short"),
        pytest.param([39_999, 1], "large", id="long-on-average"),
        pytest.param([100] * 1_000, "small", id="many-short-spans"),
        pytest.param([], "large", id="nothing-to-read"),
    ],
)
def test_long_spans_get_large_fetches(sizes: list[int], fetch: str) -> None:
    """Many short spans would throw most of a large fetch away, and keep its buffer."""
    spans = [OffsetRange("o", i, 5, 5 + size) for i, size in enumerate(sizes)]

    options = source_defaults(spans, read_committed=True)

    assert int(options["kafka.max.partition.fetch.bytes"]) == (8_388_608 if fetch == "large" else 262_144)
    assert int(options["kafka.fetch.min.bytes"]) == (1_048_576 if fetch == "large" else 1)


@pytest.mark.parametrize(
    ("read_committed", "level"),
    [pytest.param(True, "read_committed", id="committed"), pytest.param(False, "read_uncommitted", id="uncommitted")],
)
def test_the_isolation_level_is_always_explicit(read_committed: bool, level: str) -> None:
    """Kafka's default would copy aborted records."""
    assert source_defaults([], read_committed=read_committed)["kafka.isolation.level"] == level


def test_the_producer_waits_for_all_replicas_and_does_not_double() -> None:
    """A green task means delivered; both settings are explicit, since one switches the other off in silence."""
    options = sink_defaults()

    assert options["kafka.acks"] == "all"
    assert options["kafka.enable.idempotence"] == "true"


def test_a_fetch_waits_for_less_than_a_second() -> None:
    """At the end of a range a fetch cannot be filled, and each range has an end."""
    assert int(source_defaults([], read_committed=True)["kafka.fetch.max.wait.ms"]) < 1_000


@pytest.mark.parametrize(("offsets", "small"), [(0, True), (100_000, True), (100_001, False)])
def test_a_job_is_small_by_all_its_offsets(offsets: int, small: bool) -> None:
    """What counts is how much is read in all."""
    assert is_small(offsets) is small


def test_the_connector_keeps_no_records_for_other_readers() -> None:
    """Every offset is read once; Spark's defaults ran out of memory on many short spans."""
    options = spark_defaults()

    assert int(options["spark.kafka.consumer.cache.capacity"]) < 64
    assert options["spark.kafka.consumer.fetchedData.cache.timeout"] == "1s"


def test_the_time_zone_is_not_that_of_the_machine() -> None:
    """A retry may run on another one; expressions such as hour(timestamp) would give another answer there."""
    assert spark_defaults()["spark.sql.session.timeZone"] == "UTC"


def test_nobody_ends_a_job_by_sparks_ui() -> None:
    """It has no login."""
    closed = ("spark.ui.killEnabled", "spark.ui.threadDumpsEnabled", "spark.ui.heapHistogramEnabled")
    assert {name: spark_defaults()[name] for name in closed} == dict.fromkeys(closed, "false")
