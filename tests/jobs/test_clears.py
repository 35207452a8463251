"""What a clear may change between two tries of a run: each record is in the target once all the same."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.core.errors import ExpressionError, JobFailedError, RunTakenOverError, TargetError
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.protocol import JobReport
from airflow_provider_kafka_spark.core.run_identity import PREFIX
from airflow_provider_kafka_spark.core.run_protocol import LATE_CLAIM_MS
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.kafka_admin import kafka_admin
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership
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
def test_other_pieces_after_a_clear(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """Progress of one layout does not count for another one: the target is read back."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(333), large(), *numbered(_COUNT - 334, 333)])
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target}
    with pytest.raises(TargetError):
        run_copy(ranges, **options, **_layout(ranges, "cut-at-100"))
    written = len(values(kafka_broker, target))
    kafka_broker.alter_topic(target, TAKES_LARGE)

    report = run_copy(ranges, is_retry=True, **options, **_layout(ranges, "in-order"))

    _assert_each_once(kafka_broker, source, target)
    assert report.delivered_before == written > 0
    assert report.records_written == _COUNT


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.usefixtures("small_commits")
def test_at_least_once_and_back(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """Progress from before a try without transactions does not have what that one delivered, and what the try before
    has aborted was not delivered.
    """
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(60), large(), *numbered(139, 60), large(), *numbered(99, 199)])
    ranges = [f"{source}:0:0:300"]
    with pytest.raises(TargetError):
        run_copy(ranges, topic=target)
    kafka_broker.alter_topic(target, TAKES_LARGE)
    options = {"topic": target, "delivery": "at_least_once", "is_retry": True}
    with pytest.raises(ExpressionError, match="stop here"):
        run_copy(ranges, where="assert_true(offset < 200, 'stop here') is null", **options)

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
def test_another_target_after_a_clear_stops_the_earlier_driver(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for the mark at its own target, and finds the new one there: the worker knows the earlier run."""
    source, first, second = topic(suffix="source"), topic(suffix="first"), topic(suffix="second")
    kafka_broker.produce(source, numbered(100))
    ranges = [f"{source}:0:0:100"]
    suspended = pause(monkeypatch, batch, "write_records")
    earlier = suspended.start(lambda: run_copy(ranges, topic=first))

    former = {"former_run_ids": ("0123456789abcdef",)}
    run_copy(ranges, topic=second, is_retry=True, run_id="feedc0de00000000", **former)
    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert values(kafka_broker, first) == []
    _assert_each_once(kafka_broker, source, second)


_SEGMENTS: dict[str, Any] = {"provenance": "segments", "preserve_partition": True}


def _assert_mapped(kafka_broker: KafkaBroker, source: str, target: str, report: JobReport) -> None:
    """The segments map each record of the source to that of the target."""
    _assert_each_once(kafka_broker, source, target)
    of_source, of_target = (
        {(r.partition, r.offset): r.value for r in kafka_broker.consume(topic)} for topic in (source, target)
    )
    assert report.segments is not None
    mapped = {
        (s.source.partition, s.source.from_offset + i): (s.target.partition, s.target.from_offset + i)
        for s in report.segments
        for i in range(s.source.size)
    }
    assert {place: of_target[to] for place, to in mapped.items()} == of_source


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize(("after", "start"), [("in-order", 0), ("cut-at-70", 20)])
def test_segments_go_on_under_another_plan(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, after: str, start: int
) -> None:
    """The source has grown since the first try, or has lost its beginning, and no header tells what was delivered."""
    source, target = topic(2, suffix="source"), topic(2, suffix="target", config=REFUSES_LARGE)
    of_partition = [numbered(250, partition=0), [*numbered(100, 250, 1), large(1), *numbered(50, 350, 1)]]
    for records in of_partition:
        kafka_broker.produce(source, records, {"batch.num.messages": 10})
    ranges = [f"{source}:0:0:250", f"{source}:1:0:151"]
    with pytest.raises(TargetError):
        run_copy(ranges, topic=target, **_SEGMENTS, **_layout(ranges, "in-order"))
    # The task of the other partition may have been stopped at any commit.
    written = Counter(record.partition for record in kafka_broker.consume(target))
    kafka_broker.alter_topic(target, TAKES_LARGE)
    kafka_broker.produce(source, [*numbered(60, 400, 0), *numbered(60, 460, 1)], {"batch.num.messages": 10})
    longer = [f"{source}:0:{start}:310", f"{source}:1:{start}:211"]

    report = run_copy(longer, topic=target, is_retry=True, **_SEGMENTS, **_layout(longer, after))
    again = run_copy(longer, topic=target, is_retry=True, **_SEGMENTS, **_layout(longer, after))

    _assert_each_once(kafka_broker, source, target)
    assert written.total() > 0
    assert report.delivered_before == sum(max(0, count - start) for count in written.values())
    assert (report.warnings, report.may_have_duplicates) == ((), False)
    assert (report.records_written, again.segments) == (521 - 2 * start, report.segments)
    if start == 0:
        _assert_mapped(kafka_broker, source, target, report)


def _proof(report: JobReport, submission: int, delivered: str) -> dict[str, Any]:
    """What a worker sends with a clear when it has found that a submission delivered everything."""
    return {
        "untrusted_until": submission,
        "proved_until": submission,
        "proved_key": report.delivery_key,
        "proved_ranges": (delivered,),
        "proved_segments": report.segments,
    }


@pytest.mark.usefixtures("small_commits")
def test_segments_go_on_after_a_clear_that_follows_a_delivery(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """The worker has stored what was delivered, and where; the slots are removed then."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(100))
    options: dict[str, Any] = {"topic": target, **_SEGMENTS}
    number = int(time.time() * 1000)
    first = run_copy([f"{source}:0:0:100"], submission=number, **options)
    assert first.segments is not None
    proved = _proof(first, number, f"{source}:0:0:100")

    for tries in (1, 2):
        kafka_broker.produce(source, numbered(50, 50 + 50 * tries))
        end = 100 + 50 * tries
        report = run_copy([f"{source}:0:0:{end}"], submission=number + tries, is_retry=True, **options, **proved)

        _assert_mapped(kafka_broker, source, target, report)
        assert report.delivered_before == end - 50


@pytest.mark.usefixtures("small_commits")
def test_a_proof_of_a_target_that_was_recreated_counts_for_nothing(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """Also not beside the progress in the new one, under which a further clear goes on."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [*numbered(60), large(), *numbered(239, 60)], {"batch.num.messages": 10})
    options: dict[str, Any] = {"topic": target, **_SEGMENTS}
    number = int(time.time() * 1000)
    first = run_copy([f"{source}:0:0:300"], submission=number, **options)
    proved = {**_proof(first, number, f"{source}:0:0:300"), "is_retry": True}
    kafka_broker.delete_topic(target)
    kafka_broker.create_topic(target, 1, REFUSES_LARGE)
    with pytest.raises(TargetError):
        run_copy([f"{source}:0:0:300"], submission=number + 1, **options, **proved)
    kafka_broker.alter_topic(target, TAKES_LARGE)
    kafka_broker.produce(source, numbered(10, 299))

    report = run_copy([f"{source}:0:0:310"], submission=number + 2, **options, **proved)

    _assert_mapped(kafka_broker, source, target, report)
    assert 0 < report.delivered_before <= 60


@pytest.mark.usefixtures("small_commits")
def test_a_driver_dies_between_its_claim_and_its_slots(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new slots are committed, the mark goes on to promise what those of the plan before have."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(150))
    options: dict[str, Any] = {"topic": target, **_SEGMENTS}
    run_copy([f"{source}:0:0:100"], **options)
    with monkeypatch.context() as patched:
        patched.setattr(RunOwnership, "open", _die)
        with pytest.raises(JobFailedError, match="died"):
            run_copy([f"{source}:0:0:120"], is_retry=True, **options)

    report = run_copy([f"{source}:0:0:150"], is_retry=True, **options)

    _assert_mapped(kafka_broker, source, target, report)
    assert report.delivered_before == 100


def _die(*_: object, **__: object) -> None:
    raise RuntimeError("died")


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("has_grown", [False, True])
def test_a_first_try_that_waits_for_hours_says_only_what_is_so(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, *, has_grown: bool
) -> None:
    """While it waited in a queue, brokers may have forgotten the mark of another try. If the target has got nothing
    since, there was none. Nothing tells whose records those are that it has got.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(100))
    kafka_broker.produce(target, numbered(5, 1_000))
    options: dict[str, Any] = {"topic": target, "audit_from": {target: {"0": 5}}, **_SEGMENTS}
    if has_grown:
        kafka_broker.produce(target, numbered(1, 2_000))
    hours_ago = int(time.time() * 1000) - 2 * LATE_CLAIM_MS

    report = run_copy([f"{source}:0:0:100"], submitted_at_ms=hours_ago, **options)
    retry = run_copy([f"{source}:0:0:100"], is_retry=True, **options)

    assert values(kafka_broker, target)[5 + has_grown :] == values(kafka_broker, source)
    assert (report.may_have_duplicates, retry.may_have_duplicates) == (has_grown, has_grown)
    assert [("its submission" in w, "may be in the target" in w) for w in (*report.warnings, *retry.warnings)] == (
        [(True, False), (False, True)] if has_grown else []
    )


@pytest.mark.usefixtures("small_commits")
def test_a_try_that_died_before_it_wrote_is_no_reason_for_a_warning(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no progress and no header say that nothing was delivered."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(100))
    options: dict[str, Any] = {"topic": target, "provenance": None, "audit_from": {target: {"0": 0}}}
    with monkeypatch.context() as patched:
        patched.setattr(RunOwnership, "claim", _die)
        with pytest.raises(JobFailedError, match="died"):
            run_copy([f"{source}:0:0:100"], **options)

    report = run_copy([f"{source}:0:0:100"], is_retry=True, **options)

    assert values(kafka_broker, target) == values(kafka_broker, source)
    assert (report.warnings, report.may_have_duplicates) == ((), False)


def _remove_slots(kafka_broker: KafkaBroker, spark: SparkSession) -> None:
    """Those of all runs, but not their marks."""
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    groups = [group.group_id for group in admin.list_consumer_groups().result(30).valid]
    with kafka_admin(spark, {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}) as removing:
        removing.remove_groups([g for g in groups if g.startswith(PREFIX) and not g.endswith("owner")])


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("lost", ["a-slot", "another-order"])
def test_what_segments_do_not_tell_is_written_again(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, spark: SparkSession, lost: str
) -> None:
    """The result has a warning. Nothing is missing."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(60), large(), *numbered(239, 60)], {"batch.num.messages": 10})
    ranges, options = [f"{source}:0:0:300"], {"topic": target, **_SEGMENTS}
    layout = _layout(ranges, "cut-at-100" if lost == "another-order" else "in-order")
    with pytest.raises(TargetError):
        run_copy(ranges, **options, **layout)
    kafka_broker.alter_topic(target, TAKES_LARGE)
    if lost == "a-slot":
        _remove_slots(kafka_broker, spark)

    report = run_copy([f"{source}:0:0:290"], is_retry=True, **options)

    assert set(values(kafka_broker, target)) >= set(values(kafka_broker, source)[:290])
    assert report.records_written == 290
    assert any("what it has delivered is written again" in warning for warning in report.warnings)
    assert report.may_have_duplicates
