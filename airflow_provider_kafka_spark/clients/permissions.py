"""Check what the login may do with topics and groups before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    UnknownTopicError,
)


def check_topics(client: KafkaClient, topics: Iterable[str], *operations: str) -> None:
    """Check permissions that would otherwise fail in Spark, with a message that names no operation.

    A topic that does not exist is ignored here.

    :param operations: such as ``"READ"``.
    :raises BrokerAuthorizationError: naming topic and operation.
    """
    for name, future in client.describe_topics(set(topics), permissions=True).items():
        required_acl = f"{' and '.join(operations)} on topic {name!r}"
        try:
            topic = client.result(future, f"describing topic {name!r}", required_acl)
        except UnknownTopicError:
            continue
        except BrokerError as error:
            if type(error) is BrokerError:
                continue
            raise
        check_operations(client, f"topic {name!r}", topic.authorized_operations, *operations)


def unlisted_topics(client: KafkaClient, names: Collection[str], operation: str = "DESCRIBE") -> dict[str, BrokerError]:
    """Which of the topics that are not listed may exist nevertheless, each with the reason why it is not listed.

    Any broker answers with a list; a request by name goes to the controller (``rd_kafka_DescribeTopics``), and returns
    what the login may not see as a refusal.

    :param names: of topics that a broker's list lacks.
    :raises BrokerUnavailableError: if no broker answers within the time-out.
    """
    reasons: dict[str, BrokerError] = {}
    for name, future in client.describe_topics(names).items():
        try:
            client.result(future, f"describing topic {name!r}", f"{operation} on topic {name!r}")
            reasons[name] = BrokerUnavailableError(
                f"All brokers must know the topic {name!r}; a list of topics lacks it, and a request by name finds it "
                f"(connection {client.conn_id!r}). A broker that has just started may not know all topics yet."
            )
        except BrokerAuthorizationError as refusal:
            reasons[name] = refusal
        except UnknownTopicError:
            # The caller reports it.
            continue
        except BrokerError as error:
            # Brokers also answer this for an illegal name. An outage or a refused login is not about the topic.
            if type(error) is not BrokerError:
                raise
    return reasons


def check_operations(client: KafkaClient, resource: str, permitted: Collection[Enum] | None, *operations: str) -> None:
    """:param resource: such as ``"topic 'orders'"``.
    :param permitted: as the broker returns it; None if it does not.
    :raises BrokerAuthorizationError: naming resource and operation.
    """
    names = {operation.name for operation in permitted or ()}
    lacking = [operation for operation in operations if operation not in names]
    if names and lacking:
        raise BrokerAuthorizationError(
            f"The login of {client.config.bootstrap_servers} (connection {client.conn_id!r}) lacks a permission: it "
            f"needs {' and '.join(lacking)} on {resource}, and has only {', '.join(sorted(names))}. Grant it; "
            "the documentation on permissions lists what each task needs."
        )
