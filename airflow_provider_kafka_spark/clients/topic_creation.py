"""Create topics of a target's cluster, and wait until they can be written to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import cast

import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection.broker_failures import code_of, text_of
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    TargetError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.topics.new_topics import LEAVE_OUT, NewTopic

#: Answers that concern the topic, and not the brokers.
_REFUSALS = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REQUEST,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
    }
)
_MIN_IN_SYNC = "min.insync.replicas"
#: A controller takes at most 10,000 changes of its metadata in one request (``QuorumController``): one for each topic,
#: partition and setting.
_CHANGES_AT_ONCE = 4_000
#: Requests that are on their way at the same time.
_AT_ONCE = 100


def validated(client: KafkaClient, topics: Sequence[NewTopic], on_refused: str) -> list[NewTopic]:
    """Ask the brokers whether they would create the topics; none is created.

    :param on_refused: ``fail``, or ``leave_out`` for topics without the settings that the brokers refuse.
    :return: the topics as the brokers take them.
    :raises TargetError: naming what they refuse.
    :raises BrokerAuthorizationError: if the login may not create them.
    """
    brokers, taken = len(client.metadata().brokers), list[NewTopic]()
    for i in range(0, len(topics), _AT_ONCE):
        asked = [(topic, _validation(client, topic)) for topic in topics[i : i + _AT_ONCE]]
        taken += [_validated(client, topic, answer, on_refused, brokers) for topic, answer in asked]
    return taken


def create_topics(client: KafkaClient, topics: Sequence[NewTopic]) -> None:
    """Create topics, in as many requests as brokers need, and return when each partition has a leader. One that exists
    by now stays as it is.

    :raises BrokerUnavailableError: if there is none within the time-out.
    :raises TargetError: if a topic has fewer replicas than have to be in sync.
    """
    if not topics:
        return
    for some in _portions(topics):
        _create(client, some)
    _wait_for_leaders(client, {topic.name: topic for topic in topics})


def _portions(topics: Iterable[NewTopic]) -> Iterator[list[NewTopic]]:
    portion, changes = list[NewTopic](), 0
    for topic in topics:
        own = 1 + topic.partitions + len(topic.config)
        if portion and changes + own > _CHANGES_AT_ONCE:
            yield portion
            portion, changes = [], 0
        portion.append(topic)
        changes += own
    yield portion


def _create(client: KafkaClient, topics: Sequence[NewTopic]) -> None:
    requests = [_request(topic) for topic in topics]
    futures = client.client.create_topics(requests, request_timeout=client.timeout, operation_timeout=client.timeout)
    for topic in topics:
        try:
            client.result(futures[topic.name], f"creating topic {topic.name!r}", _acl(topic))
        except (BrokerError, UnknownTopicError) as error:
            # Another task made it meanwhile.
            if code_of(error.__cause__) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _refusal(client, topic, error) from error


def _validated(client: KafkaClient, topic: NewTopic, answer: Future[None], on_refused: str, brokers: int) -> NewTopic:
    refused: dict[str, str] = {}
    if int(topic.config.get(_MIN_IN_SYNC, 1)) > brokers:
        # Brokers take it, and then no record.
        refused[_MIN_IN_SYNC] = f"the cluster has {brokers} brokers"
    error = _validation_error(client, topic, answer)
    if error is not None and code_of(error.__cause__) == KafkaError.INVALID_CONFIG:
        for name, value in topic.config.items():
            only = NewTopic(topic.name, topic.partitions, {name: value})
            of_one = _validation_error(client, only, _validation(client, only))
            if of_one is not None and code_of(of_one.__cause__) == KafkaError.INVALID_CONFIG:
                refused[name] = _reason(of_one)
    if refused and on_refused == LEAVE_OUT:
        rest = topic.without(refused)
        error = _validation_error(client, rest, _validation(client, rest)) if error is not None else None
        if error is None:
            return rest
    elif refused:
        shown = "; ".join(f"{name}={topic.config[name]} ({reason})" for name, reason in sorted(refused.items()))
        raise TargetError(
            f"The target topic {topic.name!r} cannot be created with the settings of its source on the cluster of "
            f"connection {client.conn_id!r}, which refuses {shown}. Create the topic yourself, or pass "
            "on_refused_config='leave_out'."
        )
    if error is not None:
        raise _refusal(client, topic, error) from error
    return topic


def _validation(client: KafkaClient, topic: NewTopic) -> Future[None]:
    """A request that creates nothing."""
    futures = client.client.create_topics([_request(topic)], validate_only=True, request_timeout=client.timeout)
    return cast("Future[None]", futures[topic.name])


def _validation_error(
    client: KafkaClient, topic: NewTopic, answer: Future[None]
) -> BrokerError | UnknownTopicError | None:
    """What the brokers have against the topic; None if they would create it, or it exists now."""
    try:
        client.result(answer, f"checking whether topic {topic.name!r} can be created", _acl(topic))
    except (BrokerUnavailableError, BrokerAuthorizationError):
        raise
    except (BrokerError, UnknownTopicError) as error:
        return None if code_of(error.__cause__) == KafkaError.TOPIC_ALREADY_EXISTS else error
    return None


def _refusal(
    client: KafkaClient, topic: NewTopic, error: BrokerError | UnknownTopicError
) -> BrokerError | UnknownTopicError | TargetError:
    if code_of(error.__cause__) not in _REFUSALS:
        return error
    reason = _reason(error)
    advice = "Create it yourself, and leave create_target_topics as it is: an existing topic is used unchanged."
    if "collides" in reason:
        advice = "Choose another name: Kafka has no two topics that differ only in dots and underscores."
    return TargetError(
        f"The target topic {topic.name!r} must be one that the brokers of connection {client.conn_id!r} create; they "
        f"refuse it with {topic.partitions:,} partitions and {dict(topic.config)}: {reason}. {advice}"
    )


def _reason(error: Exception) -> str:
    cause = error.__cause__
    return (text_of(cause) if isinstance(cause, KafkaException) else str(error))[:300]


def _request(topic: NewTopic) -> confluent_kafka.admin.NewTopic:
    # The number of replicas is the default of the target's brokers.
    return confluent_kafka.admin.NewTopic(
        topic.name, num_partitions=topic.partitions, replication_factor=-1, config=dict(topic.config)
    )


def _acl(topic: NewTopic) -> str:
    return f"CREATE on topic {topic.name!r}"


def _wait_for_leaders(client: KafkaClient, topics: Mapping[str, NewTopic]) -> None:
    deadline, wait, fewest = time.monotonic() + client.timeout, 0.05, len(topics)
    while True:
        found = client.metadata().topics
        waiting = [
            name
            for name in topics
            if name not in found
            or not found[name].partitions
            or any(p.leader < 0 for p in found[name].partitions.values())
        ]
        if not waiting:
            break
        if len(waiting) < fewest:
            deadline, fewest = time.monotonic() + client.timeout, len(waiting)
        if time.monotonic() >= deadline:
            raise BrokerUnavailableError(
                f"The new target topic {waiting[0]!r} must have a leader for each partition within "
                f"{client.timeout:.0f} s; it has none (connection {client.conn_id!r}). A retry finds it created."
            )
        time.sleep(wait)
        wait = min(wait * 2, 1.0)
    for name, topic in topics.items():
        replicas = min(len(p.replicas) for p in found[name].partitions.values())
        if int(topic.config.get(_MIN_IN_SYNC, 1)) > replicas:
            raise TargetError(
                f"The new target topic {name!r} takes no records: {_MIN_IN_SYNC}={topic.config[_MIN_IN_SYNC]} is that "
                f"of its source, and default.replication.factor of its brokers gives it {replicas} replicas. Add "
                f"replicas, or set {_MIN_IN_SYNC} of the topic, and clear the task."
            )
