"""Consecutive windows of any log take every record exactly once: planned in any order while the log grows, and compared
with a plain read of all of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core import record_search
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, task_context

pytestmark = pytest.mark.broker

#: Months ago, so that markers and what a broker dates are later than every window.
NOON = 1_700_000_000_000
HOUR = 3_600_000
MOMENTS = [NOON + i * HOUR for i in range(1, 5)]
IN_MICROSECONDS = NOON * 1_000
KEPT = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


def plan(topics: list[str], start: int | None, end: int | None, **parameters: Any) -> dict[str, Any]:
    given = {"starting_timestamp": start, "ending_timestamp": end, **parameters}
    operator = KafkaToKafkaBatchOperator(
        task_id="copy",
        topics=topics,
        target_topic=topics[0],
        allow_same_topic=True,
        plan_only=True,
        **{name: value for name, value in given.items() if value is not None},
    )
    return operator.execute(task_context(TaskStateStore()))


@dataclass
class Log:
    """A topic of three partitions, the last one empty, that grows by half an hour at a time."""

    kafka: KafkaBroker
    name: str
    time: Callable[[random.Random, float], int]
    in_transactions: bool
    rng: random.Random
    written: float = 0.0

    def grow(self) -> None:
        step = 0.12
        records = [
            Record(value=b"v", partition=i % 2, timestamp=max(0, self.time(self.rng, self.written + step * i / 24)))
            for i in range(24)
        ]
        self.written += step
        if self.in_transactions:
            self.kafka.produce_transaction(self.name, records, commit=self.rng.random() < 0.8)
        else:
            self.kafka.produce(self.name, records)

    def all_offsets(self) -> set[tuple[int, int]]:
        records = self.kafka.consume(self.name, isolation_level="read_uncommitted")
        return {(r.partition, r.offset) for r in records}


def _in_order(_: random.Random, place: float) -> int:
    return NOON + int(place * 5 * HOUR)


@dataclass(frozen=True)
class Kind:
    """Of a log.

    :param time: of a record, in ms, by its place between 0 and 1 in all that will ever be written.
    :param walked: records that a search reads one after the other, before it goes on by halves.
    """

    time: Callable[[random.Random, float], int]
    in_transactions: bool = False
    walked: int = 10_000
    has_any_order: bool = True


KINDS = {
    "in-order": Kind(_in_order),
    "in-order-by-halves": Kind(_in_order, in_transactions=True, walked=4),
    "minutes-out-of-order": Kind(lambda rng, place: _in_order(rng, place) + int(rng.gauss(0, HOUR / 6)), walked=4),
    "late-ones": Kind(lambda rng, place: _in_order(rng, place * (1 if rng.random() < 0.8 else rng.random())), True),
    "in-the-future": Kind(lambda rng, at: IN_MICROSECONDS if rng.random() < 0.1 else _in_order(rng, at), walked=4),
    "equal": Kind(lambda _, place: NOON + int(place * 5) * HOUR, True),
    "none-in-the-windows": Kind(lambda *_: NOON + 30 * HOUR),
    "without-any-order": Kind(lambda rng, _: NOON + rng.randrange(5 * HOUR), True, 4, has_any_order=False),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_record_is_in_exactly_one_window(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: Kind
) -> None:
    monkeypatch.setattr(record_search, "MOST_WALKED", kind.walked)
    rng = random.Random(request.node.name)
    log = Log(kafka, topic(3, KEPT), kind.time, kind.in_transactions, rng)
    windows = list(zip([None, *MOMENTS], [*MOMENTS, None], strict=True))
    # What ends at the latest record is the last one.
    order = [*rng.sample(windows[:-1], len(windows) - 1), windows[-1]]
    found: Counter[tuple[int, int]] = Counter()
    refused: list[str] = []
    for start, end in order:
        log.grow()
        try:
            ranges = plan([log.name], start, end)["ranges"]
        except AirflowFailException as error:
            refused.append(str(error))
            continue
        found.update((r["partition"], offset) for r in ranges for offset in range(r["from_offset"], r["until_offset"]))

    there = log.all_offsets()
    if refused:
        assert not kind.has_any_order
        assert all("PlanError: A window must not end before it starts" in text for text in refused)
    else:
        assert {record: found[record] for record in there} == dict.fromkeys(there, 1)
