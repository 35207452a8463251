"""Two tries that are alive at the same time: the earlier one stands still at some place, and wakes up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress
from airflow_provider_kafka_spark.core.errors import RunTakenOverError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin
from airflow_provider_kafka_spark.jobs.owner_producer import OwnerProducer
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.in_process_jobs import InProcessSpark
from tests.jobs.conftest import Copy
from tests.jobs.runs import SLOW, SMALL_COMMITS, in_background, numbered, pause, values, wait_for_copies

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 400
_VALUES = [b"%d" % i for i in range(_COUNT)]


@pytest.fixture
def worker(kafka_broker: KafkaBroker, connection: Callable[..., None]) -> Any:
    """The worker's client of the target."""
    connection("kafka_default", extra={"bootstrap.servers": kafka_broker.bootstrap_servers})
    with KafkaHook() as hook:
        yield hook


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(OwnerProducer, "__init__", id="before-it-claims"),
        pytest.param(OwnerProducer, "commit", id="before-it-commits-its-mark"),
    ],
)
def test_a_driver_wakes_up_after_a_later_one_has_delivered(
    kafka_broker: KafkaBroker,
    topic: TopicFactory,
    run_copy: Copy,
    in_process_spark: InProcessSpark,
    worker: KafkaHook,
    monkeypatch: pytest.MonkeyPatch,
    place: object,
    name: str,
) -> None:
    """Although the clear had another plan, it has no chance to write; and its worker has none to finish the run."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    suspended = pause(monkeypatch, place, name)
    earlier = suspended.start(lambda: run_copy([f"{source}:0:0:300"], topic=target))
    report = run_copy([f"{source}:0:0:{_COUNT}"], topic=target, is_retry=True)
    late, latest = in_process_spark.requests
    judge_run(worker, latest.instance, latest.submission, report.run_id, [target], proved=True)
    remove_progress(worker, report.progress_groups)

    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert values(kafka_broker, target) == _VALUES
    with pytest.raises(RunTakenOverError):
        judge_run(worker, late.instance, late.submission, report.run_id, [target], proved=True)


@pytest.mark.usefixtures("small_commits")
def test_a_task_that_starts_after_the_retrys_fences_nobody(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transactional id is that of the retry's task, so it looks at the mark first."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT), {"batch.num.messages": 10})
    ranges = [f"{source}:0:0:{_COUNT}"]
    suspended = pause(monkeypatch, batch, "write_records")
    earlier = suspended.start(lambda: run_copy(ranges, topic=target))
    retry = in_background(lambda: run_copy(ranges, topic=target, is_retry=True, source_options=SLOW))
    wait_for_copies(kafka_broker, target, SMALL_COMMITS)

    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert not retry.done()
    report = retry.result(120)
    assert (report.failed_tasks, report.warnings) == (0, ())
    assert values(kafka_broker, target) == _VALUES


def test_the_mark_is_there_before_earlier_tasks_are_fenced(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a task could look at the mark and open its producer after it was fenced."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    ranges = [f"{source}:0:0:{_COUNT}"]
    before_tasks, before_fencing = pause(monkeypatch, batch, "write_records"), pause(monkeypatch, KafkaAdmin, "fence")
    earlier = before_tasks.start(lambda: run_copy(ranges, topic=target))
    retry = before_fencing.start(lambda: run_copy(ranges, topic=target, is_retry=True))

    before_tasks.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    before_fencing.end()
    assert retry.result(60).records_written == _COUNT
    assert values(kafka_broker, target) == _VALUES


def test_progress_is_removed_between_the_look_at_the_mark_and_the_load(
    kafka_broker: KafkaBroker,
    topic: TopicFactory,
    run_copy: Copy,
    in_process_spark: InProcessSpark,
    worker: KafkaHook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker of the first try finishes the run meanwhile: what is missing is not taken for nothing."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT))
    ranges = [f"{source}:0:0:{_COUNT}"]
    first = run_copy(ranges, topic=target)
    suspended = pause(monkeypatch, OwnerProducer, "commit")
    retry = suspended.start(lambda: run_copy(ranges, topic=target, is_retry=True))
    earlier = in_process_spark.requests[0]
    judge_run(worker, earlier.instance, earlier.submission, first.run_id, [target], proved=True)
    remove_progress(worker, first.progress_groups)

    suspended.end()

    report = retry.result(60)
    assert values(kafka_broker, target) == _VALUES
    assert report.delivered_before == report.records_written == _COUNT


@pytest.mark.usefixtures("small_commits")
def test_at_least_once_stops_at_its_next_flush(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try that wakes up while it writes doubles one interval between flushes at most."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, numbered(_COUNT), {"batch.num.messages": 10})
    ranges, options = [f"{source}:0:0:{_COUNT}"], {"topic": target, "delivery": "at_least_once"}
    slower = {**SLOW, "kafka.fetch.max.wait.ms": "500"}
    earlier = in_background(lambda: run_copy(ranges, source_options=slower, **options))
    wait_for_copies(kafka_broker, target, SMALL_COMMITS)

    run_copy(ranges, is_retry=True, **options)

    assert isinstance(earlier.exception(120), RunTakenOverError)
    found = values(kafka_broker, target)
    assert set(found) == set(_VALUES)
    assert len(found) <= _COUNT + 2 * SMALL_COMMITS
