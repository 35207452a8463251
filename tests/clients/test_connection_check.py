"""Airflow's button "Test" on a connection of the type ``kafka_spark`` says which step failed, and what to do."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_kafka_spark.clients import connection_check
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.connection.client_properties import Server
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE, FIELDS
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.provider_info import get_provider_info
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.secured_brokers import USERS
from tests.services.certificates import CertificateAuthority, CertificateFiles

pytestmark = pytest.mark.broker

_PASSWORD = USERS["reader"]


def press_test(
    host: str, extra: dict[str, Any] | None = None, user: str | None = None, **fields: Any
) -> tuple[bool, str]:
    """What Airflow does when the button is pressed; it must be fast, and show no secret."""
    secret = {"login": user, "password": _PASSWORD} if user else {}
    fields = {"conn_type": CONN_TYPE, "host": host, "extra": json.dumps(extra or {}), **secret, **fields}
    began = time.monotonic()
    good, message = Connection(conn_id="tested", **fields).test_connection()
    assert time.monotonic() - began < 30
    # Airflow gives the tested copy a random id, and librdkafka's words are not for a user of the form.
    assert "tested" not in message
    assert "in state" not in message
    assert str(fields.get("password")) not in message
    return good, message


def fails(host: str, begins: str, *words: str, extra: dict[str, Any] | None = None, **fields: Any) -> str:
    """What the button says of a connection that is not good, which has these words."""
    good, message = press_test(host, extra, **fields)
    assert not good
    assert message.startswith(begins)
    assert [word for word in words if word not in message] == []
    return message


def form(broker: KafkaBroker, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    assert broker.tls is not None
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "ssl_ca": broker.tls.ca_pem}


def test_the_form_is_airflows_and_ours() -> None:
    """No type of another provider is touched, every field is read, and what it offers to choose from is all that there
    is; the servers are the connection's host. Secrets are typed unseen, and the hook is one that can be tested.
    """
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    (declared,) = get_provider_info()["connection-types"]
    fields = declared["conn-fields"]
    assert declared["connection-type"] == CONN_TYPE == KafkaHook.conn_type == "kafka_spark"
    assert set(FIELDS) - set(fields) == {"bootstrap_servers"}
    assert set(fields) <= set(FIELDS)
    assert fields["security_protocol"]["schema"]["enum"] == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    secret = {name for name, field in fields.items() if field["schema"].get("format") == "password"}
    assert secret == {"ssl_private_key", "ssl_key_password"}
    (shown,) = [meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == CONN_TYPE]
    assert shown.hook_name == "Kafka (for Spark)"
    assert set(shown.extra_fields or ()) == set(fields)
    assert shown.standard_fields is not None
    assert shown.standard_fields.host is not None
    assert shown.standard_fields.host.title == "Bootstrap servers"


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("reader", [
            "DNS and TCP: 1 of 1", "TLS: the brokers' certificates are good", "login: reader by SCRAM-SHA-512",
            "of 1 topics that it sees it may read 1 and write 0",
        ]),
        # Which is enough for sensors.
        ("looker", ["of 1 topics that it sees it may read 0 and write 0"]),
        ("nobody", ["Authorisation failed. The login sees no topic", "login: nobody by SCRAM-SHA-512"]),
    ],
    ids=["reader", "looker", "nobody"],
)  # fmt: skip
def test_what_a_login_may_do(secured_broker: KafkaBroker, user: str, words: list[str]) -> None:
    good, message = press_test(secured_broker.sasl_ssl_bootstrap_servers, form(secured_broker), user)
    assert good == (user != "nobody"), message
    assert [word for word in words if word not in message] == []


def test_without_tls_and_login(secured_broker: KafkaBroker) -> None:
    """One broker that is away, and of which the others know, is no reason to fail."""
    good, message = press_test(f"{secured_broker.bootstrap_servers},127.0.0.1:1")
    assert good, message
    assert "1 of 2 brokers answer (not 127.0.0.1:1)" in message
    assert re.search(r"of (\d+) topics that it sees it may read \1 and write \1", message)


def test_a_cluster_of_many_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread is started for each one that is asked, and a hostile cluster may name thousands."""
    asked = list[Server]()

    def reach(servers: list[Server]) -> str:
        asked.extend(servers)
        return "reached"

    monkeypatch.setattr(connection_check, "_reach", reach)
    brokers = {i: SimpleNamespace(id=i, host="h", port=i) for i in range(9_000)}

    connection_check._reach_brokers(lambda: SimpleNamespace(brokers=brokers))  # noqa: SLF001

    assert [server.port for server in asked] == list(range(20))


@pytest.mark.parametrize(
    ("host", "extra", "words"),
    [
        ("broker-1:9092", {"security_protocol": "SSL", "ssl_ca": "/no/such.pem"},
         ["Configuration failed. ssl.ca.location", "/no/such.pem: No such file or directory",
          'ssl.ca.location is "CA certificates" (ssl_ca)']),
        ("nowhere.invalid:9092", {}, ["DNS failed.", "nowhere.invalid"]),
        ("127.0.0.1:{closed}", {}, ["TCP failed. Nothing listens at 127.0.0.1:{closed}:"]),
    ],
    ids=["configuration", "address", "port"],
)  # fmt: skip
def test_what_fails_before_the_login(closed_port: int, host: str, extra: dict[str, Any], words: list[str]) -> None:
    fails(*(text.format(closed=closed_port) for text in (host, *words)), extra=extra)


