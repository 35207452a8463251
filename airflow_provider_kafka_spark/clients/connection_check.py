"""Airflow's connection test: name, port, TLS, login, permissions, one after the other, each within its bound."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from functools import cache
from threading import Thread
from typing import Any

from confluent_kafka.admin import AclOperation

from airflow_provider_kafka_spark.clients.connection.listener_probe import ask_all, find_listener_fault
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.permissions import unlisted_topics
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import Server, parse_servers
from airflow_provider_kafka_spark.core.errors import BrokerError, BrokerTlsError, KafkaSparkError

#: The step of an error at the login, if it is another one.
_STEPS: Mapping[type, str] = {BrokerTlsError: "TLS", BrokerError: "TCP"}
#: Limit of all steps together, whatever the clients and the resolver do.
WHOLE_SECONDS = 29.0
#: Limit of each step, so that a failed step is reported; DNS and TCP run once more for the advertised names of the
#: brokers.
_TCP_SECONDS = 4.0
LISTENER_SECONDS = 4.0
LOGIN_SECONDS = 8.0
_PERMISSION_SECONDS = 3.0
#: Number of topics whose permissions are queried.
_MAX_TOPICS = 100
#: Each of them is asked in a thread of its own.
_MAX_BROKERS = 20
#: A name that no topic has: brokers answer that the login may not see it, or that it does not exist.
_NO_TOPIC = "airflow-kafka-spark-connection-test"


def check_connection(conn_id: str) -> tuple[bool, str]:
    """Test a connection. If it fails, name the failed step of DNS, TCP, TLS, login and authorisation, and what to do.

    :param conn_id: Kafka connection.
    :return: whether it works, and a message without secrets, in less than 30 s.
    """
    client = KafkaClient(conn_id, timeout=LOGIN_SECONDS)
    passed = {"configuration": ""}
    try:
        config = client.config
    except KafkaSparkError as error:
        return False, _without_id(_failed(error, passed), conn_id)
    client.failures.quotes_client = False
    servers = parse_servers(config.bootstrap_servers)
    # Requested once, at the login.
    metadata = cache(client.metadata)
    steps: Mapping[str, Callable[[], str]] = {
        "DNS and TCP": lambda: _reach(servers),
        "login": lambda: _log_in(config, metadata),
        "TLS": lambda: _probe_listeners(config),
        "DNS and TCP of the brokers that the cluster names": lambda: _reach_brokers(metadata),
        "authorisation": lambda: _look_at_permissions(client, metadata),
    }
    try:
        passes, message = _in_time(client, lambda: _checked(steps, passed))
    except TimeoutError:
        late = _CheckFailedError(
            f"The test did not finish within its {WHOLE_SECONDS:.0f} s. Are the brokers overloaded, or the worker's "
            "DNS? Try again, or look at the brokers' logs."
        )
        return False, _failed(late, passed)
    return passes, _without_id(message, conn_id)


def _in_time(client: KafkaClient, check: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    """What a check returns, after which the client is closed.

    :raises TimeoutError: if it does not return within ``WHOLE_SECONDS``.
    """
    answer: Future[tuple[bool, str]] = Future()

    def run() -> None:
        with client:
            try:
                answer.set_result(check())
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                answer.set_exception(error)

    deadline = time.monotonic() + WHOLE_SECONDS
    # Neither a call of librdkafka nor the close of its client can be interrupted, and both may wait for the resolver.
    thread = Thread(target=run, name=f"connection test of {client.conn_id}", daemon=True)
    thread.start()
    found = answer.result(timeout=WHOLE_SECONDS)
    thread.join(max(0.0, deadline - time.monotonic()))
    return found


def _without_id(message: str, conn_id: str) -> str:
    """The message without the connection's id: Airflow tests a copy with a random one."""
    named = rf"connection {re.escape(repr(conn_id))}"
    message = re.sub(rf" \({named}\)", "", message)
    return re.sub(
        rf"\b(The |the )?{named}", lambda found: f"{'T' if found[1] == 'The ' else 't'}his connection", message
    )


def _checked(steps: Mapping[str, Callable[[], str]], passed: dict[str, str]) -> tuple[bool, str]:
    """Take one step after the other.

    :param passed: gets the result of each step; an empty one while it runs.
    """
    try:
        for step, check in steps.items():
            passed[step] = ""
            passed[step] = check()
    except (_CheckFailedError, KafkaSparkError) as error:
        return False, _failed(error, passed)
    return True, f"All is well. {_results(passed)}."


