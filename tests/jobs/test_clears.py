"""What a clear may change between two tries of a run, and what tries of a stream were before: each record is in the
target once all the same.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark import SparkContext

from airflow_provider_kafka_spark.core.errors import (
    CheckpointInUseError,
    JobFailedError,
    RunTakenOverError,
    TargetRecreatedError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.runs.run_identity import PREFIX
from airflow_provider_kafka_spark.core.runs.run_protocol import LATE_CLAIM_MS
from airflow_provider_kafka_spark.core.streams.checkpoint import SUBMISSION_NAME, LatestSubmission
from airflow_provider_kafka_spark.core.wire.protocol import EarlierDelivery, JobReport
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.kafka_admin import kafka_admin
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership
from airflow_provider_kafka_spark.jobs.write import write_records
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.jobs.conftest import Pair
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, pause, values
from tests.operators.copy_task import NewTask, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Sizes of pieces by the name of a layout; None is one piece for each partition.
_LAYOUTS: dict[str, int | None] = {"in-order": None, "cut-at-100": 100, "cut-at-70": 70}
_SEGMENTS: dict[str, Any] = {"provenance": "segments", "preserve_partition": True}
_BATCHES_OF_TEN = 10


def _layout(ranges: list[str], name: str) -> dict[str, Any]:
    size = _LAYOUTS[name]
    return {"spans": plan_spans(OffsetRanges.parse(ranges), size), "preserve_order": size is None}


@pytest.mark.usefixtures("small_commits")
def test_other_pieces_after_a_clear(pair: Pair) -> None:
    """Progress of one layout does not count for another one: the target is read back."""
    pair.fill([*numbered(333), large(), *numbered(166, 333)])
    ranges = [f"{pair.source}:0:0:500"]
    pair.refused(lambda: pair.copy(500, **_layout(ranges, "cut-at-100")))
    written = len(pair.values())

    report = pair.copy(500, is_retry=True, **_layout(ranges, "in-order"))

    pair.assert_each_once()
    assert report.delivered_before == written > 0
    assert report.records_written == 500


@pytest.mark.usefixtures("small_commits")
def test_progress_of_a_finished_piece_expires(pair: Pair, spark: SparkSession) -> None:
    """While the mark is there, which says that each piece has progress: the target is read back."""
    pair.broker.add_partitions(pair.source, 2)
    pair.fill([*numbered(100, partition=0), *numbered(100, 100, partition=1)])
    ranges = [f"{pair.source}:0:0:100", f"{pair.source}:1:0:100"]
    first = pair.run(ranges, topic=pair.target)
    with kafka_admin(spark, {"kafka.bootstrap.servers": pair.broker.bootstrap_servers}) as admin:
        # One of the two slots.
        admin.remove_groups(first.progress_groups[:1])

    report = pair.run(ranges, topic=pair.target, is_retry=True)

    pair.assert_each_once()
    assert len(first.progress_groups) == 2
    assert report.delivered_before == 200


@pytest.mark.usefixtures("small_commits")
def test_another_target_after_a_clear_stops_the_earlier_driver(
    pair: Pair, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for the mark at its own target, and finds the new one there: the worker knows the earlier run."""
    first, pair.target = pair.target, topic(suffix="second")
    pair.fill(numbered(100))
    suspended = pause(monkeypatch, batch, "write_records")
    earlier = suspended.start(lambda: pair.copy(100, topic=first))

    pair.copy(100, is_retry=True, run_id="feedc0de00000000", former_run_ids=("0123456789abcdef",))
    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert values(pair.broker, first) == []
    pair.assert_each_once()


