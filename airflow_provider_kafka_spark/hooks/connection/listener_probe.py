"""Probe the protocol of a broker's listener: librdkafka only reports a closed connection or an invalid certificate."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import TypeVar

from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import Server, parse_servers
from airflow_provider_kafka_spark.core.connection.faults import (
    ASKS_FOR_NO_LOGIN,
    SPEAKS_HTTP,
    SPEAKS_NO_TLS,
    SPEAKS_TLS,
    LoginFault,
    asks_for_login,
    find_login_fault,
    other_mechanisms,
)

T = TypeVar("T")

#: The request, which every listener answers without a login: SaslHandshake, version 1.
_SASL_HANDSHAKE = 17
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34
#: The start of a web server's answers, with or without a status.
_OF_WEB_SERVERS = (b"HTTP", b"<!DO")
_LONGEST_ANSWER = 64 * 1024
#: The maximum number of brokers to probe.
_MOST_SERVERS = 3


@dataclass(frozen=True, slots=True)
class _Answer:
    """:param mechanisms: the listener's SASL mechanisms."""

    error: int
    mechanisms: tuple[str, ...]


def find_listener_fault(config: KafkaClientConfig, seconds: float) -> LoginFault | None:
    """The mismatch between the connection and its brokers; None if there is none, or no broker is reachable.

    It does not log in, so a wrong password is not found.

    :param seconds: for all brokers together.
    """
    deadline = time.monotonic() + seconds
    servers = parse_servers(config.bootstrap_servers)[:_MOST_SERVERS]
    answers = ask_each(servers, lambda server: probe_listener(config, server, deadline), seconds)
    return next((answer for _, answer in answers if isinstance(answer, LoginFault)), None)


def ask_each(
    servers: Iterable[Server], call: Callable[[Server], T], seconds: float
) -> Iterator[tuple[Server, T | Exception]]:
    """Query all at once, each once; servers that do not answer in time are left out.

    A name lookup cannot be interrupted, so a thread may live until the resolver's time-out. It does not keep the
    process alive.
    """
    answers: SimpleQueue[tuple[Server, T | Exception]] = SimpleQueue()

    def ask(server: Server) -> None:
        try:
            answers.put((server, call(server)))
        except (OSError, EOFError, UnicodeError) as error:
            answers.put((server, error))

    asked = list(dict.fromkeys(servers))
    deadline = time.monotonic() + seconds
    for server in asked:
        Thread(target=ask, args=(server,), name=f"probe of {server}", daemon=True).start()
    with suppress(Empty):
        for _ in asked:
            yield answers.get(timeout=max(0.0, deadline - time.monotonic()))


def probe_listener(config: KafkaClientConfig, server: Server, deadline: float) -> LoginFault | None:
    """Probe one broker's listener, up to the login.

    :param deadline: on the monotonic clock.
    :raises OSError: if it cannot be reached, or does not answer in time.
    """
    try:
        return _probe(config, server, deadline)
    except _WebServerError:
        return SPEAKS_HTTP


class _WebServerError(Exception):
    """The answer is HTTP."""


def _probe(config: KafkaClientConfig, server: Server, deadline: float) -> LoginFault | None:
    if config.protocol.endswith("SSL"):
        try:
            answer = _ask(config, server, deadline, tls_context(config))
        except (OSError, EOFError) as error:
            return _tls_fault(config, server, deadline, error)
    else:
        try:
            answer = _ask(config, server, deadline)
        except EOFError:
            # A stopping broker closes the connection too; only an answer in TLS is reliable.
            return SPEAKS_TLS if _speaks_tls(server, deadline) else None
    if config.mechanism is None:
        return asks_for_login(answer.mechanisms) if answer.error == _UNSUPPORTED_MECHANISM else None
    if answer.error == _ILLEGAL_STATE:
        return ASKS_FOR_NO_LOGIN
    return other_mechanisms(answer.mechanisms) if answer.error == _UNSUPPORTED_MECHANISM else None


def tls_context(config: KafkaClientConfig) -> ssl.SSLContext:
    """The trust store and certificate of the connection, as librdkafka has them.

    :raises ssl.SSLError: if OpenSSL refuses one of them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Newer Python versions are stricter about CA certificates than either client.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    properties = config.librdkafka
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm") != "none"
    if ca_certificates := properties.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=ca_certificates)
    else:
        context.load_default_certs()
    if "ssl.certificate.pem" in properties:
        with _readable(properties["ssl.certificate.pem"] + properties["ssl.key.pem"]) as path:
            context.load_cert_chain(path)
    return context


@contextmanager
def _readable(text: str) -> Iterator[str]:
    """A file for Python's OpenSSL, which reads certificates from files only; in memory if the system supports it."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("certificate"), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name


def _tls_fault(config: KafkaClientConfig, server: Server, deadline: float, error: Exception) -> LoginFault | None:
    fault = find_login_fault(str(error)) if isinstance(error, ssl.SSLError) else None
    if fault not in (None, SPEAKS_NO_TLS):
        return fault
    try:
        _ask(config, server, deadline)
    except (OSError, EOFError):
        if fault is not None:
            return fault
        if isinstance(error, OSError):
            raise error from None
        return None
    return SPEAKS_NO_TLS


def _speaks_tls(server: Server, deadline: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # No data is sent: only the answer matters.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(server, _left(deadline)) as connection,
            context.wrap_socket(connection, server_hostname=server.host),
        ):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        # An alert is an answer too.
        return "ALERT" in str(error).upper()
    except OSError:
        return False


def _ask(config: KafkaClientConfig, server: Server, deadline: float, context: ssl.SSLContext | None = None) -> _Answer:
    """:raises EOFError: if the connection was closed, or the answer is not Kafka's."""
    with socket.create_connection(server, _left(deadline)) as connection:
        connection.settimeout(_left(deadline))
        if context is None:
            return _handshake(connection, config.mechanism, deadline)
        with context.wrap_socket(connection, server_hostname=server.host) as wrapped:
            return _handshake(wrapped, config.mechanism, deadline)


def _handshake(connection: socket.socket, mechanism: str | None, deadline: float) -> _Answer:
    name = (mechanism or "none").encode()
    request = struct.pack(f">hhihh{len(name)}s", _SASL_HANDSHAKE, 1, 1, -1, len(name), name)
    connection.sendall(struct.pack(">i", len(request)) + request)
    beginning = _read(connection, 4, deadline)
    if beginning in _OF_WEB_SERVERS:
        raise _WebServerError
    (length,) = struct.unpack(">i", beginning)
    if not 10 <= length <= _LONGEST_ANSWER:
        raise EOFError(f"not an answer of Kafka: {length} bytes")
    content = _read(connection, length, deadline)
    try:
        _, error, count = struct.unpack_from(">ihi", content)
        position, mechanisms = 10, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", content, position)
            mechanisms.append(content[position + 2 : position + 2 + size].decode())
            position += 2 + size
    except (struct.error, UnicodeDecodeError) as broken:
        raise EOFError("no answer of Kafka's") from broken
    return _Answer(error, tuple(mechanisms))


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    content = b""
    while len(content) < size:
        connection.settimeout(_left(deadline))
        try:
            part = connection.recv(size - len(content))
        except ConnectionResetError as error:
            raise EOFError("connection reset") from error
        if not part:
            raise EOFError("connection ended")
        content += part
    return content


def _left(deadline: float) -> float:
    """:raises TimeoutError: if no time is left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left")
    return left