class _CheckFailedError(Exception):
    """A step failed; the message says what to do.

    :param step: the failed step, if it is another one.
    """

    def __init__(self, message: str, step: str | None = None) -> None:
        super().__init__(message)
        self.step = step


def _failed(error: Exception, passed: Mapping[str, str]) -> str:
    step = (error.step if isinstance(error, _CheckFailedError) else None) or [*passed][-1]
    before = f"Passed before: {_results(passed)}." if _results(passed) else ""
    return f"{step[:1].upper()}{step[1:]} failed. {error} {before}".rstrip()


def _results(passed: Mapping[str, str]) -> str:
    return "; ".join(f"{step}: {result}" for step, result in passed.items() if result)


def _reach(servers: Sequence[Server]) -> str:
    def connect(server: Server) -> None:
        socket.create_connection(server, _TCP_SECONDS).close()

    found = ask_all(servers, connect, _TCP_SECONDS)
    failed = {server: error for server, error in found.items() if isinstance(error, Exception)}
    away = ", ".join(map(str, [*failed][:5])) + (f" and {len(failed) - 5} more" if len(failed) > 5 else "")
    if len(failed) < len(found):
        return f"{len(found) - len(failed)} of {len(found)} brokers answer{f' (not {away})' if away else ''}"
    reasons = ", ".join(dict.fromkeys(getattr(error, "strerror", None) or str(error) for error in failed.values()))
    if all(isinstance(error, socket.gaierror) for error in failed.values()):
        raise _CheckFailedError(
            f"The worker knows no address of {away}: {reasons}. Correct the host names of the connection, or the "
            "worker's DNS.",
            step="DNS",
        )
    if all(isinstance(error, ConnectionRefusedError) for error in failed.values()):
        raise _CheckFailedError(
            f"Nothing listens at {away}: each connection is refused. Correct host and port, or start the brokers.",
            step="TCP",
        )
    raise _CheckFailedError(
        f"Nobody answers at {away}: {reasons}. Are the brokers up, the port right, and do the worker's DNS and "
        "firewalls lead there?",
        step="TCP",
    )


def _log_in(config: KafkaClientConfig, metadata: Callable[[], Any]) -> str:
    try:
        metadata()
    except BrokerError as error:
        raise _CheckFailedError(str(error), step=_STEPS.get(type(error))) from error
    return f"{config.user} by {config.mechanism}" if config.mechanism else "none, as the connection says"


def _probe_listeners(config: KafkaClientConfig) -> str:
    """The login was on one server; another one may have another certificate."""
    if not config.protocol.endswith("SSL"):
        return "none, as the connection says"
    fault = find_listener_fault(config, LISTENER_SECONDS)
    if fault is not None:
        raise _CheckFailedError(config.with_field_names(str(fault)))
    return "the brokers' certificates are good"


def _reach_brokers(metadata: Callable[[], Any]) -> str:
    """Clients connect to the advertised names of the brokers."""
    named = sorted(metadata().brokers.values(), key=lambda broker: broker.id)[:_MAX_BROKERS]
    brokers = [Server(broker.host, broker.port) for broker in named]
    try:
        return _reach(brokers)
    except _CheckFailedError as error:
        raise _CheckFailedError(f"{error} The names are those of advertised.listeners on the brokers.") from None


def _look_at_permissions(client: KafkaClient, metadata: Callable[[], Any]) -> str:
    client.timeout = _PERMISSION_SECONDS
    names = sorted(name for name in metadata().topics if not name.startswith("__"))[:_MAX_TOPICS]
    if not names:
        if unlisted_topics(client, [_NO_TOPIC]):
            raise _CheckFailedError(
                "The login sees no topic: it may DESCRIBE none of those that there are. Grant READ on the topics that "
                "are copied, and WRITE on those that are copied to; the documentation on permissions lists what "
                "each task needs."
            )
        return "the cluster has no topic yet"
    may = _permissions(client, names)
    readable, writable = (
        sum(operation in of_topic for of_topic in may) for operation in (AclOperation.READ, AclOperation.WRITE)
    )
    # Sensors need only to see a topic.
    return f"of {len(names)} topics that it sees it may read {readable} and write {writable}"


def _permissions(client: KafkaClient, names: Collection[str]) -> list[set[Any]]:
    futures = client.describe_topics(names, permissions=True)
    described = [client.result(future, f"describing topic {name!r}") for name, future in futures.items()]
    return [set(topic.authorized_operations or ()) for topic in described]
