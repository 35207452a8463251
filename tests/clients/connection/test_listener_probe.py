"""Promises of asking a listener by hand: no fault is made up of what is no answer, and the time is bounded. Faults of
real brokers are in ``test_logins.py``.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import pytest

from airflow_provider_kafka_spark.clients.connection.listener_probe import find_listener_fault
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.connection.faults import SPEAKS_NO_TLS, SPEAKS_TLS

_PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "p", "security.protocol": "SASL_PLAINTEXT"}
_SSL = {"security.protocol": "SSL"}
_UNSUPPORTED, _ILLEGAL_STATE = 33, 34


@contextmanager
def _server(answer: bytes | None) -> Iterator[int]:
    """Answers every request so, and ends the connection; None says nothing at all."""
    listening, over = socket.create_server(("127.0.0.1", 0)), Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1024)
                    if answer is None:
                        over.wait(20)
                    else:
                        connection.sendall(answer)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(3)


def _answer(error: int, *mechanisms: str) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in mechanisms)
    content = struct.pack(">ihi", 1, error, len(mechanisms)) + names
    return struct.pack(">i", len(content)) + content


def _config(port: int, **extra: Any) -> KafkaClientConfig:
    return translate("c", {"bootstrap.servers": f"127.0.0.1:{port}", **extra})


@pytest.mark.parametrize(
    ("extra", "answer", "words"),
    [
        pytest.param({}, _answer(_ILLEGAL_STATE), None, id="no-login-wanted-and-none-given"),
        pytest.param({}, _answer(_UNSUPPORTED, "PLAIN"), "mechanisms are: PLAIN.", id="login-wanted"),
        pytest.param({}, _answer(0), None, id="of-another-make"),
        pytest.param(_PLAIN, _answer(_UNSUPPORTED, "SCRAM-SHA-512"), None, id="librdkafka-names-its-mechanism"),
        pytest.param(_PLAIN, _answer(_ILLEGAL_STATE), None, id="librdkafka-names-a-login-given-in-vain"),
        pytest.param({}, b"\x15\x03\x03\0\x02\x02\x50", SPEAKS_TLS.what, id="an-alert-of-tls"),
        pytest.param(_SSL, _answer(_ILLEGAL_STATE), SPEAKS_NO_TLS.what, id="no-tls"),
        pytest.param({}, b"", None, id="a-broker-that-is-just-stopping"),
        pytest.param(_SSL, b"HTTP/1.1 400\r\n\r\n", SPEAKS_NO_TLS.what, id="no-tls-but-http"),
        pytest.param({}, b"SSH-2.0-OpenSSH_9.2\r\n", None, id="no-kafka"),
        pytest.param({}, _answer(0, "PLAIN")[:-2], None, id="breaks-off"),
        pytest.param(_SSL, b"", None, id="tls-that-ends"),
    ],
)  # fmt: skip
def test_what_a_listener_answers(extra: dict[str, str], answer: bytes, words: str | None) -> None:
    with _server(answer) as port:
        fault = find_listener_fault(_config(port, **extra), 20.0)

    assert (fault is None) is (words is None)
    assert words is None or words in str(fault)


@pytest.mark.parametrize("extra", [{}, _SSL], ids=["plain", "tls"])
def test_silence_is_bounded(extra: dict[str, str]) -> None:
    """And no fault."""
    with _server(None) as port:
        began = time.monotonic()
        assert find_listener_fault(_config(port, **extra), 0.3) is None
        assert time.monotonic() - began < 10


@pytest.fixture
def hanging_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Never answers for the name ``hangs``."""
    over, resolve = Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **settings: Any) -> Any:
        if host == "hangs":
            over.wait(10)
            raise socket.gaierror("no address")
        return resolve(host, *args, **settings)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    over.set()


@pytest.mark.usefixtures("hanging_resolver")
def test_a_resolver_that_hangs_is_bounded() -> None:
    """And the other servers have their turn."""
    began = time.monotonic()
    assert find_listener_fault(translate("c", {"bootstrap.servers": "hangs:9092"}), 0.3) is None
    with _server(_answer(_UNSUPPORTED, "PLAIN")) as port:
        config = translate("c", {"bootstrap.servers": f"hangs:9092,127.0.0.1:{port}"})
        assert find_listener_fault(config, 1.0) is not None
    assert time.monotonic() - began < 8


def test_nobody_there_is_no_fault_of_the_connection() -> None:
    """Every server has its turn."""
    with _server(_answer(_UNSUPPORTED, "PLAIN")) as port:
        config = translate("c", {"bootstrap.servers": f"127.0.0.1:1,127.0.0.1:{port}"})
        assert find_listener_fault(config, 20.0) is not None
    assert find_listener_fault(_config(1), 20.0) is None