def _assert_mapped(pair: Pair, report: JobReport) -> None:
    """The segments map each record of the source to that of the target."""
    pair.assert_each_once()
    of_source, of_target = (
        {(r.partition, r.offset): r.value for r in pair.broker.consume(topic)} for topic in (pair.source, pair.target)
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
def test_segments_go_on_under_another_plan(pair: Pair, after: str, start: int) -> None:
    """The source has grown since the first try, or has lost its beginning, and no header tells what was delivered."""
    for topic in (pair.source, pair.target):
        pair.broker.add_partitions(topic, 2)
    for records in (numbered(250, partition=0), [*numbered(100, 250, 1), large(1), *numbered(50, 350, 1)]):
        pair.fill(records, in_batch=_BATCHES_OF_TEN)
    ranges = [f"{pair.source}:0:0:250", f"{pair.source}:1:0:151"]
    pair.refused(lambda: pair.run(ranges, topic=pair.target, **_SEGMENTS, **_layout(ranges, "in-order")))
    # The task of the other partition may have been stopped at any commit.
    written = Counter(record.partition for record in pair.broker.consume(pair.target))
    pair.fill([*numbered(60, 400, 0), *numbered(60, 460, 1)], in_batch=_BATCHES_OF_TEN)
    longer = [f"{pair.source}:0:{start}:310", f"{pair.source}:1:{start}:211"]

    report, again = (
        pair.run(longer, topic=pair.target, is_retry=True, **_SEGMENTS, **_layout(longer, after)) for _ in range(2)
    )

    pair.assert_each_once()
    assert written.total() > 0
    assert report.delivered_before == sum(max(0, count - start) for count in written.values())
    assert (report.warnings, report.may_have_duplicates) == ((), False)
    assert (report.records_written, again.segments) == (521 - 2 * start, report.segments)
    if start == 0:
        _assert_mapped(pair, report)


def _proof(report: JobReport, submission: int, delivered: str) -> dict[str, Any]:
    """What a worker sends with a clear when it has found that a submission delivered everything."""
    return {
        "untrusted_until": submission,
        "earlier": EarlierDelivery(
            report.delivery_key, submission=submission, ranges=OffsetRanges.parse([delivered]), segments=report.segments
        ),
        "is_retry": True,
    }


@pytest.mark.usefixtures("small_commits")
def test_a_proof_of_a_target_that_was_recreated_counts_for_nothing(pair: Pair) -> None:
    """Also not beside the progress in the new one, under which a further clear goes on."""
    pair.fill([*numbered(60), large(), *numbered(239, 60)], in_batch=_BATCHES_OF_TEN)
    number = int(time.time() * 1000)
    first = pair.copy(300, submission=number, **_SEGMENTS)
    proved = _proof(first, number, f"{pair.source}:0:0:300")
    pair.recreate_target()
    pair.refused(lambda: pair.copy(300, submission=number + 1, **_SEGMENTS, **proved))
    pair.fill(numbered(10, 299))

    report = pair.copy(310, submission=number + 2, **_SEGMENTS, **proved)

    _assert_mapped(pair, report)
    assert 0 < report.delivered_before <= 60


def _dies_at(method: str, run: Callable[[], object]) -> None:
    """Run a try whose driver dies where it would call a method of its ownership."""

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("died")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunOwnership, method, die)
        with pytest.raises(JobFailedError, match="died"):
            run()


@pytest.mark.usefixtures("small_commits")
def test_a_driver_dies_between_its_claim_and_its_slots(pair: Pair) -> None:
    """Until the new slots are committed, the mark goes on to promise what those of the plan before have."""
    pair.fill(numbered(150))
    pair.copy(100, **_SEGMENTS)
    _dies_at("open", lambda: pair.copy(120, is_retry=True, **_SEGMENTS))

    report = pair.copy(150, is_retry=True, **_SEGMENTS)

    _assert_mapped(pair, report)
    assert report.delivered_before == 100


@pytest.mark.usefixtures("small_commits")
def test_a_try_that_died_before_it_wrote_is_no_reason_for_a_warning(pair: Pair) -> None:
    """Also where no progress and no header say that nothing was delivered."""
    pair.fill(numbered(100))
    options: dict[str, Any] = {"provenance": None, "target_starts": {pair.target: {"0": 0}}}
    _dies_at("claim", lambda: pair.copy(100, **options))

    report = pair.copy(100, is_retry=True, **options)

    assert pair.values() == values(pair.broker, pair.source)
    assert (report.warnings, report.may_have_duplicates) == ((), False)


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("has_grown", [False, True])
def test_a_first_try_that_waits_for_hours_says_only_what_is_so(pair: Pair, *, has_grown: bool) -> None:
    """While it waited in a queue, brokers may have forgotten the mark of another try. If the target has got nothing
    since, there was none. Nothing tells whose records those are that it has got.
    """
    pair.fill(numbered(100))
    pair.broker.produce(pair.target, numbered(5 + has_grown, 1_000))
    options: dict[str, Any] = {"target_starts": {pair.target: {"0": 5}}, **_SEGMENTS}
    hours_ago = int(time.time() * 1000) - 2 * LATE_CLAIM_MS

    report = pair.copy(100, submitted_at_ms=hours_ago, **options)
    retry = pair.copy(100, is_retry=True, **options)

    assert pair.values()[5 + has_grown :] == values(pair.broker, pair.source)
    assert (report.may_have_duplicates, retry.may_have_duplicates) == (has_grown, has_grown)
    assert [("its submission" in w, "may be in the target" in w) for w in (*report.warnings, *retry.warnings)] == (
        [(True, False), (False, True)] if has_grown else []
    )


