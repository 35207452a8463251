"""Ask listeners for the faults that librdkafka 2.16 does not name: TLS on one side only, a login that is missing, and
why a certificate cannot be verified. Of these it reports no more than a closed connection or an invalid certificate.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import Server, parse_servers
from airflow_provider_kafka_spark.core.connection.faults import (
    LOGIN,
    SPEAKS_NO_TLS,
    SPEAKS_TLS,
    LoginFault,
    asks_for_login,
    find_login_fault,
)

T = TypeVar("T")

#: The request that every listener answers without a login: SaslHandshake, version 1, with a mechanism "none".
_SASL_HANDSHAKE = struct.pack(">ihhihh4s", 16, 17, 1, 1, -1, 4, b"none")
_UNSUPPORTED_MECHANISM = 33
_LONGEST_ANSWER = 64 * 1024
#: The maximum number of brokers to probe.
_MAX_SERVERS = 3


def find_listener_fault(config: KafkaClientConfig, seconds: float) -> LoginFault | None:
    """The mismatch between the connection and its brokers; None if there is none, or no broker is reachable.

    It does not log in, and shows no client certificate: librdkafka names what is wrong with these.

    :param seconds: for all brokers together.
    """
    servers = parse_servers(config.bootstrap_servers)[:_MAX_SERVERS]
    answers = ask_all(servers, lambda server: _probe(config, server, seconds), seconds)
    return next((answer for answer in answers.values() if isinstance(answer, LoginFault)), None)


def ask_all(servers: Iterable[Server], call: Callable[[Server], T], seconds: float) -> dict[Server, T | Exception]:
    """Query all at once, each once; a server that does not answer in time gets a :class:`TimeoutError`.

    A name lookup cannot be interrupted, so a thread may live until the resolver's time-out. It does not keep the
    process alive.
    """
    answers: SimpleQueue[tuple[Server, T | Exception]] = SimpleQueue()

    def ask(server: Server) -> None:
        try:
            answers.put((server, call(server)))
        except (OSError, EOFError, UnicodeError) as error:
            answers.put((server, error))

    silent = TimeoutError(f"no answer within {seconds:.0f} s")
    found: dict[Server, T | Exception] = dict.fromkeys(servers, silent)
    deadline = time.monotonic() + seconds
    for server in found:
        Thread(target=ask, args=(server,), name=f"probe of {server}", daemon=True).start()
    with suppress(Empty):
        for _ in range(len(found)):
            found |= [answers.get(timeout=max(0.0, deadline - time.monotonic()))]
    return found


def _probe(config: KafkaClientConfig, server: Server, seconds: float) -> LoginFault | None:
    """:raises OSError: if the server cannot be reached, or does not answer in time."""
    with_tls = config.protocol.endswith("SSL")
    try:
        fault = _ask(server, seconds, _tls_context(config) if with_tls else None)
    except (OSError, EOFError) as error:
        fault = find_login_fault(str(error))
        # A stopping broker closes the connection too; only an answer in the other form is reliable.
        if fault is None and with_tls:
            _ask(server, seconds)
            return SPEAKS_NO_TLS
        if fault is None and _speaks_tls(server, seconds):
            return SPEAKS_TLS
    if fault is None or fault.by_certificate or (config.mechanism and fault.step == LOGIN):
        return None
    return fault


def _speaks_tls(server: Server, seconds: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(server, seconds) as connection,
            context.wrap_socket(connection, server_hostname=server.host),
        ):
            return True
    except ssl.SSLError as error:
        return "alert" in str(error)


def _tls_context(config: KafkaClientConfig) -> ssl.SSLContext:
    """The trust store of the connection, as librdkafka has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Newer Python versions are stricter about CA certificates than either client.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = config.librdkafka.get("ssl.endpoint.identification.algorithm") != "none"
    if ca_certificates := config.librdkafka.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=ca_certificates)
    else:
        context.load_default_certs()
    return context


def _ask(server: Server, seconds: float, context: ssl.SSLContext | None = None) -> LoginFault | None:
    """The fault of a client that has no login and, without a context, no TLS.

    :raises EOFError: if the answer is not Kafka's.
    """
    with (
        socket.create_connection(server, seconds) as plain,
        context.wrap_socket(plain, server_hostname=server.host) if context else nullcontext(plain) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(_SASL_HANDSHAKE)
        beginning = answer.read(4)
        size = int.from_bytes(beginning, "big")
        content = answer.read(size) if 10 <= size <= _LONGEST_ANSWER else b""
    if len(content) < max(10, size):
        raise EOFError("no answer of Kafka's")
    _, error = struct.unpack_from(">ih", content)
    # Each name follows its length, of two bytes.
    names = [name.decode() for name in re.findall(rb"[A-Z][A-Z0-9_-]*", content[10:])]
    return asks_for_login(names) if error == _UNSUPPORTED_MECHANISM else None
