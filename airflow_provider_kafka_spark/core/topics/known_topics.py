"""What the offsets of a result are of: ids of topics, which travel with ranges from task to task and are compared with
those of now. No I/O.

Kafka draws a topic's id at random, so the id tells a topic from one of the same name that was recreated, or that
another cluster has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.errors import OffsetRangeError
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import COUNT_KEYS, OffsetRange, TopicPartition, by_topic
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState

#: Keys of a range in a result: the id of its topic, or of its cluster if brokers return no ids of topics.
TOPIC_ID, CLUSTER_ID = "topic_id", "cluster_id"
#: Longer ones are no ids; Kafka's have 22 characters.
_LONGEST_ID = 100


def standard_id(topic_id: str) -> str:
    """A topic's id as librdkafka spells it: Kafka's Java client gives ids in Base64 for URLs.

    >>> standard_id("a-_b")
    'a+/b'
    """
    return topic_id.translate(str.maketrans("-_", "+/"))


def recreated(then: Mapping[str, str], now: Mapping[str, str | None]) -> dict[str, str]:
    """The topics of one cluster that were deleted and recreated, each with what has happened.

    :param then: ids by name, as the next one; either may be spelled as any of Kafka's clients does. Where one of the
        two is unknown or empty, nothing is said.
    """
    return {
        name: f"the topic {name!r} was deleted and recreated (topic id {topic_id}, now {now[name]})"
        for name, topic_id in then.items()
        if topic_id and standard_id(now.get(name) or topic_id) != standard_id(topic_id)
    }


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """What known offsets are of, as far as a result says it.

    :param topic_ids: by name.
    :param cluster_id: of the topics without an id; empty if unknown.
    :param unnamed: topics of a result that does not say their ids, as one of an older version.
    """

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str = ""
    unnamed: tuple[str, ...] = ()

    @classmethod
    def of(cls, topics: Iterable[str], topic_ids: Mapping[str, str], cluster_id: str) -> KnownTopics:
        """What the offsets of topics are of, by a result that should say it of each of them."""
        return cls(topic_ids, cluster_id, tuple(sorted(set(topics) - topic_ids.keys())))

    @classmethod
    def of_ranges(cls, ranges: Iterable[object], *, of_result: bool = False) -> KnownTopics:
        """
        :param ranges: as ``OffsetRange.parse`` takes them.
        :param of_result: they are of the result of a task, even if they do not look so.
        :raises OffsetRangeError: if an id is malformed, or a topic has two.
        """
        ids, clusters, unnamed = dict[str, str](), set[str](), set[str]()
        for value in rows_in(ranges):
            if not isinstance(value, Mapping):
                continue
            topic = str(value.get("topic"))
            topic_id, cluster_id = (_id_of(value, key) for key in (TOPIC_ID, CLUSTER_ID))
            if topic_id and ids.setdefault(topic, topic_id) != topic_id:
                raise OffsetRangeError(
                    f"The ranges of a topic must have one topic_id; {topic!r} has {ids[topic]} and {topic_id}: the "
                    "topic was deleted and recreated, or they are of two clusters. Give the ranges of one of them."
                )
            clusters |= {cluster_id} if cluster_id else set()
            if not topic_id and (of_result or cluster_id or value.keys() & COUNT_KEYS):
                unnamed.add(topic)
        if len(clusters) > 1:
            raise OffsetRangeError(
                f"Ranges must be of one cluster; got the cluster_ids {', '.join(sorted(clusters)[:5])}. Give the "
                "ranges of one of them."
            )
        return cls(ids, "".join(clusters), tuple(sorted(unnamed - ids.keys())))

    def marked(self, ranges: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ranges as a result has them, each with what its offsets are of."""
        of_cluster = {CLUSTER_ID: self.cluster_id} if self.cluster_id else {}
        ids = {name: {TOPIC_ID: topic_id} for name, topic_id in self.topic_ids.items() if topic_id}
        return [{**r, **ids.get(r["topic"], of_cluster)} for r in ranges]

    def dicts(self, ranges: Iterable[OffsetRange]) -> list[dict[str, Any]]:
        """The same, of ranges."""
        return self.marked(r.to_dict() for r in ranges)

    def offsets(self, offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, Any]]:
        """Offsets as a task returns them: by topic and partition, and what they are of.

        >>> KnownTopics({"orders": "id-1"}).offsets({TopicPartition("orders", 0): 23})
        {'orders': {'0': 23, 'topic_id': 'id-1'}}
        """
        ids = {name: {TOPIC_ID: topic_id} for name, topic_id in self.topic_ids.items() if topic_id}
        return {name: {**of_topic, **ids.get(name, {})} for name, of_topic in by_topic(offsets).items()}

    def changes(self, topics: Iterable[str], cluster: ClusterState) -> dict[str, str]:
        """Those of the topics that are others now, each with the reason.

        :param cluster: as it is now.
        """
        changes = {}
        for name in sorted(set(topics) & cluster.topics.keys()):
            then, now = self.topic_ids.get(name), cluster.topics[name].topic_id
            if then and now and then != now:
                changes[name] = (
                    f"the topic {name!r} has another id (then {then}, now {now}): it was deleted and recreated, or the "
                    f"connection {cluster.conn_id!r} leads to another cluster"
                )
            elif not then and self.cluster_id and cluster.cluster_id not in ("", self.cluster_id):
                changes[name] = (
                    f"the connection {cluster.conn_id!r} leads to another cluster (id {self.cluster_id}, now "
                    f"{cluster.cluster_id})"
                )
        return changes

    def unchecked(self, topics: Iterable[str], cluster: ClusterState) -> list[str]:
        """A warning if the id of one of the topics is not in its result, or brokers do not return it now."""
        without = {name for name in self.topic_ids if name in cluster.topics and not cluster.topics[name].topic_id}
        names = sorted(set(topics) & cluster.topics.keys() & (without | set(self.unnamed)))
        if not names:
            return []
        return [
            f"It is not checked whether {shortened(map(repr, names))} was deleted and recreated since a given result "
            "was made: the result, or the brokers, do not say its topic id."
        ]


def offsets_in(value: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """The offsets that :meth:`KnownTopics.offsets` gave."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, of_topic in value.items()
        for number, offset in of_topic.items()
        if number != TOPIC_ID
    }


def _id_of(value: Mapping[Any, Any], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > _LONGEST_ID:
        raise OffsetRangeError(
            f"{key} of a range must be the text that a result has there, such as 'pvoo7QRrQUqQbTSaHJYXVg'; got "
            f"{str(found)[:_LONGEST_ID]!r}. Leave it out to take the topic of this name, whatever it is now."
        )
    return found