def _remove_slots(pair: Pair, spark: SparkSession) -> None:
    """Those of all runs, but not their marks."""
    servers = pair.broker.bootstrap_servers
    listing = AdminClient({"bootstrap.servers": servers})
    groups = [group.group_id for group in listing.list_consumer_groups().result(30).valid]
    with kafka_admin(spark, {"kafka.bootstrap.servers": servers}) as admin:
        admin.remove_groups([g for g in groups if g.startswith(PREFIX) and not g.endswith("owner")])


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("lost", ["a-slot", "another-order"])
def test_what_segments_do_not_tell_is_written_again(pair: Pair, spark: SparkSession, lost: str) -> None:
    """The result has a warning. Nothing is missing."""
    pair.fill([*numbered(60), large(), *numbered(239, 60)], in_batch=_BATCHES_OF_TEN)
    layout = _layout([f"{pair.source}:0:0:300"], "cut-at-100" if lost == "another-order" else "in-order")
    pair.refused(lambda: pair.copy(300, **_SEGMENTS, **layout))
    if lost == "a-slot":
        _remove_slots(pair, spark)

    report = pair.copy(290, is_retry=True, **_SEGMENTS)

    assert set(pair.values()) >= set(values(pair.broker, pair.source)[:290])
    assert report.records_written == 290
    assert any("what it has delivered is written again" in warning for warning in report.warnings)
    assert report.may_have_duplicates


@pytest.mark.usefixtures("small_commits")
def test_at_least_once_and_back(new_task: NewTask) -> None:
    """Progress from before a try without transactions does not have what that one delivered: also for another run of
    the DAG, which has no state.
    """
    task = new_task(records=[*numbered(60), large(), *numbered(139, 60), large(), *numbered(100, 199)])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        task.run(Stream)
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    task.die_at("merged", batch, lambda: task.run(Stream, delivery="at_least_once"))
    task.store = TaskStateStore()

    task.run(Stream)

    assert task.values() == task.values(task.source)


def test_nobody_but_the_jvm_calls_the_copy_of_a_batch(new_task: NewTask) -> None:
    """Another user of the machine reaches the port. PySpark asks for no login there, and counts from 0."""
    task = new_task(records=numbered(10))

    task.run(Stream)

    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.server_socket.getsockname()[1]  # noqa: SLF001 - py4j's
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        assert stranger.makefile("rb").readline() == b"!xsObject ID unknown\n"
    assert gateway.gateway_property.pool.next_id > 2**64
    assert task.values() == task.values(task.source)


def test_the_target_of_an_uncommitted_batch_is_recreated(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is not committed, and the retry writes all of it to the new topic."""
    task = new_task(records=numbered(200))

    def write_and_recreate(*arguments: Any) -> Any:
        result = write_records(*arguments)
        task.recreate(task.target, 1)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_records", write_and_recreate)
        with pytest.raises(TargetRecreatedError):
            task.run(Stream)

    result = task.run(Stream)

    assert values(task.kafka, task.target) == [b"%d" % i for i in range(200)]
    assert (result["records_written"], result["delivered_before"]) == (200, 0)


def test_a_driver_of_an_earlier_submission_does_nothing(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker has chosen its number before a later one did."""
    task = new_task(records=numbered(10))
    monkeypatch.setattr(CheckpointFolder, "latest_submission", lambda _: 0)
    task.checkpoint.mkdir()
    (task.checkpoint / SUBMISSION_NAME).write_text(LatestSubmission(2**60).to_json())

    with pytest.raises(CheckpointInUseError, match=f"submission {2**60} has used it since"):
        task.run(Stream)

    assert task.values().total() == 0
    assert [path.name for path in task.checkpoint.iterdir()] == [SUBMISSION_NAME]
