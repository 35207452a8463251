"""Promises of the documentation that no other file proves: mostly what is refused, or is not done."""

from __future__ import annotations

import os

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import OpenTransactionError
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import NewTask, Replay, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TEN = [Record(value=b"%d" % i) for i in range(10)]


def test_a_retry_whose_records_have_aged_out(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were delivered before; the retry reads its ranges from their start all the same, and Spark finds out."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 5)
    task = new_task(records=[*TEN, Record(value=os.urandom(5_000))])
    task.kafka.alter_topic(task.target, {"max.message.bytes": "1000"})
    with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
        task.run()
    delivered = task.values().total()
    task.kafka.delete_records(task.source, {0: 2})

    with pytest.raises(AirflowFailException, match=r"DataLossError: .*are not available in Kafka any more"):
        task.run()
    assert task.values().total() == delivered >= 5


def test_a_replay_into_an_open_transaction(new_task: NewTask) -> None:
    """A retry looks again."""
    task = new_task(records=TEN)
    with (
        task.kafka.open_transaction(task.source, [Record(value=b"open"), Record(value=b"open")]),
        pytest.raises(OpenTransactionError, match=r"\[0\].*transaction"),
    ):
        task.run(Replay, offset_ranges=[f"{task.source}:0:5:12"])


def test_a_target_of_an_expression_that_would_replace_timestamps(new_task: NewTask, topic: TopicFactory) -> None:
    """The job looks at it, before it writes."""
    task, target = new_task(records=TEN), topic(config={"message.timestamp.type": "LogAppendTime"})

    with pytest.raises(AirflowFailException, match=rf"TargetError: .*{target}.*LogAppendTime"):
        task.run(target_topic=None, target_topic_expr=f"'{target}'")
    assert task.values(target).total() == 0


@pytest.mark.parametrize("on_rerun", ["copy_again", "fail"])
def test_a_clear_of_an_operator_that_a_function_calls(new_task: NewTask, on_rerun: str) -> None:
    """Airflow does not call back what notes a success, so only what is missing is written."""
    task = new_task(records=TEN, on_rerun=on_rerun)
    task.run()
    task.kafka.produce(task.source, [Record(value=b"10")])
    task.clears = 1
    result = task.run()

    assert result["delivered_before"] == 10
    assert task.values() == once(0, 11)
