"""Translate failures of confluent-kafka into errors of this package."""

from __future__ import annotations

import re
import socket
import time
from datetime import datetime, timezone

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection.listener_probe import ask_all, find_listener_fault
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import parse_servers
from airflow_provider_kafka_spark.core.connection.faults import (
    LOGIN,
    LoginFault,
    find_login_fault,
    of_expired_certificate,
    worst_login_fault,
)
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.secrets import without_token_answer
from airflow_provider_kafka_spark.core.shown_text import one_line

_AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_REFUSED = _AUTHENTICATION | {KafkaError._SSL}
_AUTHORIZATION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_UNREACHABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
    }
)
#: Transient errors while leaders move: in a rolling restart, and just after a topic was created.
LEADER_ELECTION_ERRORS = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        # librdkafka's own answer where no partition has a leader.
        KafkaError._NOENT,
    }
)
#: What a client finds wrong with one record: damage, an unknown codec, or that it unpacks to more than 100 MB.
UNREADABLE = frozenset(
    {
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNDERFLOW,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)
_LOGIN_REFUSED = LoginFault(
    LOGIN, "The broker refused the login.", "Check security.protocol, sasl.mechanism and the login of the connection."
)
#: Seconds to probe brokers for the reason of a failure.
_PROBE_SECONDS = 3.0
_PROBE_AGAIN_SECONDS = 2.0
#: A port where nothing listens refuses within a round trip.
_CONNECT_SECONDS = 1.0


class BrokerFailures:
    """The background errors of one connection's clients, and the error for a failure that they explain.

    :param config: the connection.
    """

    def __init__(self, config: KafkaClientConfig) -> None:
        #: Whether messages end with the client's own text.
        self.quotes_client = True
        self._config = config
        self._errors: list[KafkaError] = []
        self._asked: tuple[float, LoginFault | None] | None = None

    def add(self, error: KafkaError) -> None:
        """The clients' ``error_cb``."""
        self._errors.append(error)

    def forget(self) -> None:
        """Forget earlier errors, which are not the cause of later failures."""
        self._errors.clear()
        self._asked = None

    def is_final(self, waited: float, timeout: float) -> bool:
        """Return whether further waiting for a first answer cannot succeed.

        :param waited: seconds until now; a server that does not answer gets at least half of the time-out.
        """
        fault = self._fault(timeout)
        return fault is not None and (not fault.transient or waited > timeout / 2)

    def nothing_listens(self) -> bool:
        """Return whether every bootstrap server refuses connections now."""
        servers = parse_servers(self._config.bootstrap_servers)
        answers = ask_all(servers, lambda server: socket.create_connection(server, _CONNECT_SECONDS), _CONNECT_SECONDS)
        for answer in answers.values():
            if isinstance(answer, socket.socket):
                answer.close()
        return all(isinstance(answer, ConnectionRefusedError) for answer in answers.values())

    def refusal(self, action: str) -> BrokerUnavailableError:
        """The error for a first contact with servers where nothing listens.

        :param action: of the request, for the message.
        """
        return BrokerUnavailableError(
            f"Nothing listens at {self._config.bootstrap_servers} (connection {self._config.conn_id!r}): each "
            f"connection was refused while {action}. Correct host and port, or start the brokers."
        )

    def to_error(
        self, error: Exception, action: str, timeout: float, required_acl: str | None = None
    ) -> BrokerError | UnknownTopicError:
        """The failure as an error of this package.

        :param action: of the request, for the message.
        :param timeout: of the request, in seconds.
        :param required_acl: the required permission, such as ``"READ on topic 'orders'"``.
        """
        code = code_of(error)
        where = f"{self._config.bootstrap_servers} (connection {self._config.conn_id!r})"
        said = "; ".join(dict.fromkeys(without_token_answer(e.str()) for e in self._errors[-3:]))
        said = one_line(said or without_token_answer(text_of(error)))
        quoted = f": {said}" if self.quotes_client else ""
        fault = self._fault(timeout) if code in _UNREACHABLE | _REFUSED else None
        if fault is None and code in _AUTHENTICATION:
            fault = find_login_fault(text_of(error)) or _LOGIN_REFUSED
        if fault is not None:
            message = f"{fault} Got from {where} while {action}{quoted}."
            return fault.error(self._config.with_field_names(message))
        if code in _AUTHORIZATION:
            return BrokerAuthorizationError(
                f"The login of {where} lacks a permission while {action}{quoted}. "
                f"{f'It needs {required_acl}. ' if required_acl else ''}The documentation on permissions lists what "
                "each task needs."
            )
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return UnknownTopicError(f"A topic vanished from {where} while {action}{quoted}.")
        if code in _UNREACHABLE:
            return BrokerUnavailableError(
                f"No broker of {where} answered within {timeout:.0f} s while {action}{quoted}. Check that the brokers "
                "are up and reachable from the worker, and that security.protocol matches their listener."
            )
        if code in LEADER_ELECTION_ERRORS:
            return BrokerUnavailableError(
                f"{where} had no leader for it within {timeout:.0f} s while {action}{quoted}. Check that the brokers "
                "are up; the task may be tried again."
            )
        return BrokerError(f"{where} failed while {action}: {said if self.quotes_client else _bare(said)}.")

    def _fault(self, timeout: float) -> LoginFault | None:
        """The fault of TLS or login, as far as it is known."""
        if not self._errors:
            return None
        codes = {error.code() for error in self._errors}
        fault = worst_login_fault(error.str() for error in self._errors)
        if (fault is None or fault.inconclusive) and KafkaError._RESOLVE not in codes:
            found = self._listener_fault(min(_PROBE_SECONDS, timeout / 2))
            # The client's errors about TLS or login are reliable; its guesses from a closed connection are not.
            fault = found or (fault if codes & _REFUSED else None)
        if fault is None and codes & _AUTHENTICATION:
            fault = _LOGIN_REFUSED
        return fault and of_expired_certificate(fault, self._config.certificate_expires_at, datetime.now(timezone.utc))

    def _listener_fault(self, seconds: float) -> LoginFault | None:
        """The fault that probing the listeners finds, cached for some seconds."""
        if self._asked is None or time.monotonic() > self._asked[0] + _PROBE_AGAIN_SECONDS:
            found = find_listener_fault(self._config, seconds)
            self._asked = (time.monotonic(), found)
        return self._asked[1]


def code_of(error: BaseException | None) -> int:
    """Kafka's error code; that of a time-out for a future that was never resolved."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return cause.code() if isinstance(cause, KafkaError) else KafkaError._TIMED_OUT


def _bare(said: str) -> str:
    """What librdkafka says, without the address before it and the client's state after it."""
    return re.sub(r"\S+://\S+: | \(after \d+ms in state \w+[^)]*\)", "", said)


def text_of(error: Exception) -> str:
    """The message of an error, without Kafka's wrapping."""
    cause: object = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause) or type(error).__name__
