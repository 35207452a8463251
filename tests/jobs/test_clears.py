"""What a clear may change between two tries of a run: each record is in the target once all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError, RunTakenOverError, TargetError
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.kafka_admin import kafka_admin
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, pause, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 500
#: Options of a try, by what is said of them.
_LAYOUTS: dict[str, int | None] = {"in-order": None, "cut-at-100": 100, "cut-at-70": 70}


def _layout(ranges: list[str], name: str) -> dict[str, Any]:
    size = _LAYOUTS[name]
    return {"spans": plan_spans(OffsetRanges.parse(ranges), size), "preserve_order": size is None}


def _assert_each_once(kafka_broker: KafkaBroker, source: str, target: str) -> None:
    assert Counter(values(kafka_broker, target)) == Counter(values(kafka_broker, source))


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize(
    ("before", "after"),
    [("in-order", "cut-at-100"), ("cut-at-100", "in-order"), ("cut-at-100", "cut-at-70"), ("cut-at-100", "cut-at-100")],
)
def test_other_pieces_after_a_clear(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, before: str, after: str
) -> None:
    """Progress of one layout does not count for another one: the target is read back."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(333), large(), *numbered(_COUNT - 334, 333)])
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target}
    with pytest.raises(TargetError):
        run_copy(ranges, **options, **_layout(ranges, before))
    written = len(values(kafka_broker, target))
    kafka_broker.alter_topic(target, TAKES_LARGE)

    report = run_copy(ranges, is_retry=True, **options, **_layout(ranges, after))

    _assert_each_once(kafka_broker, source, target)
    assert report.delivered_before == written > 0
    assert report.records_written == _COUNT


def test_aborted_records_are_copied_after_a_clear_that_asks_for_them(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """The first try has delivered everything that it was asked for; the position of its piece passed the others."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(10))
    kafka_broker.produce_transaction(source, [Record(value=b"aborted %d" % i) for i in range(10)], commit=False)
    kafka_broker.produce(source, numbered(10, 10))
    ((_, end),) = kafka_broker.offsets(source).values()
    run_copy([f"{source}:0:0:{end}"], topic=target, delivery_parts={"isolation_level": "read_committed"})

    report = run_copy(
        [f"{source}:0:0:{end}"],
        topic=target,
        is_retry=True,
        source_options={"kafka.isolation.level": "read_uncommitted"},
        delivery_parts={"isolation_level": "read_uncommitted"},
    )

    expected = Counter([b"%d" % i for i in range(20)] + [b"aborted %d" % i for i in range(10)])
    assert Counter(values(kafka_broker, target)) == expected
    assert (report.delivered_before, report.records_written) == (20, 30)


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("fails", [True, False], ids=["which-fails", "which-delivers"])
def test_at_least_once_and_back(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, *, fails: bool) -> None:
    """Progress from before a try without transactions does not have what that one delivered."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(60), large(), *numbered(139, 60), large(), *numbered(99, 199)])
    ranges = [f"{source}:0:0:300"]
    with pytest.raises(TargetError):
        run_copy(ranges, topic=target)
    kafka_broker.alter_topic(target, TAKES_LARGE)
    options = {"topic": target, "delivery": "at_least_once", "is_retry": True}
    if fails:
        with pytest.raises(ExpressionError, match="stop here"):
            run_copy(ranges, where="assert_true(offset < 200, 'stop here') is null", **options)
    else:
        run_copy(ranges, **options)

    run_copy(ranges, topic=target, is_retry=True)

    _assert_each_once(kafka_broker, source, target)


@pytest.mark.usefixtures("small_commits")
def test_progress_of_a_finished_piece_expires(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, spark: SparkSession
) -> None:
    """While the mark is there, which says that each piece has progress: the target is read back."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [*numbered(100, partition=0), *numbered(100, 100, partition=1)])
    ranges = [f"{source}:0:0:100", f"{source}:1:0:100"]
    first = run_copy(ranges, topic=target)
    with kafka_admin(spark, {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}) as admin:
        # One of the two slots.
        admin.remove_groups(first.progress_groups[:1])

    report = run_copy(ranges, topic=target, is_retry=True)

    _assert_each_once(kafka_broker, source, target)
    assert len(first.progress_groups) == 2
    assert report.delivered_before == 200


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_another_target_after_a_clear_stops_the_earlier_driver(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    """It looks for the mark at its own target, and finds the new one there."""
    source, first, second = topic(suffix="source"), topic(suffix="first"), topic(suffix="second")
    kafka_broker.produce(source, numbered(100))
    ranges, options = [f"{source}:0:0:100"], {"delivery": delivery}
    suspended = pause(monkeypatch, batch, "write_records")
    earlier = suspended.start(lambda: run_copy(ranges, topic=first, **options))

    run_copy(ranges, topic=second, is_retry=True, run_id="feedc0de00000000", **options)
    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert values(kafka_broker, first) == []
    _assert_each_once(kafka_broker, source, second)


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[KafkaBroker]:
    """One that allows only short transactions."""
    with KafkaBroker(properties={"transaction.max.timeout.ms": "20000"}) as broker:
        yield broker


@pytest.mark.usefixtures("small_commits")
def test_a_broker_that_allows_only_short_transactions(strict_broker: KafkaBroker, run_copy: Copy) -> None:
    """The driver fences the tasks of an earlier plan within the limit too."""
    source, target = strict_broker.create_topic("source", 1), strict_broker.create_topic("target", 1)
    strict_broker.produce(source, numbered(100))
    login = {"kafka.bootstrap.servers": strict_broker.bootstrap_servers}
    options: dict[str, Any] = {
        "topic": target,
        "source_options": login,
        "sink_options": {**login, "kafka.transaction.timeout.ms": "15000"},
    }
    run_copy([f"{source}:0:0:60"], **options)

    report = run_copy([f"{source}:0:0:100"], is_retry=True, **options)

    _assert_each_once(strict_broker, source, target)
    assert report.delivered_before == 60
