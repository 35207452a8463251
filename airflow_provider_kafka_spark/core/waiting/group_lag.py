"""The rule of when a consumer group has caught up. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.broker_state import Selection
from airflow_provider_kafka_spark.core.errors import InvalidInputError, PlanError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.resolve import ReadRules
from airflow_provider_kafka_spark.core.waiting.facts import Facts, Needs, Verdict, check_missing_topic, present_topics
from airflow_provider_kafka_spark.core.waiting.parameters import (
    by_topic,
    is_read_committed,
    isolation_level_of,
    select_topics,
    topic_names,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A consumer group is at most so many offsets behind the end.

    A partition without a commit counts from the start of its log, as does one whose commit has aged out.

    :param per_partition: every partition, in place of all of them together.
    """

    selection: Selection
    group_id: str
    max_lag: int
    per_partition: bool = False
    rules: ReadRules = field(default_factory=ReadRules)
    missing_topic: str = "fail"

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        group_id: Any = None,
        max_lag: Any = None,
        per_partition: bool = False,
        isolation_level: Any = "read_committed",
        missing_topic: Any = "fail",
    ) -> GroupLag:
        """:raises InvalidInputError: naming the parameter that cannot be right."""
        if not isinstance(group_id, str) or not group_id.strip():
            raise InvalidInputError(f"group_id must be the name of a consumer group; got {group_id!r}.")
        return cls(
            select_topics(topics, None),
            group_id.strip(),
            whole_number(max_lag, "max_lag", least=0),
            per_partition,
            ReadRules(is_read_committed(isolation_level)),
            check_missing_topic(missing_topic),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "group_lag",
            "topics": list(self.selection.topics or ()),
            "group_id": self.group_id,
            "max_lag": self.max_lag,
            "per_partition": self.per_partition,
            "isolation_level": isolation_level_of(self.rules),
            "missing_topic": self.missing_topic,
        }

    def needs(self, now_ms: int) -> Needs:  # noqa: ARG002 - as the others
        return Needs(*topic_names(self.selection), group_id=self.group_id)

    def check(self, facts: Facts, now_ms: int) -> Verdict:  # noqa: ARG002 - as the others
        """:raises UnknownTopicError: if a topic does not exist and is not to be waited for.
        :raises PlanError: if a commit lies beyond the end: its topic was created again.
        """
        topics = present_topics(self.selection, facts, self.missing_topic)
        if isinstance(topics, str):
            return Verdict(False, f"Waiting for a topic: {topics}")
        committed = facts.group(self.group_id)
        lags: dict[TopicPartition, int] = {}
        for p, state in facts.partitions(topics).items():
            at = committed.get(p, state.log_start)
            if at > state.high_watermark:
                raise PlanError(
                    f"The commits of group {self.group_id!r} must not lie beyond the log; it has committed {at} of {p}, which ends at {state.high_watermark} (connection {facts.cluster.conn_id!r}). The topic was deleted and "
                    f"created again: reset the group's offsets."
                )
            lags[p] = max(0, self.rules.end_of(state) - max(at, state.log_start))
        total, largest = sum(lags.values()), max(lags.values(), default=0)
        judged, words = (largest, "in one partition") if self.per_partition else (total, "in all")
        return Verdict(
            judged <= self.max_lag,
            f"Group {self.group_id!r} is {judged:,} behind {words}, at most {self.max_lag:,} are wanted",
            value=by_topic(lags),
        )
