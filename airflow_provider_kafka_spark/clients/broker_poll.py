"""Fetch the answers to the queries of any number of sensors in one round of requests. Nothing is committed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import TopicDescription

from airflow_provider_kafka_spark.clients.consumer_group import committed_offsets
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient, is_transient, partition_numbers, topic_ids
from airflow_provider_kafka_spark.clients.log_cuts import find_cuts, find_cuts_of
from airflow_provider_kafka_spark.clients.permissions import unlisted_topics
from airflow_provider_kafka_spark.clients.topic_configs import topic_configs
from airflow_provider_kafka_spark.clients.topic_offsets import read_offsets
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerUnavailableError,
    KafkaSparkError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds, Reached

log = logging.getLogger(__name__)

Failures = dict[tuple[str, str], KafkaSparkError]


def fetch_snapshot(client: KafkaClient, queries: Collection[BrokerQuery]) -> BrokerSnapshot:
    """Send one request of each kind for all topics and partitions together, and one for each consumer group.

    Checkpoints are not read here: see :func:`~airflow_provider_kafka_spark.state.checkpoint.read_checkpoint`.

    :raises BrokerUnavailableError: if no broker answers within the time-out.
    :raises BrokerAuthenticationError: if the login is refused.
    :raises ConnectionConfigError: if the connection cannot be used.
    """
    wanted = set(queries)
    client.forget_errors()
    metadata = client.metadata()
    names = frozenset(metadata.topics)
    chosen = {query: query.selection.matching(names) for query in wanted}
    topics = {name for found in chosen.values() for name in found}
    failures = _unlisted_topics(client, wanted, names) | _faulty_topics(client, metadata, topics)
    # Before the offsets: if a topic is recreated in between, they are of one that the ids do not name.
    described = _described(client, topics - {name for _, name in failures})
    partitions = _all_partitions(client, metadata, described, topics, failures)
    # Commits first: on a live topic later requests return higher offsets, and a commit must not appear to be beyond the
    # end.
    committed = _commits(client, chosen, partitions, failures)
    stamps: dict[str, set[int]] = {name: set() for name in topics}
    for query, found in chosen.items():
        for name in found:
            stamps[name] |= query.timestamps
    with_newest = {name for query, found in chosen.items() if query.newest for name in found}
    offsets = read_offsets(client, partitions, stamps, with_newest, on_error=partial(_note, failures))
    with_configs = {name for query, found in chosen.items() if query.retention for name in found}
    configs = _configs(client, with_configs, failures)
    ids = topic_ids(described)
    return BrokerSnapshot(
        cluster=offsets.cluster_state(sorted(topics), metadata.cluster_id, client.conn_id, ids, configs),
        names=names,
        newest=offsets.newest,
        committed=committed,
        failures=failures,
        cut_at=_cuts(client, {reached for query in wanted for reached in query.reached}, offsets.states),
    )


def _unlisted_topics(client: KafkaClient, queries: Collection[BrokerQuery], names: Collection[str]) -> Failures:
    """The topics that are not listed and may exist."""
    failures: Failures = {}
    # Where a moment is searched, records are read.
    for operation, asking in (("DESCRIBE", queries), ("READ", [query for query in queries if query.timestamps])):
        not_listed = {name for query in asking for name in query.topics or ()}.difference(names)
        reasons = unlisted_topics(client, not_listed, operation)
        failures |= {("topic", name): reason for name, reason in reasons.items()}
    return failures


def _faulty_topics(client: KafkaClient, metadata: Any, topics: Collection[str]) -> Failures:
    """The topics that are listed with an error."""
    faulty = {name: error for name in sorted(topics) if (error := metadata.topics[name].error) is not None}
    return {
        ("topic", name): client.to_error(
            KafkaException(error), f"describing topic {name!r}", f"DESCRIBE on topic {name!r}"
        )
        for name, error in faulty.items()
    }


def _note(failures: Failures, topic: str, error: KafkaSparkError) -> None:
    """Remember what is about this topic alone."""
    if isinstance(error, UnknownTopicError):
        # It is listed: it was deleted meanwhile, or the leader does not know a new partition yet. The next list says.
        failures[("topic", topic)] = BrokerUnavailableError(str(error))
    elif isinstance(error, (BrokerUnavailableError, BrokerAuthenticationError)) and not is_transient(error):
        raise error
    else:
        failures[("topic", topic)] = error


def _cuts(
    client: KafkaClient, reached: Collection[Reached], states: Mapping[TopicPartition, PartitionState]
) -> dict[Reached, int]:
    """Where logs ended that were cut since they had reached an offset. Only partitions with another leader are asked.

    :raises BrokerUnavailableError: if a broker does not answer within the time-out.
    """
    asked = [r for r in reached if r.may_be_cut(states.get(r.partition))]
    return find_cuts_of(asked, partial(_readable_cuts, client))


def _readable_cuts(client: KafkaClient, ends: LogEnds) -> dict[TopicPartition, int]:
    """As ``find_cuts``, without topics that the login may not read: halves are asked again until these are alone."""
    try:
        return find_cuts(client, ends)
    except BrokerAuthorizationError as error:
        topics = sorted({p.topic for p in ends.offsets})
        if len(topics) == 1:
            log.info("It is not known whether logs of %s were cut: %s", topics[0], error)
            return {}
    found: dict[TopicPartition, int] = {}
    middle = len(topics) // 2
    for half in (set(topics[:middle]), set(topics[middle:])):
        offsets = {p: offset for p, offset in ends.offsets.items() if p.topic in half}
        found |= _readable_cuts(client, LogEnds(offsets, {p: ends.epochs[p] for p in offsets}))
    return found


def _commits(
    client: KafkaClient,
    chosen: Mapping[BrokerQuery, Collection[str]],
    partitions: Collection[TopicPartition],
    failures: Failures,
) -> dict[str, Mapping[TopicPartition, int]]:
    topics: dict[str, set[str]] = {}
    for query, names in chosen.items():
        if query.group_id is not None:
            topics.setdefault(query.group_id, set()).update(names)
    of_topic: dict[str, list[TopicPartition]] = {}
    for p in partitions:
        of_topic.setdefault(p.topic, []).append(p)
    wanted = {
        group_id: [p for name in sorted(names) for p in of_topic.get(name, ())] for group_id, names in topics.items()
    }
    committed: dict[str, Mapping[TopicPartition, int]] = {}
    for group_id, found in committed_offsets(client, wanted).items():
        if isinstance(found, dict):
            committed[group_id] = found
        else:
            # Not available for groups only: if all brokers are unavailable, the next request fails.
            failures["group", group_id] = found
    return committed


def _configs(client: KafkaClient, names: Collection[str], failures: Failures) -> dict[str, dict[str, str]]:
    """The configurations of topics, as far as the login may read them."""
    try:
        return topic_configs(client, sorted(names))
    except UnknownTopicError as error:
        # One was deleted since the metadata was read: the next round knows which.
        failures |= {("topic", name): BrokerUnavailableError(str(error)) for name in names}
        return {}


def _described(client: KafkaClient, names: Collection[str]) -> dict[str, TopicDescription]:
    """What brokers say of topics that are asked for by name, as far as they do."""
    described = {}
    for name, future in client.describe_topics(names).items():
        try:
            described[name] = client.result(future, f"describing topic {name!r}")
        except (BrokerAuthorizationError, BrokerUnavailableError, UnknownTopicError) as error:
            # What is about this topic alone, its offsets say too.
            if isinstance(error, BrokerUnavailableError) and not is_transient(error):
                raise
    return described


def _all_partitions(
    client: KafkaClient,
    metadata: Any,
    described: Mapping[str, TopicDescription],
    topics: Collection[str],
    failures: Failures,
) -> list[TopicPartition]:
    """The partitions of topics without a failure."""
    partitions = []
    for name in sorted(topics):
        if ("topic", name) in failures:
            continue
        numbers = partition_numbers(metadata.topics[name], described.get(name))
        if not numbers:
            failures["topic", name] = BrokerUnavailableError(
                f"The brokers must describe the partitions of {name!r}; they list it without any (connection "
                f"{client.conn_id!r}). A broker that has just started may not know them yet."
            )
        partitions += [TopicPartition(name, number) for number in numbers]
    return partitions
