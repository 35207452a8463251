"""Check before a job starts that the login may write transactions."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection.broker_failures import code_of, text_of
from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, BrokerError, OptionError
from airflow_provider_kafka_spark.core.runs.run_identity import PREFIX

#: It only makes the connection; the next call has the whole time.
_CONNECT_SECONDS = 2.0
_OTHERWISE = "Or pass delivery='at_least_once', which needs no transactions."
_NO_TRANSACTIONS = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.INVALID_REQUEST,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.INVALID_REPLICATION_FACTOR,
    }
)


def check_transactions(client: KafkaClient, timeout_ms: int, topic: str | None = None) -> None:
    """Open a transactional producer, and write nothing.

    :param client: to the target's cluster.
    :param timeout_ms: of the job's transactions.
    :param topic: one that exists. Its metadata are fetched first: with a broker that is connected the check takes some
        10 ms, while librdkafka otherwise looks again for one after 500 ms.
    :raises BrokerAuthorizationError: naming the missing ACL.
    :raises OptionError: if the brokers do not allow transactions of this length.
    :raises BrokerError: if they do not support transactions.
    """
    where = f"{client.config.bootstrap_servers} (connection {client.conn_id!r})"
    # A separate name, which fences no job, and which any login with the prefixed ACL may use.
    producer = client.producer(f"{PREFIX}check", timeout_ms)
    if topic is not None:
        with suppress(KafkaException):
            producer.list_topics(topic, min(client.timeout, _CONNECT_SECONDS))
    try:
        producer.init_transactions(client.timeout)
    except KafkaException as error:
        code = code_of(error)
        if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise BrokerAuthorizationError(
                f"The login of {where} needs WRITE on the transactional ids that begin with {PREFIX!r} (an ACL of the "
                f"pattern type prefixed): the job writes exactly once. Grant it; the documentation on permissions "
                "lists what each "
                f"task needs. {_OTHERWISE}"
            ) from error
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise OptionError(
                f"transaction.max.timeout.ms of the brokers must be at least {timeout_ms:,}, the time-out of the job's "
                f"transactions; {where} has less. Pass a smaller one, such as "
                f"sink_options={{'kafka.transaction.timeout.ms': 30000}}. {_OTHERWISE}"
            ) from error
        if code in _NO_TRANSACTIONS:
            raise BrokerError(
                f"The brokers must have transactions, to write exactly once; {where} began none: {text_of(error)}. "
                "Check transaction.state.log.* of the brokers; some managed services, such as the lower tiers of Azure "
                f"Event Hubs, have none. {_OTHERWISE}"
            ) from error
        raise client.to_error(error, "beginning a transaction", f"WRITE on transactional ids {PREFIX}*") from error
    try:
        ConsumerGroup(client, f"{PREFIX}check").check_commits()
    except BrokerAuthorizationError as error:
        raise BrokerAuthorizationError(
            f"The login of {where} needs READ on the groups that begin with {PREFIX!r} (an ACL of the pattern type "
            f"prefixed): the job commits its progress there. Grant it; the documentation on permissions lists what "
            "each task needs. "
            f"{_OTHERWISE}"
        ) from error
