from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.spark.tuning import (
    batches_memory,
    is_small,
    sink_defaults,
    source_defaults,
    spark_defaults,
)


@pytest.mark.parametrize(
    ("sizes", "fetch"),
    [
        pytest.param([19_999], "small", id="just-too-short"),
        pytest.param([39_999, 1], "large", id="long-on-average"),
        pytest.param([100] * 1_000, "small", id="many-short-spans"),
        pytest.param([10_000_000, *[100] * 101], "large at once", id="long-on-average-and-many-are-short"),
        pytest.param([], "large", id="nothing-to-read"),
    ],
)
def test_long_spans_get_large_fetches(sizes: list[int], fetch: str) -> None:
    """Many short spans would throw most of a large fetch away, and keep its buffer; or wait for one."""
    spans = [OffsetRange("o", i, 5, 5 + size) for i, size in enumerate(sizes)]

    options = source_defaults(spans, read_committed=True)

    assert int(options["kafka.max.partition.fetch.bytes"]) == (8_388_608 if "large" in fetch else 262_144)
    assert int(options["kafka.fetch.min.bytes"]) == (1_048_576 if fetch == "large" else 1)


@pytest.mark.parametrize(
    ("given", "largest", "mib"),
    [
        pytest.param({}, 1_048_588, 16, id="by-default"),
        pytest.param({}, 10 * 2**20, 40, id="four-of-the-largest"),
        pytest.param({}, 100 * 2**20, 128, id="the-target-takes-much"),
        pytest.param({}, 2**31 - 1, 128, id="the-target-takes-all"),
        pytest.param({"kafka.max.request.size": str(200 * 2**20)}, 1_048_588, 200, id="a-record-of-the-largest-size"),
        pytest.param({"kafka.buffer.memory": str(2**20)}, 2**31 - 1, 1, id="the-authors-own"),
    ],
)
def test_ready_made_batches_take_little_memory(given: dict[str, str], largest: int, mib: int) -> None:
    """What a target takes says nothing of how much a task may hold, nor of how fast it is written."""
    assert batches_memory({**sink_defaults(), **given}, largest) == str(mib * 2**20)


@pytest.mark.parametrize(("offsets", "small"), [(0, True), (100_000, True), (100_001, False)])
def test_a_job_is_small_by_all_its_offsets(offsets: int, small: bool) -> None:
    assert is_small(offsets) is small


def test_what_is_set_for_a_reason() -> None:
    source, sink, spark = source_defaults([], read_committed=True), sink_defaults(), spark_defaults()

    # Kafka's default would copy aborted records.
    assert source["kafka.isolation.level"] == "read_committed"
    assert source_defaults([], read_committed=False)["kafka.isolation.level"] == "read_uncommitted"
    # At the end of a range a fetch cannot be filled, and each range has an end.
    assert int(source["kafka.fetch.max.wait.ms"]) < 1_000
    # A green task means delivered; both are explicit, since one switches the other off in silence.
    assert (sink["kafka.acks"], sink["kafka.enable.idempotence"]) == ("all", "true")
    # Every offset is read once; Spark's defaults ran out of memory on many short spans.
    assert int(spark["spark.kafka.consumer.cache.capacity"]) < 64
    assert spark["spark.kafka.consumer.fetchedData.cache.timeout"] == "1s"
    # A retry may run on another machine; hour(timestamp) would give another answer in its time zone.
    assert spark["spark.sql.session.timeZone"] == "UTC"
    # Spark's UI has no login.
    closed = ("spark.ui.killEnabled", "spark.ui.threadDumpsEnabled", "spark.ui.heapHistogramEnabled")
    assert {name: spark[name] for name in closed} == dict.fromkeys(closed, "false")
