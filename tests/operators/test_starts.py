"""Promises of ``starting_offsets``: a group's commits and a moment are starts of batches and of streams."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.edge_timestamps import sample_timestamps
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators import batch
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.operators.copy_task import Batch, NewTask, Stream, execute

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MOMENT = 1_790_000_000_000


def produce(kafka: KafkaBroker, name: str, start: int, end: int) -> None:
    kafka.produce(name, [Record(value=b"%d" % i, timestamp=MOMENT + i, partition=i % 2) for i in range(start, end)])


def planned(source: str, store: TaskStateStore | None = None, **parameters: Any) -> dict[str, Any]:
    operator = Batch(task_id="plan", topics=[source], target_topic_expr="'x'", plan_only=True, **parameters)
    operator.render_template_fields({})
    return execute(operator, store)


def plan(source: str, store: TaskStateStore | None = None, **parameters: Any) -> list[tuple[int, int, int]]:
    """The ranges of a batch."""
    result = planned(source, store, **parameters)
    return [(r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]]


def test_a_window_of_mostly_other_times_is_refused_before_anything_is_written(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    """As after somebody wrote old records into the topic. Both values of ``exact_window`` go on from there."""
    source = topic(2)
    times = [MOMENT + i for i in range(4)] + [MOMENT - 3_600_000 + i for i in range(200)]
    kafka.produce(source, [Record(value=b"v", partition=i % 2, timestamp=ms) for i, ms in enumerate(times)])
    window, store = {"starting_timestamp": MOMENT}, TaskStateStore()

    with pytest.raises(AirflowFailException, match=r"^PlanError: Most records of a window.*of 100 .*, 100 have not"):
        plan(source, store, **window)

    assert plan(source, store, **window, exact_window="{{ 'false' }}") == [(0, 0, 102), (1, 0, 102)]
    assert plan(source, **window, exact_window=True) == [(0, 0, 102), (1, 0, 102)]


def test_a_window_out_of_order_is_a_warning_of_the_plan(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a window has more records than the times say. Where it cannot be, no record is read to find out."""
    asked = list[int]()

    def sampled(client: KafkaHook, ranges: OffsetRanges) -> dict[TopicPartition, list[int]]:
        asked.append(ranges.total)
        return sample_timestamps(client, ranges)

    monkeypatch.setattr(batch, "sample_timestamps", sampled)
    by_client, by_broker = topic(2), topic(2, {"message.timestamp.type": "LogAppendTime"})
    newest_first = [Record(value=b"v", partition=i % 2, timestamp=MOMENT + (99 - i) * 60_000) for i in range(100)]
    for source, exact, warns in ((by_client, False, 1), (by_client, True, 0), (by_broker, None, 0)):
        kafka.produce(source, newest_first)
        asked.clear()
        result = planned(source, starting_timestamp=MOMENT + 50 * 60_000, exact_window=exact)

        assert sum("from before the window" in w for w in result["warnings"]) == warns
        assert sum(asked) == (result["planned_records"] if warns else 0)


@pytest.fixture
def group() -> str:
    return f"billing-{uuid4().hex[:8]}"


def commit(group: str, topic: str, offsets: dict[int, int]) -> None:
    with KafkaHook() as hook:
        ConsumerGroup(hook, group).commit({TopicPartition(topic, number): at for number, at in offsets.items()})


def test_a_batch_starts_where_a_group_stands(kafka: KafkaBroker, topic: TopicFactory, group: str) -> None:
    """A partition without a commit starts at its beginning."""
    source = topic(2)
    produce(kafka, source, 0, 10)
    forms: list[Any] = [{"group_id": group}, f"group:{group}"]
    with pytest.raises(AirflowFailException, match=r"^BoundError: starting_offsets must name a consumer group"):
        plan(source, starting_offsets=forms[0])

    commit(group, source, {0: 3})

    assert [plan(source, starting_offsets=form) for form in forms] == [[(0, 3, 5), (1, 0, 5)]] * 2
    kafka.delete_records(source, {0: 4})
    with pytest.raises(AirflowFailException, match=r"^DataLossError"):
        plan(source, starting_offsets=forms[0])


def test_a_group_that_keeps_up_while_it_is_planned(
    kafka: KafkaBroker, new_task: NewTask, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it commits after the ends of the logs were read is no offset beyond them."""
    task, real = new_task(source=2, preserve_timestamps=False), KafkaHook.state
    produce(kafka, task.source, 0, 10)
    commit(group, task.source, {0: 5, 1: 5})

    def more_at_once(hook: KafkaHook, *args: Any, **kwargs: Any) -> Any:
        found = real(hook, *args, **kwargs)
        if task.source in found.topics:
            ends = {number: state.high_watermark for number, state in found.topic(task.source).partitions.items()}
            produce(kafka, task.source, 0, 2)
            commit(group, task.source, {number: end + 1 for number, end in ends.items()})
        return found

    monkeypatch.setattr(KafkaHook, "state", more_at_once)
    start = {"starting_offsets": {"group_id": group}}
    assert plan(task.source, **start) == [(0, 5, 5), (1, 5, 5)]
    assert task.run(Stream, **start, plan_only=True)["planned_records"] == 0


def test_a_moment_is_the_start_of_a_window(kafka: KafkaBroker, topic: TopicFactory) -> None:
    source = topic(2)
    produce(kafka, source, 0, 10)

    assert plan(source, starting_offsets=str(MOMENT + 4)) == [(0, 2, 5), (1, 2, 5)]
    window = {"ending_timestamp": MOMENT + 8, "exact_window": True}
    assert plan(source, starting_offsets={"timestamp": MOMENT + 4}, **window) == [(0, 2, 4), (1, 2, 4)]
    with pytest.raises(AirflowFailException, match="give one of the two"):
        plan(source, starting_offsets={"group_id": "g"}, starting_timestamp=MOMENT)


@pytest.mark.long
def test_a_stream_begins_where_a_group_stands_and_goes_on_by_its_checkpoint(
    kafka: KafkaBroker, new_task: NewTask, group: str
) -> None:
    """A later commit of the group does not move the stream, unless it is reset to it, once."""
    task, start = new_task(source=2, preserve_timestamps=False), {"starting_offsets": {"group_id": group}}
    source = task.source
    produce(kafka, source, 0, 10)
    with pytest.raises(AirflowFailException, match=r"^BoundError: starting_offsets must name a consumer group"):
        task.run(Stream, **start)
    commit(group, source, {0: 3})
    task.run(Stream, **start)
    produce(kafka, source, 10, 12)
    commit(group, source, {0: 4, 1: 4})
    reset = {"reset_checkpoint_to": {"group_id": group}}
    for at, more in ((4, {}), (4, reset), (5, reset)):
        commit(group, source, {0: at, 1: at})
        task.store = TaskStateStore()
        task.run(Stream, **start, **more)

    copied = [*(set(range(12)) - {0, 2, 4}), 8, 9, 10, 11]
    assert Counter(int(value) for value in task.values().elements()) == Counter(copied)
