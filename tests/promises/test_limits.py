"""Promises of the documentation that no other file proves: mostly what is refused, or is not done."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import OpenTransactionError
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("in_process_spark")]


@pytest.fixture
def source(kafka: KafkaBroker, topic: TopicFactory) -> str:
    """Ten records."""
    name = topic(suffix="source")
    kafka.produce(name, [Record(value=b"%d" % i) for i in range(10)])
    return name


def execute(operator: Any, store: TaskStateStore | None = None, number: int = 1, clears: int = 0) -> dict[str, Any]:
    ti = Try(try_number=number, max_tries=clears)
    return cast("dict[str, Any]", operator.execute(task_context(store, clear_number=clears, ti=ti)))


def test_a_retry_whose_records_have_aged_out(
    kafka: KafkaBroker, topic: TopicFactory, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were delivered before; the retry reads its ranges from their start all the same, and Spark finds out."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 5)
    target, store = topic(config={"max.message.bytes": "1000"}, suffix="target"), TaskStateStore()
    kafka.produce(source, [Record(value=os.urandom(5_000))])
    operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target)
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        execute(operator, store)
    delivered = len(kafka.consume(target))
    kafka.delete_records(source, {0: 2})

    with pytest.raises(AirflowFailException, match=r"DataLossError: .*are not available in Kafka any more"):
        execute(operator, store, number=2)
    assert len(kafka.consume(target)) == delivered >= 5


def test_a_replay_into_an_open_transaction(kafka: KafkaBroker, topic: TopicFactory, source: str) -> None:
    """A retry looks again."""
    replay = ReplayOffsetRangesOperator(
        task_id="task", offset_ranges=[f"{source}:0:5:12"], target_topic=topic(suffix="target")
    )
    with (
        kafka.open_transaction(source, [Record(value=b"open"), Record(value=b"open")]),
        pytest.raises(OpenTransactionError, match=r"\[0\].*transaction"),
    ):
        execute(replay)


def test_a_target_of_an_expression_that_would_replace_timestamps(
    kafka: KafkaBroker, topic: TopicFactory, source: str
) -> None:
    """The job looks at it, before it writes."""
    target = topic(config={"message.timestamp.type": "LogAppendTime"}, suffix="target")
    copy = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic_expr=f"'{target}'")

    with pytest.raises(AirflowFailException, match=rf"TargetError: .*{target}.*LogAppendTime"):
        execute(copy)
    assert kafka.consume(target) == []


@pytest.mark.parametrize("on_rerun", ["copy_again", "fail"])
def test_a_clear_of_an_operator_that_a_function_calls(
    kafka: KafkaBroker, topic: TopicFactory, source: str, on_rerun: str
) -> None:
    """Airflow does not call back what notes a success, so only what is missing is written."""
    target, store = topic(suffix="target"), TaskStateStore()
    copy = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, on_rerun=on_rerun)
    execute(copy, store)
    kafka.produce(source, [Record(value=b"10")])
    result = execute(copy, store, number=2, clears=1)

    assert result["delivered_before"] == 10
    assert [record.value for record in kafka.consume(target)] == [b"%d" % i for i in range(11)]


def test_a_plan_that_is_outdated_fails_by_name(kafka: KafkaBroker, topic: TopicFactory, source: str) -> None:
    target = topic(suffix="target")
    plan = execute(KafkaToKafkaBatchOperator(task_id="plan", topics=[source], target_topic=target, plan_only=True))
    kafka.delete_topic(target)
    kafka.create_topic(target, 1)

    with pytest.raises(AirflowFailException, match=r"PlanOutdatedError: "):
        execute(ReplayOffsetRangesOperator(task_id="copy", plan=plan))
