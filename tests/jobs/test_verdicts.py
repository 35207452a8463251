"""The worker's last word on a run, and a run whose state Airflow has lost: what the next try does."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import DeliveryError, DuplicateRecordsError, TargetError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.jobs.kafka_rdd import read_tasks
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.jobs.conftest import Copy
from tests.jobs.runs import REFUSES_LARGE, TAKES_LARGE, large, numbered, values

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("in_process_spark")]

_COUNT = 100
_VALUES = [b"%d" % i for i in range(_COUNT)]


def attempt(number: int, store: TaskStateStore, source: str, target: str, **parameters: Any) -> dict[str, Any]:
    """One try of the same task."""
    operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, **parameters)
    return operator.execute(task_context(store, ti=Try(try_number=number)))


@pytest.mark.usefixtures("small_commits")
def test_a_retry_without_its_state_writes_nothing_twice(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """The state store deletes what is old, and the mark at the brokers is still there."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka.produce(source, [*numbered(60), large()])
    first = TaskStateStore()
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        attempt(1, first, source, target)
    kafka.alter_topic(target, TAKES_LARGE)

    result = attempt(2, TaskStateStore(), source, target)

    assert values(kafka, target) == values(kafka, source)
    assert result["run_id"] == first.values["kafka_spark_run"]["run_id"]
    assert result["delivered_before"] == 50
    assert any("Airflow has stored nothing of that" in warning for warning in result["warnings"])


@pytest.mark.parametrize("keeps_state", [True, False])
def test_records_that_a_task_passed_over_are_written_by_the_next_try(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, *, keeps_state: bool
) -> None:
    """The committed progress says that they are done, and the worker has found that they are not. Its finding is in the
    mark too, in case the state is lost.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, numbered(_COUNT))
    store = TaskStateStore()

    def with_a_gap(spark: Any, tasks: Any, *options: Any) -> Any:
        gap = [OffsetRange(source, 0, 0, 40), OffsetRange(source, 0, 60, _COUNT)]
        return read_tasks(spark, [gap], *options)

    with monkeypatch.context() as patch:
        patch.setattr(kafka_source, "read_tasks", with_a_gap)
        with pytest.raises(DeliveryError, match="fewer records than there are"):
            attempt(1, store, source, target)

    result = attempt(2, store if keeps_state else TaskStateStore(), source, target)

    assert sorted(values(kafka, target), key=lambda value: int(value or b"")) == _VALUES
    if keeps_state:
        assert (result["delivered_before"], result["records_written"]) == (80, _COUNT)


def test_a_duplicate_is_found_by_every_further_try(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Otherwise a retry would be green that only counts its own records. It is in the mark too, in case the state is
    lost.
    """
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka.produce(source, [*numbered(60), large()])
    store = TaskStateStore()
    with pytest.raises(AirflowFailException):
        attempt(1, store, source, target, delivery="at_least_once")
    kafka.alter_topic(target, TAKES_LARGE)
    kafka.produce(target, kafka.consume(target)[:1] or pytest.fail("nothing was written"))

    for number, kept in ((2, store), (3, store), (4, TaskStateStore())):
        with pytest.raises(AirflowFailException, match=DuplicateRecordsError.__name__):
            attempt(number, kept, source, target)

    result = attempt(5, TaskStateStore(), source, target, allow_duplicates=True)
    assert result["duplicates"] == 1
    assert len(values(kafka, target)) == 62


@pytest.mark.usefixtures("small_commits")
def test_duplicates_that_a_try_has_found_are_known_to_the_next_one(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """A try found them when it read the target back, and failed; the next one goes on from its progress."""
    source, target = topic(suffix="source"), topic(suffix="target", config=REFUSES_LARGE)
    kafka_broker.produce(source, [*numbered(60), large()])
    run_copy([f"{source}:0:0:10"], topic=target)
    kafka_broker.produce(target, kafka_broker.consume(target)[:3])
    with pytest.raises(TargetError):
        run_copy([f"{source}:0:0:61"], topic=target, is_retry=True)
    kafka_broker.alter_topic(target, TAKES_LARGE)

    report = run_copy([f"{source}:0:0:61"], topic=target, is_retry=True)

    assert (report.duplicates, report.records_written) == (3, 61)
