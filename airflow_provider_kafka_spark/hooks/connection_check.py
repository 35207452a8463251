"""Airflow's connection test: name, port, TLS, login, permissions, one after the other, each within its bound."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from datetime import datetime, timezone
from functools import cache
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka.admin import AclOperation

from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import Server, parse_servers
from airflow_provider_kafka_spark.core.connection.faults import LoginFault, of_expired_certificate
from airflow_provider_kafka_spark.core.errors import BrokerTlsError, KafkaSparkError
from airflow_provider_kafka_spark.hooks.connection.listener_probe import ask_each, probe_listener
from airflow_provider_kafka_spark.hooks.kafka_client import KafkaClient

T = TypeVar("T")

#: Limit of all steps together, whatever the clients and the resolver do.
WHOLE_SECONDS = 29.0
#: Limit of each step, so that a failed step is reported; DNS and TCP run once more for the advertised names of the
#: brokers.
_DNS_SECONDS = 3.0
_TCP_SECONDS = 4.0
LISTENER_SECONDS = 4.0
LOGIN_SECONDS = 8.0
_PERMISSION_SECONDS = 3.0
#: Number of topics whose permissions are queried.
_MOST_TOPICS = 100
#: A name that no topic has: brokers answer that the login may not see it, or that it does not exist.
_NO_TOPIC = "airflow-kafka-spark-connection-test"


def check_connection(conn_id: str) -> tuple[bool, str]:
    """Test a connection. If it fails, name the failed step of DNS, TCP, TLS, login and authorisation, and what to do.

    :param conn_id: Kafka connection.
    :return: whether it works, and a message without secrets, in less than 30 s.
    """
    hook = KafkaClient(conn_id, timeout=LOGIN_SECONDS)
    try:
        config = hook.config
    except KafkaSparkError as error:
        return False, _failed("configuration", error, [])
    servers = parse_servers(config.bootstrap_servers)
    # Requested once, at the login.
    metadata = cache(hook.metadata)
    steps: Mapping[str, Callable[[], str]] = {
        "DNS": lambda: _look_up(servers),
        "TCP": lambda: _connect(servers),
        "TLS": lambda: _speak(hook),
        "login": lambda: _log_in(config, metadata),
        "DNS and TCP of the brokers that the cluster names": lambda: _reach_brokers(metadata),
        "authorisation": lambda: _look_at_permissions(hook, metadata),
    }
    answer: Future[tuple[bool, str]] = Future()
    reached: list[str] = ["configuration"]
    passed: list[str] = []

    def check() -> None:
        with hook:
            try:
                answer.set_result(_checked(steps, reached, passed))
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                answer.set_exception(error)

    deadline = time.monotonic() + WHOLE_SECONDS
    # Neither a call of librdkafka nor the close of its client can be interrupted, and both may wait for the resolver.
    thread = Thread(target=check, name=f"connection test of {conn_id}", daemon=True)
    thread.start()
    try:
        found = answer.result(timeout=WHOLE_SECONDS)
    except TimeoutError:
        late = _CheckFailedError(
            f"The test did not finish within its {WHOLE_SECONDS:.0f} s. Are the brokers overloaded, or the worker's "
            "DNS? Try again, or look at the brokers' logs."
        )
        return False, _failed(reached[-1], late, passed)
    thread.join(max(0.0, deadline - time.monotonic()))
    return found


def _checked(steps: Mapping[str, Callable[[], str]], reached: list[str], passed: list[str]) -> tuple[bool, str]:
    """Take one step after the other.

    :param reached: gets the name of each started step.
    :param passed: gets the result of each step.
    """
    try:
        for step, check in steps.items():
            reached.append(step)
            passed.append(f"{step}: {check()}")
    except BrokerTlsError as error:
        return False, _failed("TLS", error, passed)
    except _CheckFailedError as error:
        return False, _failed(error.step or reached[-1], error, passed)
    except KafkaSparkError as error:
        return False, _failed(reached[-1], error, passed)
    return True, f"All is well. {'; '.join(passed)}."


class _CheckFailedError(Exception):
    """A step failed; the message says what to do.

    :param step: the failed step, if it is another one.
    """

    def __init__(self, message: str, step: str | None = None) -> None:
        super().__init__(message)
        self.step = step


def _failed(step: str, error: Exception, passed: list[str]) -> str:
    before = f"Passed before: {'; '.join(passed)}." if passed else ""
    return f"{step[:1].upper()}{step[1:]} failed. {error} {before}".rstrip()


def _look_up(servers: Sequence[Server]) -> str:
    found = _all(servers, lambda server: socket.getaddrinfo(*server, type=socket.SOCK_STREAM), _DNS_SECONDS)
    unknown = [server.host for server, answer in found.items() if isinstance(answer, Exception)]
    if len(unknown) == len(found):
        raise _CheckFailedError(
            f"The worker knows no address of {_listed(unknown)}: {_reasons(found)}. Correct the host names of the "
            "connection, or the worker's DNS."
        )
    addresses = {str(answer[0][4][0]) for answer in found.values() if not isinstance(answer, Exception)}
    return f"{_listed(sorted(addresses))}{_except(unknown)}"


def _connect(servers: Sequence[Server]) -> str:
    def connect(server: Server) -> None:
        socket.create_connection(server, _TCP_SECONDS).close()

    found = _all(servers, connect, _TCP_SECONDS)
    away = [str(server) for server, answer in found.items() if isinstance(answer, Exception)]
    if len(away) == len(found):
        raise _CheckFailedError(
            f"Nobody answers at {_listed(away)}: {_reasons(found)}. Are the brokers up, the port right, and does a "
            "firewall let the worker through?"
        )
    return f"{len(found) - len(away)} of {len(found)} brokers answer{_except(away)}"


def _speak(hook: KafkaClient) -> str:
    """TLS, and whether the listeners have the security protocol of the connection."""
    config, deadline = hook.config, time.monotonic() + LISTENER_SECONDS
    servers = parse_servers(config.bootstrap_servers)
    found = _all(servers, lambda server: probe_listener(config, server, deadline), LISTENER_SECONDS)
    with_tls = config.protocol.endswith("SSL")
    if all(isinstance(answer, Exception) for answer in found.values()):
        raise _CheckFailedError(
            f"Nobody speaks {'TLS' if with_tls else 'Kafka'} at {_listed([str(server) for server in found])}: "
            f"{_reasons(found)}. Is it the port of a Kafka broker?",
            step="TLS" if with_tls else "TCP",
        )
    for server, answer in found.items():
        if isinstance(answer, LoginFault):
            fault = of_expired_certificate(answer, config.certificate_expires_at, datetime.now(timezone.utc))
            raise _CheckFailedError(f"{config.with_field_names(str(fault))} (Broker {server}.)", step=fault.step)
    if not with_tls:
        return "none, as the connection says"
    return "the brokers' certificates are good" + (
        ", and they take the client's" if config.certificate_expires_at else ""
    )


def _log_in(config: KafkaClientConfig, metadata: Callable[[], Any]) -> str:
    metadata()
    return f"{config.user} by {config.mechanism}" if config.mechanism else "none, as the connection says"


def _reach_brokers(metadata: Callable[[], Any]) -> str:
    """Clients connect to the advertised names of the brokers."""
    brokers = [Server(broker.host, broker.port) for broker in metadata().brokers.values()]
    try:
        _look_up(brokers)
        return _connect(brokers)
    except _CheckFailedError as error:
        raise _CheckFailedError(f"{error} The names are those of advertised.listeners on the brokers.") from None


def _look_at_permissions(hook: KafkaClient, metadata: Callable[[], Any]) -> str:
    hook.timeout = _PERMISSION_SECONDS
    names = sorted(name for name in metadata().topics if not name.startswith("__"))[:_MOST_TOPICS]
    if not names:
        if hook.unauthorized_topics([_NO_TOPIC]):
            raise _CheckFailedError(
                "The login sees no topic: it may DESCRIBE none of those that there are. Grant READ on the topics that "
                "are copied, and WRITE on those that are copied to; docs/reference/permissions.md lists what "
                "each task needs."
            )
        return "the cluster has no topic yet"
    may = _permissions(hook, names)
    readable, writable = (
        sum(operation in of_topic for of_topic in may) for operation in (AclOperation.READ, AclOperation.WRITE)
    )
    # Sensors need only to see a topic.
    return f"of {len(names)} topics that it sees it may read {readable} and write {writable}"


def _permissions(hook: KafkaClient, names: Collection[str]) -> list[set[Any]]:
    futures = hook.describe_topics(names, permissions=True)
    described = [hook.result(future, f"describing topic {name!r}") for name, future in futures.items()]
    return [set(topic.authorized_operations or ()) for topic in described]


def _all(servers: Sequence[Server], call: Callable[[Server], T], seconds: float) -> dict[Server, T | Exception]:
    """Query all at once; a server that does not answer in time gets a :class:`TimeoutError`."""
    silent = TimeoutError(f"no answer within {seconds:.0f} s")
    return {**dict.fromkeys(servers, silent), **dict(ask_each(servers, call, seconds))}


def _reasons(found: dict[Server, Any]) -> str:
    reasons = (getattr(error, "strerror", None) or str(error) for error in found.values())
    return ", ".join(dict.fromkeys(reasons))


def _except(failed: list[str]) -> str:
    return f" (not {_listed(failed)})" if failed else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
