"""The worker's last word on a run, and a run whose state Airflow has lost: what the next try does."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import DeliveryError, DuplicateRecordsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.jobs.kafka_rdd import read_tasks
from tests.airflow_fakes import TaskStateStore
from tests.jobs.conftest import Pair
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, numbers, values
from tests.operators.copy_task import NewTask

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 100


@pytest.mark.usefixtures("small_commits")
def test_a_retry_without_its_state_writes_nothing_twice(new_task: NewTask) -> None:
    """The state store deletes what is old, and the mark at the brokers is still there."""
    task = new_task(records=[*numbered(60), large()])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        task.run()
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    first, task.store = task.store, TaskStateStore()

    result = task.run()

    assert values(task.kafka, task.target) == values(task.kafka, task.source)
    assert result["run_id"] == first.values["kafka_spark_run"]["value"]["run_id"]
    assert result["delivered_before"] == 50
    assert any("Airflow has stored nothing of that" in warning for warning in result["warnings"])


@pytest.mark.parametrize("keeps_state", [True, False])
def test_records_that_a_task_passed_over_are_written_by_the_next_try(
    new_task: NewTask, monkeypatch: pytest.MonkeyPatch, *, keeps_state: bool
) -> None:
    """The committed progress says that they are done, and the worker has found that they are not. Its finding is in the
    mark too, in case the state is lost.
    """
    task = new_task(records=numbered(_COUNT))

    def with_a_gap(spark: Any, tasks: Any, *options: Any) -> Any:
        gap = [OffsetRange(task.source, 0, 0, 40), OffsetRange(task.source, 0, 60, _COUNT)]
        return read_tasks(spark, [gap], *options)

    with monkeypatch.context() as patch:
        patch.setattr(kafka_source, "read_tasks", with_a_gap)
        with pytest.raises(DeliveryError, match="fewer records than there are"):
            task.run()
    if not keeps_state:
        task.store = TaskStateStore()

    result = task.run()

    assert numbers(task.kafka, task.target) == list(range(_COUNT))
    if keeps_state:
        assert (result["delivered_before"], result["records_written"]) == (80, _COUNT)


def test_a_duplicate_is_found_by_every_further_try(new_task: NewTask) -> None:
    """Otherwise a retry would be green that only counts its own records. It is in the mark too, in case the state is
    lost.
    """
    task = new_task(records=[*numbered(60), large()])
    task.kafka.alter_topic(task.target, REFUSES_LARGE)
    with pytest.raises(AirflowFailException):
        task.run(delivery="at_least_once")
    task.kafka.alter_topic(task.target, TAKES_LARGE)
    task.kafka.produce(task.target, task.kafka.consume(task.target)[:1] or pytest.fail("nothing was written"))

    for kept in (task.store, task.store, TaskStateStore()):
        task.store = kept
        with pytest.raises(AirflowFailException, match=DuplicateRecordsError.__name__):
            task.run()

    task.store = TaskStateStore()
    assert task.run(allow_duplicates=True)["duplicates"] == 1
    assert task.values().total() == 62


@pytest.mark.usefixtures("small_commits")
def test_duplicates_that_a_try_has_found_are_known_to_the_next_one(pair: Pair) -> None:
    """A try found them when it read the target back, and failed; the next one goes on from its progress."""
    pair.fill([*numbered(60), large()])
    pair.copy(10)
    pair.broker.produce(pair.target, pair.broker.consume(pair.target)[:3])
    pair.refused(lambda: pair.copy(61, is_retry=True))

    report = pair.copy(61, is_retry=True)

    assert (report.duplicates, report.records_written) == (3, 61)
