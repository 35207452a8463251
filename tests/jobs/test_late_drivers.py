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
from tests.in_process_jobs import InProcessSpark
from tests.jobs.conftest import Pair
from tests.jobs.runs import SLOW, SMALL_COMMITS, in_background, numbered, pause, wait_for_copies

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
    pair: Pair,
    in_process_spark: InProcessSpark,
    worker: KafkaHook,
    monkeypatch: pytest.MonkeyPatch,
    place: object,
    name: str,
) -> None:
    """Although the clear had another plan, it has no chance to write; and its worker has none to finish the run."""
    pair.fill(numbered(_COUNT))
    suspended = pause(monkeypatch, place, name)
    earlier = suspended.start(lambda: pair.copy(300))
    report = pair.copy(_COUNT, is_retry=True)
    late, latest = in_process_spark.requests
    judge_run(worker, latest.instance, latest.submission.number, report.run_id, [pair.target], proved=True)
    remove_progress(worker, report.progress_groups)

    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert pair.values() == _VALUES
    with pytest.raises(RunTakenOverError):
        judge_run(worker, late.instance, late.submission.number, report.run_id, [pair.target], proved=True)


@pytest.mark.usefixtures("small_commits")
def test_a_task_that_starts_after_the_retrys_fences_nobody(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transactional id is that of the retry's task, so it looks at the mark first."""
    pair.fill(numbered(_COUNT), in_batch=10)
    suspended = pause(monkeypatch, batch, "write_records")
    earlier = suspended.start(lambda: pair.copy(_COUNT))
    retry = in_background(lambda: pair.copy(_COUNT, is_retry=True, source_options=SLOW))
    wait_for_copies(pair.broker, pair.target, SMALL_COMMITS)

    suspended.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    assert not retry.done()
    report = retry.result(120)
    assert (report.failed_tasks, report.warnings) == (0, ())
    assert pair.values() == _VALUES


def test_the_mark_is_there_before_earlier_tasks_are_fenced(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a task could look at the mark and open its producer after it was fenced."""
    pair.fill(numbered(_COUNT))
    before_tasks, before_fencing = pause(monkeypatch, batch, "write_records"), pause(monkeypatch, KafkaAdmin, "fence")
    earlier = before_tasks.start(lambda: pair.copy(_COUNT))
    retry = before_fencing.start(lambda: pair.copy(_COUNT, is_retry=True))

    before_tasks.end()

    assert isinstance(earlier.exception(60), RunTakenOverError)
    before_fencing.end()
    assert retry.result(60).records_written == _COUNT
    assert pair.values() == _VALUES


def test_progress_is_removed_between_the_look_at_the_mark_and_the_load(
    pair: Pair, in_process_spark: InProcessSpark, worker: KafkaHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of the first try finishes the run meanwhile: what is missing is not taken for nothing."""
    pair.fill(numbered(_COUNT))
    first = pair.copy(_COUNT)
    suspended = pause(monkeypatch, OwnerProducer, "commit")
    retry = suspended.start(lambda: pair.copy(_COUNT, is_retry=True))
    earlier = in_process_spark.requests[0]
    judge_run(worker, earlier.instance, earlier.submission.number, first.run_id, [pair.target], proved=True)
    remove_progress(worker, first.progress_groups)

    suspended.end()

    report = retry.result(60)
    assert pair.values() == _VALUES
    assert report.delivered_before == report.records_written == _COUNT


@pytest.mark.usefixtures("small_commits")
def test_at_least_once_stops_at_its_next_flush(pair: Pair) -> None:
    """A try that wakes up while it writes doubles one interval between flushes at most."""
    pair.fill(numbered(_COUNT), in_batch=10)
    slower = {**SLOW, "kafka.fetch.max.wait.ms": "500"}
    earlier = in_background(lambda: pair.copy(_COUNT, source_options=slower, delivery="at_least_once"))
    wait_for_copies(pair.broker, pair.target, SMALL_COMMITS)

    pair.copy(_COUNT, is_retry=True, delivery="at_least_once")

    assert isinstance(earlier.exception(120), RunTakenOverError)
    found = pair.values()
    assert set(found) == set(_VALUES)
    assert len(found) <= _COUNT + 2 * SMALL_COMMITS
