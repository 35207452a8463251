"""The common part of all conditions: which topics they read, and how. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.checks import flag, is_read_committed
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot
from airflow_provider_kafka_spark.core.errors import InvalidInputError, UnknownTopicError
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules

MISSING_TOPIC = ("fail", "wait")


@dataclass(frozen=True, slots=True)
class TopicScope:
    """Which topics a condition reads, and how.

    :param selection: of topics or by a pattern.
    :param missing_topic: ``"fail"``, or ``"wait"`` until every topic exists.
    """

    selection: Selection
    rules: ReadRules
    missing_topic: str

    @classmethod
    def parse(
        cls,
        topics: Any,
        topic_pattern: Any = None,
        fail_on_data_loss: bool = True,
        /,
        *,
        isolation_level: Any = "read_committed",
        missing_topic: Any = "fail",
    ) -> TopicScope:
        """Parameters of every condition are passed by name. Those of some conditions are passed by position, so that
        the others refuse the name.

        :raises InvalidInputError: naming the parameter that cannot be right.
        """
        if missing_topic not in MISSING_TOPIC:
            raise InvalidInputError(
                f"missing_topic must be 'fail' or 'wait'; got {missing_topic!r}. With 'wait' a topic that does not "
                "exist yet is waited for."
            )
        rules = ReadRules(is_read_committed(isolation_level), flag(fail_on_data_loss, "fail_on_data_loss"))
        return cls(_select(topics, topic_pattern), rules, missing_topic)

    def to_json(self) -> dict[str, Any]:
        """The parameters of every condition, by name."""
        return {
            "topics": None if self.selection.topics is None else list(self.selection.topics),
            "isolation_level": "read_committed" if self.rules.read_committed else "read_uncommitted",
            "missing_topic": self.missing_topic,
        }

    @property
    def topics_or_pattern(self) -> tuple[tuple[str, ...] | None, str | None]:
        """One of the two, for the query."""
        topics = self.selection.topics
        return None if topics is None else tuple(topics), self.selection.pattern

    def present_topics(self, snapshot: BrokerSnapshot) -> tuple[str, ...] | str:
        """The topics to read, or a description of the topics to wait for.

        :raises UnknownTopicError: if a topic does not exist, or a pattern matches none, and that is not to be waited
            for.
        """
        try:
            return self.selection.topic_names(snapshot.asked_or_listed)
        except UnknownTopicError as error:
            if self.missing_topic == "wait":
                return str(error)
            raise UnknownTopicError(
                f"{error} (connection {snapshot.cluster.conn_id!r}) Create it, or pass missing_topic='wait' to wait "
                "until it is there."
            ) from error


def _select(topics: Any, pattern: Any) -> Selection:
    if topics is None and pattern is None:
        raise InvalidInputError(
            "Give topics=['orders'], or topic_pattern='orders\\..*' where a sensor takes one; got none."
        )
    if topics is not None and pattern is not None:
        raise InvalidInputError(
            f"Give exactly one of topics=['orders'] and topic_pattern='orders\\..*'; got {topics!r} and {pattern!r}."
        )
    selection = Selection(topics, pattern, None)
    return selection if topics is None else Selection(tuple(sorted(topics)), None, None)
