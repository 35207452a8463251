"""Which times brokers are asked for, and what their answers say of others, against a log that is searched in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from confluent_kafka.admin import ListOffsetsResultInfo

from airflow_provider_kafka_spark.clients.topic_offsets import _first_at
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition

_LARGEST = 2_000


class _Brokers:
    """What brokers answer, and how many requests were made.

    :param logs: the times of the records of each partition.
    """

    def __init__(self, logs: Mapping[TopicPartition, Sequence[int]]) -> None:
        self._logs, self.lost, self.asked = logs, set[str](), 0

    def ask_many(self, requests: Sequence[Mapping[TopicPartition, int]], _: object) -> list[dict[TopicPartition, Any]]:
        self.asked += len(requests)
        return [{p: self._answer(p, ms) for p, ms in request.items()} for request in requests]

    def _answer(self, p: TopicPartition, ms: int) -> ListOffsetsResultInfo:
        found = self.first(p, ms)
        return ListOffsetsResultInfo(-1 if found is None else found, -1 if found is None else self._logs[p][found], 0)

    def first(self, p: TopicPartition, ms: int) -> int | None:
        return next((offset for offset, time in enumerate(self._logs[p]) if time >= ms), None)


@pytest.mark.parametrize(
    ("records", "least", "most"),
    [
        ([], 1, 4),
        ([5, 3, _LARGEST, 9], 1, 8),
        (sorted(random.Random(1).sample(range(_LARGEST), 50)), 40, 150),
        (random.Random(2).choices(range(_LARGEST), k=1_000), 4, 100),
        (range(_LARGEST), 400, 400),
    ],
    ids=["none", "ahead", "in-order", "not-in-order", "one-of-each"],
)
def test_times_that_an_answer_decides_are_not_asked_for(records: Sequence[int], least: int, most: int) -> None:
    here, there = TopicPartition("orders", 0), TopicPartition("orders", 1)
    brokers, times = _Brokers({here: records, there: [0]}), random.Random(3).sample(range(_LARGEST), 400)

    found = _first_at(cast(Any, brokers), [here, there], {"orders": times, "other": []})

    assert found == {(p, ms): brokers.first(p, ms) for p in (here, there) for ms in times}
    assert least <= brokers.asked <= most
