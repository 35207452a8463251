"""Consecutive windows of any log take every record exactly once: planned in any order while the log grows, and compared
with a plain read of all of it.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.edge_timestamps import sample_timestamps
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics import record_search
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators import batch
from airflow_provider_kafka_spark.sensors.offsets import KafkaTimestampReachedSensor
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, task_context
from tests.operators.copy_task import Batch, NewTask, Stream, execute
from tests.raw_batches import cut_at
from tests.waiting import until

pytestmark = pytest.mark.broker

#: Months ago, so that markers and what a broker dates are later than every window.
NOON = 1_700_000_000_000
HOUR = 3_600_000
MOMENTS = [NOON + i * HOUR for i in range(1, 5)]
IN_MICROSECONDS = NOON * 1_000
KEPT = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


def plan(topics: list[str], start: int | None, end: int | None, start_by: str = "starting_timestamp") -> dict[str, Any]:
    window = {name: at for name, at in ((start_by, start), ("ending_timestamp", end)) if at is not None}
    # However far out of order the times are, and whatever was deleted.
    given = {"exact_window": False, "fail_on_data_loss": False, "allow_same_topic": True, **window}
    return execute(Batch(task_id="copy", topics=topics, target_topic=topics[0], plan_only=True, **given))


@dataclass
class Log:
    """A topic that grows by half an hour at a time, in its first two partitions."""

    kafka: KafkaBroker
    name: str
    kind: Kind
    rng: random.Random
    written: float = 0.0

    def grow(self) -> None:
        step = 0.12
        records = [
            Record(
                key=b"%d" % self.rng.randrange(20),
                value=b"v",
                partition=i % 2,
                timestamp=max(0, self.kind.time(self.rng, self.written + step * i / 24)),
            )
            for i in range(24)
        ]
        self.written += step
        if self.kind.in_transactions:
            self.kafka.produce_transaction(self.name, records, commit=self.rng.random() < 0.8)
        else:
            self.kafka.produce(self.name, records)
        self.kind.then(self)

    def records(self) -> list[Record]:
        return self.kafka.consume(self.name, isolation_level="read_uncommitted")


def _nothing(_: Log) -> None:
    """Nobody removes records."""


def _delete_some(log: Log) -> None:
    """Retention, or somebody by hand."""
    log.kafka.delete_records(log.name, {0: log.rng.randrange(log.kafka.offsets(log.name)[0][1])})


def _compact(log: Log) -> None:
    """The cleaner removes records of keys that came again, in all segments but the last one."""
    late = _in_order(log.rng, log.written)
    begin_a_segment = [Record(key=b"at %d" % late, value=b"v", partition=p, timestamp=late) for p in (0, 1)]
    log.kafka.produce(log.name, begin_a_segment)
    until(lambda: max(Counter((r.key, r.partition) for r in log.records()).values()) == 1, "the log is compacted")


def _in_order(_: random.Random, place: float) -> int:
    return NOON + int(place * 5 * HOUR)


@dataclass(frozen=True)
class Kind:
    """Of a log.

    :param time: of a record, in ms, by its place between 0 and 1 in all that will ever be written.
    :param walked: records that a search reads one after the other, before it goes on by halves.
    :param then: what happens after each time that it has grown.
    :param config: of the topic.
    """

    time: Callable[[random.Random, float], int]
    in_transactions: bool = False
    walked: int = 10_000
    has_any_order: bool = True
    then: Callable[[Log], None] = _nothing
    config: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "in-order": Kind(_in_order),
    "in-order-by-halves": Kind(_in_order, in_transactions=True, walked=4),
    "minutes-out-of-order": Kind(lambda rng, place: _in_order(rng, place) + int(rng.gauss(0, HOUR / 6)), walked=4),
    "late-ones": Kind(lambda rng, place: _in_order(rng, place * (1 if rng.random() < 0.8 else rng.random())), True),
    "in-the-future": Kind(lambda rng, at: IN_MICROSECONDS if rng.random() < 0.1 else _in_order(rng, at), walked=4),
    "equal": Kind(lambda _, place: NOON + int(place * 5) * HOUR, True),
    "none-in-the-windows": Kind(lambda *_: NOON + 30 * HOUR),
    "some-deleted": Kind(_in_order, True, 4, then=_delete_some),
    "compacted": Kind(
        _in_order,
        walked=4,
        then=_compact,
        config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"},
    ),
    "without-any-order": Kind(lambda rng, _: NOON + rng.randrange(5 * HOUR), True, 4, has_any_order=False),
}


def _kinds(*shorts: str) -> pytest.MarkDecorator:
    """All kinds of logs; those that are not named in the long ring: core's own tests have the rules for any times."""
    rows = [
        pytest.param(kind, id=name, marks=() if name in shorts else pytest.mark.long) for name, kind in KINDS.items()
    ]
    return pytest.mark.parametrize("kind", rows, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    monkeypatch.setattr(record_search, "MOST_WALKED", request.param.walked)
    return request.param


@_kinds("late-ones", "some-deleted", "without-any-order")
def test_every_record_is_in_exactly_one_window(
    kafka: KafkaBroker, topic: TopicFactory, request: pytest.FixtureRequest, kind: Kind
) -> None:
    """A window starts by either of two parameters; the third partition is empty."""
    rng = random.Random(request.node.name)
    log = Log(kafka, topic(3, {**KEPT, **kind.config}), kind, rng)
    windows = list(zip([None, *MOMENTS], [*MOMENTS, None], strict=True))
    # What ends at the latest record is the last one.
    order = [*rng.sample(windows[:-1], len(windows) - 1), windows[-1]]
    found: Counter[tuple[int, int]] = Counter()
    refused: list[str] = []
    for start, end in order:
        log.grow()
        try:
            ranges = plan([log.name], start, end, rng.choice(["starting_timestamp", "starting_offsets"]))["ranges"]
        except AirflowFailException as error:
            refused.append(str(error))
            continue
        found.update((r["partition"], offset) for r in ranges for offset in range(r["from_offset"], r["until_offset"]))

    there = {(r.partition, r.offset) for r in log.records()}
    if refused:
        assert not kind.has_any_order
        assert all("PlanError: A window must not end before it starts" in text for text in refused)
    else:
        assert {record: found[record] for record in there} == dict.fromkeys(there, 1)


@_kinds("in-the-future", "some-deleted")
def test_a_sensor_is_met_by_records_that_are_there(
    kafka: KafkaBroker, topic: TopicFactory, request: pytest.FixtureRequest, kind: Kind
) -> None:
    """Where times are in no order, it may wait for longer than it had to; it is never met too early."""
    log = Log(kafka, topic(2, {**KEPT, **kind.config}), kind, random.Random(request.node.name))
    latest = int(time.time() * 1000) + record_search.AHEAD_MS
    answers: Counter[bool] = Counter()
    for _ in range(5):
        log.grow()
        records = log.records()
        for moment in MOMENTS:
            sensor = KafkaTimestampReachedSensor(task_id="wait", topics=[log.name], timestamp=moment)
            answer = sensor.poke(task_context()) is not False  # type: ignore[arg-type]
            reached = {r.partition for r in records if moment <= r.timestamp <= latest}
            assert answer == (reached == {0, 1}) or (not kind.has_any_order and not answer)
            answers[answer] += 1
    assert answers[True] > 0


MOMENT = 1_790_000_000_000


def produce(kafka: KafkaBroker, name: str, start: int, end: int) -> None:
    kafka.produce(name, [Record(value=b"%d" % i, timestamp=MOMENT + i, partition=i % 2) for i in range(start, end)])


def planned(source: str, store: TaskStateStore | None = None, **parameters: Any) -> dict[str, Any]:
    """A target by name: to compile SQL, a plan starts Spark."""
    given = {"target_topic": source, "allow_same_topic": True, **parameters}
    operator = Batch(task_id="plan", topics=[source], plan_only=True, **given)
    operator.render_template_fields({})
    return execute(operator, store)


def ranges_of(source: str, store: TaskStateStore | None = None, **parameters: Any) -> list[tuple[int, int, int]]:
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
        ranges_of(source, store, **window)

    assert ranges_of(source, store, **window, exact_window="{{ 'false' }}") == [(0, 0, 102), (1, 0, 102)]
    assert ranges_of(source, **window, exact_window=True) == [(0, 0, 102), (1, 0, 102)]


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
        window = {"starting_timestamp": MOMENT + 50 * 60_000, "exact_window": exact}
        result = planned(source, **window, preserve_timestamps=False)

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
        ranges_of(source, starting_offsets=forms[0])

    commit(group, source, {0: 3})

    assert [ranges_of(source, starting_offsets=form) for form in forms] == [[(0, 3, 5), (1, 0, 5)]] * 2
    kafka.delete_records(source, {0: 4})
    with pytest.raises(AirflowFailException, match=r"^DataLossError"):
        ranges_of(source, starting_offsets=forms[0])


@pytest.mark.spark
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
    assert ranges_of(task.source, **start, target_topic=task.target) == [(0, 5, 5), (1, 5, 5)]
    assert task.run(Stream, **start, plan_only=True)["planned_records"] == 0


def test_a_moment_is_the_start_of_a_window(kafka: KafkaBroker, topic: TopicFactory) -> None:
    source = topic(2)
    produce(kafka, source, 0, 10)

    assert ranges_of(source, starting_offsets=str(MOMENT + 4)) == [(0, 2, 5), (1, 2, 5)]
    window = {"ending_timestamp": MOMENT + 8, "exact_window": True}
    assert ranges_of(source, starting_offsets={"timestamp": MOMENT + 4}, **window) == [(0, 2, 4), (1, 2, 4)]
    with pytest.raises(AirflowFailException, match="give one of the two"):
        ranges_of(source, starting_offsets={"group_id": "g"}, starting_timestamp=MOMENT)


@pytest.mark.long
@pytest.mark.spark
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


def test_a_window_begins_where_its_log_was_cut(other_broker: KafkaBroker, connection: Callable[..., None]) -> None:
    """The window before it ended at the end of the log. An unclean leader election has removed its last 4 records, and
    16 of the next hour have taken their offsets and those that follow.
    """
    connection("kafka_default", extra={"bootstrap.servers": other_broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")
    source = other_broker.create_topic("windows", config=KEPT)

    def window(start: int, **parameters: Any) -> tuple[int, int, str]:
        """From where to where the plan goes, and what it warns of."""
        result = planned(source, starting_timestamp=start, ending_timestamp=start + HOUR, **parameters)
        (only,) = result["ranges"]
        return only["from_offset"], only["until_offset"], str(result["warnings"])

    for _ in range(10):
        # Each in a batch of its own.
        other_broker.produce(source, [Record(value=b"v", timestamp=NOON)])
    assert window(NOON)[:2] == (0, 10)
    cut_at(other_broker, {source: 6})
    other_broker.produce(source, [Record(value=b"v", timestamp=NOON + HOUR)] * 16)

    start, end, warnings = window(NOON + HOUR)
    assert (start, end) == (6, 22)
    assert f"{source}[0] at 6 instead of 10" in warnings
    with pytest.raises(AirflowFailException, match=r"^DataLossError: .* 6 to 10: the log was cut at 6"):
        window(NOON)
    assert window(NOON, fail_on_data_loss=False)[:2] == (0, 6)
