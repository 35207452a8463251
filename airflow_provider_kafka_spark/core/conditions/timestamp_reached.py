"""The condition that a window of timestamps is complete. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.checks import milliseconds
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.bounds import iso, parse_timestamp


@dataclass(frozen=True, slots=True)
class TimestampReached:
    """Every partition has a record at or after a moment, so that the window before it is complete.

    An idle partition counts as complete: its newest record, by timestamp, and the moment itself are both older than
    ``idle_ms``. An empty partition counts from the moment. Under ``read_committed`` no open transaction may lie before
    the moment's record, or anywhere in an idle partition.
    """

    scope: TopicScope
    epoch_ms: int
    idle_ms: int | None = None

    @classmethod
    def parse(
        cls, *, topics: Any = None, timestamp: Any = None, idle_after: Any = None, **common: Any
    ) -> TimestampReached:
        """:param common: as :meth:`TopicScope.parse` takes it by name.
        :raises InvalidInputError: naming the parameter that cannot be right.
        """
        return cls(
            TopicScope.parse(topics, **common),
            parse_timestamp(timestamp, "timestamp"),
            None if idle_after is None else milliseconds(idle_after, "idle_after"),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "timestamp_reached",
            **self.scope.to_json(),
            "timestamp": self.epoch_ms,
            "idle_after": None if self.idle_ms is None else self.idle_ms / 1000,
        }

    def query(self, now_ms: int) -> BrokerQuery:  # noqa: ARG002 - as the others
        return BrokerQuery(
            *self.scope.topics_or_pattern,
            timestamps=frozenset({self.epoch_ms}),
            newest=self.idle_ms is not None,
        )

    def check(self, snapshot: BrokerSnapshot, now_ms: int) -> ConditionResult:  # noqa: ARG002 - as the others
        """:raises UnknownTopicError: if a topic does not exist and is not to be waited for."""
        topics = self.scope.present_topics(snapshot)
        if isinstance(topics, str):
            return ConditionResult(False, f"Waiting for a topic: {topics}")
        ends: dict[TopicPartition, int] = {}
        idle: list[str] = []
        waiting: list[str] = []
        for p, state in snapshot.partitions(topics).items():
            first, stable = snapshot.cluster.first_at[(p, self.epoch_ms)], self.scope.rules.end_of(state)
            if first is not None and (not self.scope.rules.read_committed or first <= state.last_stable):
                ends[p] = first
            elif first is None and stable >= state.high_watermark and self._is_idle(p, snapshot):
                ends[p] = stable
                newest = snapshot.newest[p]
                idle.append(
                    f"{p} ({'empty' if newest is None else f'newest record {iso(newest)}'}, ends at {stable:,})"
                )
            else:
                hidden = "" if stable >= state.high_watermark else f", with an open transaction at {stable:,}"
                waiting.append(f"{p}{hidden}")
        if waiting:
            text = f"{len(waiting)} partitions have not reached {iso(self.epoch_ms)}: {shortened(waiting, most=8)}"
            return ConditionResult(False, text)
        return ConditionResult(
            True,
            f"All {len(ends)} partitions have reached {iso(self.epoch_ms)}",
            value=snapshot.known(topics).offsets(ends),
            warnings=tuple(
                f"{text} is idle for {(self.idle_ms or 0) / 1000:g} s and counts as complete; a record before "
                f"{iso(self.epoch_ms)} that arrives there later is late."
                for text in idle
            ),
        )

    def _is_idle(self, p: TopicPartition, snapshot: BrokerSnapshot) -> bool:
        if self.idle_ms is None:
            return False
        newest = snapshot.newest[p]
        last = self.epoch_ms if newest is None else max(newest, self.epoch_ms)
        return snapshot.now_ms - last >= self.idle_ms
