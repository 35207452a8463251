"""Fetch the answers to the queries of any number of sensors in one round of requests. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    ConsumerGroupError,
    KafkaSparkError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.hooks.checkpoint import finished_offsets
from airflow_provider_kafka_spark.hooks.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook, is_transient

Failures = dict[tuple[str, str], KafkaSparkError]


def read_checkpoint(location: str) -> Mapping[TopicPartition, int] | KafkaSparkError:
    """The finished offsets of a stream, or why they are unknown."""
    try:
        return finished_offsets(location)
    except KafkaSparkError as error:
        return error


def fetch_snapshot(hook: KafkaHook, queries: Collection[BrokerQuery]) -> BrokerSnapshot:
    """Send one request of each kind for all topics and partitions together, and one for each consumer group.

    Checkpoints are not read here: see :func:`read_checkpoint`.

    :raises BrokerUnavailableError: if no broker answers within the time-out.
    :raises BrokerAuthenticationError: if the login is refused.
    :raises ConnectionConfigError: if the connection cannot be used.
    """
    wanted = set(queries)
    hook.forget_errors()
    metadata = hook.metadata()
    names = frozenset(metadata.topics)
    failures: Failures = {}
    chosen = {query: query.selection.matching(names) for query in wanted}
    topics = {name for found in chosen.values() for name in found}
    not_listed = {name for query in wanted for name in query.topics or ()} - names
    failures |= {("topic", name): refusal for name, refusal in hook.unauthorized_topics(not_listed).items()}
    for name in sorted(topics):
        error = metadata.topics[name].error
        if error is not None:
            failures[("topic", name)] = hook.to_error(
                KafkaException(error), f"describing topic {name!r}", f"DESCRIBE on topic {name!r}"
            )
    partitions = [
        TopicPartition(name, number)
        for name in sorted(topics)
        if ("topic", name) not in failures
        for number in sorted(metadata.topics[name].partitions)
    ]
    round_ = _Round(hook, failures)
    # Commits first: on a live topic later requests return higher offsets, and a commit must not appear to be beyond the
    # end. The order of the other requests is that of KafkaHook.state().
    committed = _commits(hook, chosen, partitions, failures)
    now_ms = int(time.time() * 1000)
    end = round_.list_offsets(partitions, lambda _: [OffsetSpec.latest()])
    stamps: dict[str, set[int]] = {name: set() for name in topics}
    for query, found in chosen.items():
        for name in found:
            stamps[name] |= query.timestamps
    asked = {name: sorted(found) for name, found in stamps.items()}
    first_at: dict[tuple[TopicPartition, int], int | None] = {}
    for partition, answers in round_.list_offsets(
        partitions, lambda p: [OffsetSpec.for_timestamp(ms) for ms in asked[p.topic]]
    ).items():
        for epoch_ms, answer in zip(asked[partition.topic], answers, strict=True):
            first_at[(partition, epoch_ms)] = answer.offset if answer.offset >= 0 else None
    with_newest = {name for query, found in chosen.items() if query.newest for name in found}
    newest = round_.list_offsets(
        [p for p in partitions if p.topic in with_newest], lambda _: [OffsetSpec.max_timestamp()]
    )
    stable = round_.list_offsets(partitions, lambda _: [OffsetSpec.latest()], IsolationLevel.READ_COMMITTED)
    start = round_.list_offsets(partitions, lambda _: [OffsetSpec.earliest()])
    with_configs = {name for query, found in chosen.items() if query.retention for name in found}
    with_ids = {name for query, found in chosen.items() if query.identity for name in found}
    ids, configs = _ids(hook, with_ids), _configs(hook, with_configs, failures)
    states: dict[str, dict[int, PartitionState]] = {name: {} for name in topics - round_.vanished}
    for p in partitions:
        if p in start and p in stable and p in end:
            states[p.topic][p.partition] = PartitionState(start[p][0].offset, stable[p][0].offset, end[p][0].offset)
    return BrokerSnapshot(
        cluster=ClusterState(
            cluster_id=metadata.cluster_id or "",
            conn_id=hook.conn_id,
            now_ms=now_ms,
            topics={
                name: TopicState(name, ids.get(name), of_topic, configs.get(name, {}))
                for name, of_topic in states.items()
            },
            first_at=first_at,
        ),
        names=names - round_.vanished,
        newest={p: answers[0].timestamp if answers[0].offset >= 0 else None for p, answers in newest.items()},
        committed=committed,
        failures=failures,
    )


class _Round:
    """Requests for offsets. A failure for one topic is recorded, and the others continue."""

    def __init__(self, hook: KafkaHook, failures: Failures) -> None:
        self._hook = hook
        self._failures = failures
        self.vanished: set[str] = set()

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        specs: Callable[[TopicPartition], list[OffsetSpec]],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, list[ListOffsetsResultInfo]]:
        """The answers for every partition, in the order of its specs; a request takes one spec of each partition."""
        wanted = {p: specs(p) for p in partitions if not self._is_lost(p.topic)}
        found: dict[TopicPartition, list[ListOffsetsResultInfo]] = {p: [] for p in wanted}
        for layer in range(max(map(len, wanted.values()), default=0)):
            request = {
                confluent_kafka.TopicPartition(p.topic, p.partition): of_partition[layer]
                for p, of_partition in wanted.items()
                if layer < len(of_partition) and not self._is_lost(p.topic)
            }
            if not request:
                continue
            futures = self._hook.client.list_offsets(
                request, isolation_level=isolation, request_timeout=self._hook.timeout
            )
            for p, future in futures.items():
                try:
                    answer = self._hook.result(
                        future, f"listing offsets of {p.topic}[{p.partition}]", f"DESCRIBE on topic {p.topic!r}"
                    )
                except UnknownTopicError:
                    # Deleted since the metadata was read.
                    self.vanished.add(p.topic)
                except BrokerError as error:
                    if _concerns_all(error) and not is_transient(error):
                        raise
                    self._failures[("topic", p.topic)] = error
                else:
                    found[TopicPartition(p.topic, p.partition)].append(answer)
        return {p: answers for p, answers in found.items() if not self._is_lost(p.topic)}

    def _is_lost(self, topic: str) -> bool:
        return topic in self.vanished or ("topic", topic) in self._failures


def _commits(
    hook: KafkaHook,
    chosen: Mapping[BrokerQuery, Collection[str]],
    partitions: Collection[TopicPartition],
    failures: Failures,
) -> dict[str, Mapping[TopicPartition, int]]:
    topics: dict[str, set[str]] = {}
    for query, names in chosen.items():
        if query.group_id is not None:
            topics.setdefault(query.group_id, set()).update(names)
    committed: dict[str, Mapping[TopicPartition, int]] = {}
    away: BrokerUnavailableError | None = None
    for group_id, names in sorted(topics.items()):
        if away is not None:
            failures[("group", group_id)] = away
            continue
        try:
            committed[group_id] = ConsumerGroup(hook, group_id).committed([p for p in partitions if p.topic in names])
        except BrokerAuthenticationError:
            raise
        except (BrokerError, ConsumerGroupError) as error:
            # An unavailable coordinator affects groups only, and costs one time-out. If all brokers are unavailable,
            # the next request fails.
            failures[("group", group_id)] = error
            away = error if isinstance(error, BrokerUnavailableError) else None
    return committed


def _concerns_all(error: BrokerError) -> bool:
    return isinstance(error, (BrokerUnavailableError, BrokerAuthenticationError))


def _configs(hook: KafkaHook, names: Collection[str], failures: Failures) -> dict[str, dict[str, str]]:
    """The configurations of topics, as far as the login may read them."""
    try:
        return hook.configs(sorted(names))
    except UnknownTopicError as error:
        # One was deleted since the metadata was read: the next round knows which.
        failures |= {("topic", name): BrokerUnavailableError(str(error)) for name in names}
        return {}


def _ids(hook: KafkaHook, names: Collection[str]) -> dict[str, str]:
    """The ids of topics, as far as brokers return them."""
    ids: dict[str, str] = {}
    for name, future in hook.describe_topics(names).items():
        try:
            topic = hook.result(future, f"describing topic {name!r}")
        except (BrokerAuthorizationError, UnknownTopicError):
            continue
        if topic.topic_id is not None:
            ids[name] = str(topic.topic_id)
    return ids
