"""Airflow's button "Test" on a connection of the type ``kafka_spark`` says which step failed, and what to do."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker
from tests.services.certificates import CertificateAuthority

pytestmark = pytest.mark.broker

_PASSWORD = "s3cr3t-of-everybody"
_USERS = dict.fromkeys(("reader", "looker", "nobody"), _PASSWORD)


@pytest.fixture(scope="module")
def broker(authority: CertificateAuthority) -> Iterator[KafkaBroker]:
    """``reader`` may read one of two topics, ``looker`` may see one, ``nobody`` may do nothing."""
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem, "required")
    with KafkaBroker(sasl_users=_USERS, tls=tls, authorizer=True) as broker:
        for topic in ("orders", "payments"):
            broker.create_topic(topic)
        broker.add_acl("User:reader", "read", "topic", "orders")
        broker.add_acl("User:looker", "describe", "topic", "orders")
        yield broker


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


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


def form(broker: KafkaBroker, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    assert broker.tls is not None
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "ssl_ca": broker.tls.ca_pem}


def _declared() -> dict[str, Any]:
    (found,) = get_provider_info()["connection-types"]
    return found


def test_no_type_of_another_provider_is_touched() -> None:
    assert _declared()["connection-type"] == CONN_TYPE == KafkaHook.conn_type == "kafka_spark"


def test_every_field_of_the_form_is_read() -> None:
    """And what it offers to choose from is all that there is; the servers are the connection's host."""
    fields = _declared()["conn-fields"]
    assert set(FIELDS) - set(fields) == {"bootstrap_servers"}
    assert set(fields) <= set(FIELDS)
    assert fields["security_protocol"]["schema"]["enum"] == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


def test_secrets_are_typed_unseen() -> None:
    fields = _declared()["conn-fields"]
    secret = {name for name, field in fields.items() if field["schema"].get("format") == "password"}
    assert secret == {"ssl_private_key", "ssl_key_password"}


def test_airflow_shows_it() -> None:
    """The form of Airflow's UI has our fields, and the hook is one that can be tested."""
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    (shown,) = [meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == CONN_TYPE]
    assert shown.hook_name == "Kafka (for Spark)"
    assert shown.extra_fields is not None
    assert set(shown.extra_fields) == set(_declared()["conn-fields"])
    assert shown.standard_fields is not None
    assert shown.standard_fields.host is not None
    assert shown.standard_fields.host.title == "Bootstrap servers"


def test_all_is_well(broker: KafkaBroker) -> None:
    good, message = press_test(broker.sasl_ssl_bootstrap_servers, form(broker), "reader")
    assert good, message
    for words in (
        "DNS and TCP: 1 of 1",
        "TLS: the brokers' certificates are good",
        "login: reader by SCRAM-SHA-512",
        "of 1 topics that it sees it may read 1 and write 0",
    ):
        assert words in message


def test_without_tls_and_login(broker: KafkaBroker) -> None:
    """One broker that is away, and of which the others know, is no reason to fail."""
    good, message = press_test(f"{broker.bootstrap_servers},127.0.0.1:1")
    assert good, message
    assert "1 of 2 brokers answer (not 127.0.0.1:1)" in message
    assert "of 2 topics that it sees it may read 2 and write 2" in message


def test_a_configuration_that_cannot_be() -> None:
    good, message = press_test("broker-1:9092", {"security_protocol": "SSL", "ssl_ca": "/no/such.pem"})
    assert not good
    assert message.startswith("Configuration failed. ssl.ca.location")
    assert "/no/such.pem: No such file or directory" in message
    assert 'ssl.ca.location is "CA certificates" (ssl_ca)' in message


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


def test_a_name_without_address() -> None:
    good, message = press_test("nowhere.invalid:9092")
    assert not good
    assert message.startswith("DNS failed.")
    assert "nowhere.invalid" in message


def test_a_port_where_nobody_listens(closed_port: int) -> None:
    good, message = press_test(f"127.0.0.1:{closed_port}")
    assert not good
    assert message.startswith(f"TCP failed. Nothing listens at 127.0.0.1:{closed_port}:")