class _WebServer(BaseRequestHandler):
    """Answers like Jetty and nginx, which do not wait for the end of a line."""

    def handle(self) -> None:
        with suppress(OSError):
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def _web_server(files: CertificateFiles | None) -> Iterator[int]:
    """The port of one that answers every request, with TLS if there are files for it."""
    server = ThreadingTCPServer(("127.0.0.1", 0), _WebServer)
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize(
    ("by_tls", "protocol", "words"),
    [
        (True, "SSL", "TCP failed. A web server (HTTP) answers"),
        (True, "PLAINTEXT", "TLS failed. The broker's listener speaks TLS"),
        (False, "SSL", "TLS failed. The broker's listener does not speak TLS"),
    ],
)
def test_a_web_server(authority: CertificateAuthority, tmp_path: Path, by_tls: bool, protocol: str, words: str) -> None:
    """It is named, or that only one of the two speaks TLS."""
    extra = {"security_protocol": protocol} | ({"ssl_ca": authority.ca_pem} if protocol == "SSL" else {})
    with _web_server(authority.issue("web").write(tmp_path) if by_tls else None) as port:
        message = fails(f"localhost:{port}", words, extra=extra)
    assert ("bootstrap.servers" in message) == words.startswith("TCP")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_somebody_who_says_nothing(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    monkeypatch.setattr(connection_check, "LOGIN_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, extra = f"127.0.0.1:{silent.getsockname()[1]}", {"security_protocol": protocol}
        fails(host, "Login failed. No broker of", "security.protocol", extra=extra)


@pytest.mark.parametrize(
    ("at", "servers", "fields", "words"),
    [
        ("right", "sasl_ssl", lambda: {"ssl_ca": CertificateAuthority().ca_pem},
         ["TLS failed. The certificate that the broker shows is signed by an unknown authority",
          'ssl.ca.location is "CA certificates" (ssl_ca)']),
        ("wrong", "ssl", lambda: {"security_protocol": "SSL"},
         ["TLS failed. The certificate that the broker shows is for another host name", "advertised.listeners",
          'ssl.endpoint.identification.algorithm is "Check host names" (verify_host_names)']),
        ("right", "sasl_ssl", lambda: {"password": "wr0ng-pass-w0rd"},
         ["Login failed. The broker refused the user or the password.", "Passed before: DNS",
          'sasl.username is "User" (login), sasl.password is "Password" (password)']),
        # The first login is good, and a later one on the other server would not be.
        ("both", "sasl_ssl", dict,
         ["TLS failed. The certificate that the broker shows, or that of its authority, has expired.",
          "Renew it on the broker."]),
    ],
)  # fmt: skip
def test_a_fault_is_of_its_step(
    secured_broker: KafkaBroker,
    misconfigured_broker: KafkaBroker,
    at: str,
    servers: str,
    fields: Callable[[], dict[str, Any]],
    words: list[str],
) -> None:
    """With what to do, in the words of the form; ``test_logins.py`` has all faults."""
    brokers = {
        "right": [secured_broker],
        "wrong": [misconfigured_broker],
        "both": [secured_broker, misconfigured_broker],
    }[at]
    extra: dict[str, Any] = {**form(secured_broker), **fields()}
    user: str | None = "reader"
    password = {"password": extra.pop("password")} if "password" in extra else {}
    if extra["security_protocol"] == "SSL":
        del extra["sasl_mechanism"]
        user = None
    host = ",".join(getattr(each, f"{servers}_bootstrap_servers") for each in brokers)
    fails(host, *words, extra=extra, user=user, **password)


def test_the_form_can_disable_the_check_of_host_names(
    secured_broker: KafkaBroker, misconfigured_broker: KafkaBroker
) -> None:
    extra = {"security_protocol": "SSL", "ssl_ca": form(secured_broker)["ssl_ca"], "verify_host_names": False}
    good, message = press_test(misconfigured_broker.ssl_bootstrap_servers, extra)
    assert good, message


def test_brokers_that_call_themselves_by_an_unknown_name(
    secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first contact is good, and everything after it would fail."""
    asked: Callable[[KafkaHook], Any] = KafkaHook.metadata

    def metadata(hook: KafkaHook) -> Any:
        found = asked(hook)
        for member in found.brokers.values():
            member.host = "nowhere.invalid"
        return found

    monkeypatch.setattr(KafkaClient, "metadata", metadata)
    begins = "DNS and TCP of the brokers that the cluster names failed."
    fails(secured_broker.bootstrap_servers, begins, "advertised.listeners")


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., object]]:
    """A call that does not come back, in a test whose bound is short."""
    monkeypatch.setattr(connection_check, "WHOLE_SECONDS", 4.0)
    over = Event()
    yield lambda *_: over.wait(20)
    over.set()


@pytest.mark.long
@pytest.mark.parametrize("step", ["metadata", "close"])
def test_a_step_that_hangs(
    secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, never: Callable[..., object], step: str
) -> None:
    """The bound is that of the whole test, whatever librdkafka or the resolver wait for; where only the client does not
    close, the result is returned all the same.
    """
    monkeypatch.setattr(KafkaClient, step, never)
    began = time.monotonic()
    good, message = press_test(secured_broker.bootstrap_servers)
    assert time.monotonic() - began < 15
    assert good == (step == "close"), message
    if not good:
        assert message.startswith("Login failed. The test did not finish within its 4 s")
        assert "Passed before: DNS" in message
