"""The condition that a consumer group has caught up. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.checks import check_group_id, flag, whole_number
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition, by_topic


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a consumer group is at most ``max_lag`` offsets.

    A partition without a commit, or with an aged-out commit, counts from the start of its log.

    :param per_partition: compare every partition alone, not the sum.
    """

    scope: TopicScope
    group_id: str
    max_lag: int
    per_partition: bool = False

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        group_id: Any = None,
        max_lag: Any = None,
        per_partition: bool = False,
        **common: Any,
    ) -> GroupLag:
        """:param common: as :meth:`TopicScope.parse` takes it by name.
        :raises InvalidInputError: naming the parameter that cannot be right.
        """
        return cls(
            TopicScope.parse(topics, **common),
            check_group_id(group_id, "group_id"),
            whole_number(max_lag, "max_lag", minimum=0),
            flag(per_partition, "per_partition"),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "group_lag",
            **self.scope.to_json(),
            "group_id": self.group_id,
            "max_lag": self.max_lag,
            "per_partition": self.per_partition,
        }

    def query(self, now_ms: int) -> BrokerQuery:  # noqa: ARG002 - as the others
        return BrokerQuery(*self.scope.topics_or_pattern, group_id=self.group_id)

    def check(self, snapshot: BrokerSnapshot, now_ms: int) -> ConditionResult:  # noqa: ARG002 - as the others
        """:raises UnknownTopicError: if a topic does not exist and is not to be waited for.
        :raises PlanError: if a commit lies beyond the end: its topic was recreated.
        """
        topics = self.scope.present_topics(snapshot)
        if isinstance(topics, str):
            return ConditionResult(False, f"Waiting for a topic: {topics}")
        committed = snapshot.group(self.group_id)
        lags: dict[TopicPartition, int] = {}
        for p, state in snapshot.partitions(topics).items():
            at = committed.get(p, state.log_start)
            if at > state.high_watermark:
                raise PlanError(
                    f"The commits of group {self.group_id!r} must not lie beyond the log; it has committed {at} of "
                    f"{p}, which ends at {state.high_watermark} (connection {snapshot.cluster.conn_id!r}). The topic "
                    "was deleted and recreated: reset the group's offsets."
                )
            lags[p] = max(0, self.scope.rules.end_of(state) - max(at, state.log_start))
        total, largest = sum(lags.values()), max(lags.values(), default=0)
        judged, words = (largest, "in one partition") if self.per_partition else (total, "in all")
        return ConditionResult(
            judged <= self.max_lag,
            f"Group {self.group_id!r} is {judged:,} behind {words}, at most {self.max_lag:,} are wanted",
            value=by_topic(lags),
        )