class _WebServer(BaseRequestHandler):
    """Answers like Jetty and nginx, which do not wait for the end of a line."""

    def handle(self) -> None:
        with suppress(OSError):
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(params=["plain", "tls"])
def web_server(request: pytest.FixtureRequest, authority: CertificateAuthority, tmp_path: Path) -> Iterator[int]:
    """The port of one that answers every request, with TLS or without."""
    server = ThreadingTCPServer(("127.0.0.1", 0), _WebServer)
    if request.param == "tls":
        files = authority.issue("web").write(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_web_server(
    web_server: int, protocol: str, authority: CertificateAuthority, request: pytest.FixtureRequest
) -> None:
    """It is named, or that only one of the two speaks TLS."""
    by_tls = "tls" in request.node.callspec.params.values()
    extra = {"security_protocol": protocol} | ({"ssl_ca": authority.ca_pem} if protocol == "SSL" else {})

    good, message = press_test(f"localhost:{web_server}", extra)

    assert not good
    if by_tls and protocol == "PLAINTEXT":
        assert message.startswith("TLS failed. The broker's listener speaks TLS")
    elif protocol == "SSL" and not by_tls:
        assert message.startswith("TLS failed. The broker's listener does not speak TLS")
    else:
        assert message.startswith("TCP failed. A web server (HTTP) answers")
        assert "bootstrap.servers" in message


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_somebody_who_says_nothing(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    monkeypatch.setattr(connection_check, "LOGIN_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        good, message = press_test(f"127.0.0.1:{silent.getsockname()[1]}", {"security_protocol": protocol})
    assert not good
    assert message.startswith("Login failed. No broker of")
    assert "security.protocol" in message


def test_an_authority_that_is_not_trusted(broker: KafkaBroker) -> None:
    other = {**form(broker), "ssl_ca": CertificateAuthority().ca_pem}
    good, message = press_test(broker.sasl_ssl_bootstrap_servers, other, "reader")
    assert not good
    assert message.startswith("TLS failed. The certificate that the broker shows is signed by an unknown authority")
    assert 'ssl.ca.location is "CA certificates" (ssl_ca)' in message


def test_an_expired_certificate(misconfigured_broker: KafkaBroker) -> None:
    good, message = press_test(misconfigured_broker.sasl_ssl_bootstrap_servers, form(misconfigured_broker), "reader")
    assert not good
    assert message.startswith(
        "TLS failed. The certificate that the broker shows, or that of its authority, has expired."
    )
    assert "Renew it on the broker." in message
    assert misconfigured_broker.sasl_ssl_bootstrap_servers in message


def test_a_certificate_of_another_host(misconfigured_broker: KafkaBroker) -> None:
    """The form can disable the check."""
    extra = {"security_protocol": "SSL", "ssl_ca": form(misconfigured_broker)["ssl_ca"]}
    good, message = press_test(misconfigured_broker.ssl_bootstrap_servers, extra)
    assert not good
    assert message.startswith("TLS failed. The certificate that the broker shows is for another host name")
    assert "advertised.listeners" in message
    assert 'ssl.endpoint.identification.algorithm is "Check host names" (verify_host_names)' in message

    good, message = press_test(misconfigured_broker.ssl_bootstrap_servers, {**extra, "verify_host_names": False})
    assert good, message


def test_one_of_several_servers_has_a_bad_certificate(
    broker: KafkaBroker, misconfigured_broker: KafkaBroker, authority: CertificateAuthority
) -> None:
    """The login is good, and a later one on the other server would not be."""
    both = f"{broker.sasl_ssl_bootstrap_servers},{misconfigured_broker.sasl_ssl_bootstrap_servers}"
    good, message = press_test(both, form(broker), "reader")
    assert not good
    assert message.startswith(
        "TLS failed. The certificate that the broker shows, or that of its authority, has expired"
    )


def test_a_listener_that_asks_for_a_certificate(broker: KafkaBroker) -> None:
    extra = {"security_protocol": "SSL", "ssl_ca": form(broker)["ssl_ca"]}
    good, message = press_test(broker.ssl_bootstrap_servers, extra)
    assert not good
    assert message.startswith("TLS failed. The broker requires a client certificate")


def test_a_listener_that_speaks_tls(broker: KafkaBroker) -> None:
    good, message = press_test(broker.sasl_ssl_bootstrap_servers)
    assert not good
    assert message.startswith("TLS failed. The broker's listener speaks TLS")


def test_a_login_that_is_missing(broker: KafkaBroker) -> None:
    good, message = press_test(broker.sasl_bootstrap_servers)
    assert not good
    assert message.startswith("Login failed. The broker's listener asks for a login")


def test_a_wrong_password(broker: KafkaBroker) -> None:
    good, message = press_test(broker.sasl_ssl_bootstrap_servers, form(broker), "reader", password="wr0ng-pass-w0rd")
    assert not good
    assert message.startswith("Login failed. The broker refused the user or the password.")
    assert 'sasl.username is "User" (login), sasl.password is "Password" (password)' in message
    assert "Passed before: DNS" in message


def test_a_login_that_may_do_nothing(broker: KafkaBroker) -> None:
    good, message = press_test(broker.sasl_ssl_bootstrap_servers, form(broker), "nobody")
    assert not good
    assert message.startswith("Authorisation failed. The login sees no topic")
    assert "login: nobody by SCRAM-SHA-512" in message


def test_a_login_that_may_only_look(broker: KafkaBroker) -> None:
    """Which is enough for sensors."""
    good, message = press_test(broker.sasl_ssl_bootstrap_servers, form(broker), "looker")
    assert good, message
    assert "of 1 topics that it sees it may read 0 and write 0" in message


def test_brokers_that_call_themselves_by_an_unknown_name(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first contact is good, and everything after it would fail."""
    asked: Callable[[KafkaHook], Any] = KafkaHook.metadata

    def metadata(hook: KafkaHook) -> Any:
        found = asked(hook)
        for member in found.brokers.values():
            member.host = "nowhere.invalid"
        return found

    monkeypatch.setattr(KafkaClient, "metadata", metadata)
    good, message = press_test(broker.bootstrap_servers)
    assert not good
    assert message.startswith("DNS and TCP of the brokers that the cluster names failed.")
    assert "advertised.listeners" in message


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., object]]:
    """A call that does not come back, in a test whose bound is short."""
    monkeypatch.setattr(connection_check, "WHOLE_SECONDS", 6.0)
    over = Event()
    yield lambda *_: over.wait(20)
    over.set()


def test_a_step_that_hangs(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, never: Callable[..., object]) -> None:
    """The bound is that of the whole test, whatever librdkafka or the resolver wait for."""
    monkeypatch.setattr(KafkaClient, "metadata", never)
    began = time.monotonic()
    good, message = press_test(broker.bootstrap_servers)
    assert time.monotonic() - began < 15
    assert not good
    assert message.startswith("Login failed. The test did not finish within its 6 s")
    assert "Passed before: DNS" in message


def test_a_client_that_does_not_close(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, never: Callable[..., object]
) -> None:
    """The result is returned all the same."""
    monkeypatch.setattr(KafkaClient, "close", never)
    began = time.monotonic()
    good, message = press_test(broker.bootstrap_servers)
    assert time.monotonic() - began < 15
    assert good, message


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """The port of a server that closes every connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                listening.accept()[0].close()

    Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def test_a_resolver_that_hangs_from_the_login_on(hanging_up: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The login's failure has the reason that probing finds."""
    over, asked = Event(), KafkaHook.metadata

    def getaddrinfo(*_: object) -> list[Any]:
        over.wait(20)
        raise socket.gaierror("no address")

    def metadata(hook: KafkaHook) -> Any:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked(hook)

    monkeypatch.setattr(KafkaClient, "metadata", metadata)
    monkeypatch.setattr(connection_check, "LOGIN_SECONDS", 2.0)
    began = time.monotonic()
    good, message = press_test(f"127.0.0.1:{hanging_up}")
    took = time.monotonic() - began
    over.set()
    assert took < 15
    assert not good
    assert message.startswith("Login failed. No broker of")
