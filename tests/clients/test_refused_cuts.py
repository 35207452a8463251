"""A topic that the login may not read hides the cuts of no other topic."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.clients import broker_poll
from airflow_provider_kafka_spark.clients.broker_poll import _cuts
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds, Reached


@pytest.mark.parametrize(("hidden", "requests"), [((), 1), (("t0",), 7), (("t2", "t7"), 11)])
def test_only_refused_topics_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, hidden: tuple[str, ...], requests: int
) -> None:
    """Of eight topics of two partitions, which all were cut; others than the refused ones are asked together."""
    asked: list[LogEnds] = []

    def find_cuts(_client: object, ends: LogEnds) -> dict[TopicPartition, int]:
        asked.append(ends)
        if refused := {p.topic for p in ends.offsets} & set(hidden):
            raise BrokerAuthorizationError(f"READ on topic {min(refused)!r}")
        return {p: offset - 5 for p, offset in ends.offsets.items() if ends.epochs[p] == 4}

    monkeypatch.setattr(broker_poll, "find_cuts", find_cuts)
    reached = [Reached(TopicPartition(f"t{i}", number), 20, 4) for i in range(8) for number in (0, 1)]
    states = {r.partition: PartitionState(0, 30, 30, 6) for r in reached}
    client: Any = None

    found = _cuts(client, reached, states)

    assert found == {r: 15 for r in reached if r.partition.topic not in hidden}
    assert len(asked) == requests
