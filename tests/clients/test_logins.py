"""Every login that a connection can name, on real brokers, for both clients; and every fault of one, named for what it
is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm, kerberos_properties
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, joined_system_properties
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerTlsError,
    BrokerUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.login_clusters import Cluster, java_key_stores
from tests.required_tools import needs_clock, needs_kdc
from tests.secured_brokers import USERS
from tests.services.certificates import CertificateAuthority
from tests.services.kerberos import Kdc
from tests.waiting import until

pytestmark = pytest.mark.broker

Connection = Callable[..., None]
Extra = dict[str, Any]
#: In which a fault has to be named.
_SOON = 25.0
_SHA_256, _OAUTH = "SCRAM-SHA-256", "OAUTHBEARER"


@pytest.fixture(scope="module")
def java(secured_broker: KafkaBroker, kdc: Kdc | None) -> Iterator[KafkaJvm]:
    """Spark's Kafka client, in one JVM for all tests."""
    of_provider = configure("provider", secured_broker.sasl_client_config("copier", "OAUTHBEARER"))
    system = {
        **kerberos_properties(kdc.environment if kdc else {}),
        **joined_system_properties([of_provider]),
    }
    with KafkaJvm({}, "the test's broker", timeout=30.0, system_properties=system) as java:
        yield java


def _worker_logs_in(connection: Connection, extra: Mapping[str, Any], **fields: Any) -> KafkaClientConfig:
    connection("kafka_login", extra=extra, **fields)
    with KafkaHook("kafka_login", timeout=20) as hook:
        assert set(hook.state(["orders"]).topic("orders").partitions) == {0, 1}
        return hook.config


def _java_logs_in(java: KafkaJvm, config: KafkaClientConfig, broker: KafkaBroker) -> None:
    future = java.admin(config.java).describeCluster().clusterId()
    assert java.get(future, "reading the cluster's id") == broker.cluster_id


def _refused_by_java(java: KafkaJvm, config: KafkaClientConfig, *words: str) -> Exception:
    """The login is refused, soon, and the error says what to do."""
    began = time.monotonic()
    with pytest.raises(KafkaSparkError) as caught:
        java.get(java.admin(config.java).describeCluster().clusterId(), "reading the cluster's id")
    assert time.monotonic() - began < 30
    assert not [word for word in words if word not in str(caught.value)], caught.value
    assert "Asn1Exception" not in str(caught.value)
    return caught.value


def _by_a_scram_line(broker: KafkaBroker, mechanism: str, user: str, password: str, more: str = "") -> Extra:
    """As it is copied from a Java client's properties."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "bootstrap.servers": broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}"{more};',
    }


@pytest.mark.parametrize(
    ("user", "mechanism", "tls"),
    [("alice", "PLAIN", True), ("alice", _SHA_256, False), ("copier", _OAUTH, False)],
)
def test_one_connection_logs_both_clients_in(
    connection: Connection, secured_broker: KafkaBroker, java: KafkaJvm, user: str, mechanism: str, tls: bool
) -> None:
    """By every mechanism, with TLS and without. SCRAM-SHA-512 is that of the form and of the line for JAAS below."""
    _java_logs_in(
        java, _worker_logs_in(connection, secured_broker.sasl_client_config(user, mechanism, tls=tls)), secured_broker
    )


@pytest.mark.parametrize("form", ["rsa", "encrypted-in-files"])
def test_a_client_certificate(
    connection: Connection,
    secured_broker: KafkaBroker,
    java: KafkaJvm,
    authority: CertificateAuthority,
    tmp_path: Path,
    form: str,
) -> None:
    """All other forms of it become PEM in the configuration (``connection/test_files.py``)."""
    password = "k3y-pass" if form == "encrypted-in-files" else None
    certificate = authority.issue("writer", rsa_key=form == "rsa", password=password)
    extra = secured_broker.ssl_client_config(certificate)
    if password:
        files = certificate.write(tmp_path)
        extra = {name: value for name, value in extra.items() if not name.endswith(".pem")} | {
            "ssl.ca.location": str(authority.write(tmp_path)),
            "ssl.certificate.location": str(files.certificate),
            "ssl.key.location": str(files.key),
        }
    config = _worker_logs_in(connection, extra)

    _java_logs_in(java, config, secured_broker)
    assert config.files == ()


def test_key_stores_of_java(
    secured_broker: KafkaBroker, java: KafkaJvm, authority: CertificateAuthority, tmp_path: Path
) -> None:
    """They stay files, which travel with the job; the worker has the same in PEM."""
    config = configure("stores", java_key_stores(Cluster(secured_broker, authority), tmp_path))

    _java_logs_in(java, config, secured_broker)
    assert {Path(file).name for file in config.files} == {"alice.jks", "trust.jks"}
    assert "ssl.keystore.key" not in config.java


@pytest.mark.parametrize("login", ["none", "jaas-line"])
def test_without_tls(connection: Connection, secured_broker: KafkaBroker, java: KafkaJvm, login: str) -> None:
    """The plainest listener there is, and a connection that was copied from a Java client's properties."""
    extra = {"bootstrap.servers": secured_broker.bootstrap_servers}
    if login == "jaas-line":
        extra = _by_a_scram_line(secured_broker, "SCRAM-SHA-512", "alice", USERS["alice"])
    _java_logs_in(java, _worker_logs_in(connection, extra), secured_broker)


@needs_kdc
@pytest.mark.parametrize(("way", "tls"), [("keytab", True), ("ticket-cache", False)])
def test_kerberos(
    secured_broker: KafkaBroker, java: KafkaJvm, kdc: Kdc, monkeypatch: pytest.MonkeyPatch, way: str, tls: bool
) -> None:
    """By a keytab, which travels with the job, and by the worker's ticket, which does not."""
    extra = secured_broker.sasl_client_config("alice", "GSSAPI", tls=tls)
    if way == "ticket-cache":
        del extra["sasl.kerberos.keytab"]
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket_cache('alice')}")

    config = configure("krb", extra)

    _java_logs_in(java, config, secured_broker)
    if way == "keytab":
        assert [Path(path).name for path in config.files] == ["alice.keytab"]
        assert 'keyTab="alice.keytab"' in config.spark_options(by_name=True)["kafka.sasl.jaas.config"]
    else:
        with pytest.raises(ConnectionConfigError, match="use_delegation_token"):
            config.spark_options(by_name=True)


def _refusal(connection: Connection, extra: Extra, timeout: float = 30.0, **fields: Any) -> KafkaSparkError:
    """The error of the worker's first call, which comes soon and shows no secret."""
    connection("kafka_bad", extra=extra, **fields)
    began = time.monotonic()
    with pytest.raises(KafkaSparkError) as raised, KafkaHook("kafka_bad", timeout=timeout) as hook:
        hook.state(["orders"])
    assert time.monotonic() - began < _SOON
    assert "connection 'kafka_bad'" in str(raised.value)
    for name, value in {**extra, **fields}.items():
        assert not name.endswith(("password", "secret")) or str(value) not in str(raised.value)
    return raised.value


@needs_kdc
def test_kerberos_on_the_worker(connection: Connection, secured_broker: KafkaBroker) -> None:
    """The wheels of confluent-kafka cannot do it, and the message says where to get one that can."""
    error = _refusal(connection, secured_broker.sasl_client_config("alice", "GSSAPI"))
    assert type(error) is ConnectionConfigError
    assert [word for word in ("GSSAPI", "--no-binary confluent-kafka") if word not in str(error)] == []


def test_a_token_is_no_login_of_the_worker(connection: Connection, secured_broker: KafkaBroker) -> None:
    """A delegation token that somebody put into the connection works for Java only; the message says what to do
    instead.
    """
    error = _refusal(connection, _by_a_scram_line(secured_broker, _SHA_256, "id", "hmac-secret", ' tokenauth="true"'))
    assert type(error) is ConnectionConfigError
    assert "use_delegation_token=True" in str(error)
    assert "hmac-secret" not in str(error)


Fault = Callable[[KafkaBroker, CertificateAuthority], Extra]


_TLS, _LOGIN = BrokerTlsError, BrokerAuthenticationError


def _ago() -> datetime:
    return datetime.now(timezone.utc) - timedelta(minutes=1)


_AT_PLAIN: Fault = lambda b, _: {"bootstrap.servers": b.bootstrap_servers}  # noqa: E731
_SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "wrong-pass"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "extra", "kind", "words"),
    [
        ("right", lambda b, _: b.ssl_client_config(),
         _TLS, ["requires a client certificate", "ssl.certificate.location"]),
        ("right", lambda b, a: b.ssl_client_config(a.issue("writer", valid_until=_ago())),
         _TLS, ["client's certificate, which expired at", "Renew it"]),
        ("right", lambda b, _: b.ssl_client_config(CertificateAuthority().issue("writer")),
         _TLS, ["refused the client's certificate", "ssl.certificate.location"]),
        ("right", lambda b, a: b.ssl_client_config(a.issue("writer")) | _AT_PLAIN(b, a),
         _TLS, ["does not speak TLS", "security.protocol"]),
        ("right", lambda b, _: {"bootstrap.servers": b.ssl_bootstrap_servers},
         _TLS, ["speaks TLS", "security.protocol"]),
        ("right", lambda b, _: b.sasl_client_config("alice") | {"bootstrap.servers": b.sasl_ssl_bootstrap_servers},
         _TLS, ["speaks TLS", "SASL_SSL"]),
        ("wrong", lambda b, _: _SASL | {"bootstrap.servers": b.sasl_bootstrap_servers, "sasl.mechanism": _SHA_256},
         _LOGIN, ["does not have this sasl.mechanism", "PLAIN"]),
        ("right", lambda b, _: b.sasl_client_config("alice", _SHA_256) | {"sasl.username": "somebody"},
         _LOGIN, ["refused the user or the password", "sasl.username"]),
        ("right", lambda b, a: b.sasl_client_config("alice") | _AT_PLAIN(b, a),
         _LOGIN, ["asks for no login", "security.protocol"]),
        ("right", lambda b, _: {"bootstrap.servers": b.sasl_bootstrap_servers},
         _LOGIN, ["asks for a login, and the connection has none", _SHA_256, "SASL_PLAINTEXT"]),
        ("right", lambda b, _: b.ssl_client_config() | {"bootstrap.servers": b.sasl_ssl_bootstrap_servers},
         _LOGIN, ["asks for a login, and the connection has none", "SASL_SSL"]),
        ("right", lambda b, _: b.sasl_client_config("copier", _OAUTH) | {"sasl.oauthbearer.client.secret": "no-secret"},
         _LOGIN, ["identity provider gave no token", "sasl.oauthbearer.client.secret"]),
    ],
)  # fmt: skip
def test_a_fault_of_a_login_is_named(
    connection: Connection,
    secured_broker: KafkaBroker,
    misconfigured_broker: KafkaBroker,
    authority: CertificateAuthority,
    at: str,
    extra: Fault,
    kind: type[KafkaSparkError],
    words: list[str],
) -> None:
    """Long before the time-out, with what to do, and not to be tried again; also where it is the protocol that is
    wrong, of which librdkafka says nothing at all. Four more are in ``test_connection_check.py``.
    """
    error = _refusal(connection, extra(secured_broker if at == "right" else misconfigured_broker, authority))
    assert type(error) is kind
    assert not error.retriable
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize(
    ("at", "extra", "kind", "words"),
    [
        ("right", lambda b, _: {**b.sasl_client_config("alice", tls=True), "ssl.ca.pem": CertificateAuthority().ca_pem},
         _TLS, ["unknown authority", "ssl.ca.location"]),
        ("right", lambda b, _: b.sasl_client_config("alice", tls=True) | {"sasl.password": "no-password"},
         _LOGIN, ["refused", "sasl.password"]),
        ("wrong", lambda b, _: b.ssl_client_config(), _TLS, ["another host", "ssl.endpoint.identification.algorithm"]),
        ("wrong", lambda b, _: b.sasl_client_config("alice", tls=True), _TLS,
         ["The certificate that the broker shows, or that of its authority, has expired."]),
    ],
)  # fmt: skip
def test_java_s_words_are_named_too(
    secured_broker: KafkaBroker,
    misconfigured_broker: KafkaBroker,
    java: KafkaJvm,
    authority: CertificateAuthority,
    at: str,
    extra: Fault,
    kind: type[Exception],
    words: list[str],
) -> None:
    """As those of the worker's own client are."""
    config = configure("kafka_login", extra(secured_broker if at == "right" else misconfigured_broker, authority))
    error = _refused_by_java(java, config, *words)
    assert type(error) is kind
    assert "no-password" not in str(error)


def test_an_identity_provider_that_does_not_answer_may_do_so_later(
    connection: Connection, secured_broker: KafkaBroker
) -> None:
    """It is worth another try, and is asked again for half of the time-out."""
    extra = secured_broker.sasl_client_config("copier", "OAUTHBEARER")
    extra["sasl.oauthbearer.token.endpoint.url"] = "http://127.0.0.1:1/token"
    error = _refusal(connection, extra, timeout=4.0)
    assert type(error) is BrokerUnavailableError
    assert error.retriable
    assert "identity provider does not answer" in str(error)


def _expired_ticket(kdc: Kdc) -> Path:
    """One of a second, which is over."""
    cache = kdc.ticket_cache("carol", life=1)
    until(lambda: not kdc.is_valid(cache))
    return cache


@needs_kdc
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("expired", ["There is no valid Kerberos ticket.", "Run kinit"]),
        ("expired-of-nobody-named", ["There is no valid Kerberos ticket.", "Run kinit"]),
        ("of-another", ["There is no valid Kerberos ticket.", "as sasl.kerberos.principal if that is named"]),
    ],
)
def test_a_ticket_that_is_no_login(
    secured_broker: KafkaBroker, java: KafkaJvm, kdc: Kdc, monkeypatch: pytest.MonkeyPatch, fault: str, words: list[str]
) -> None:
    extra = secured_broker.sasl_client_config("carol", "GSSAPI")
    cache = kdc.ticket_cache("carol") if fault == "of-another" else _expired_ticket(kdc)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    module = "com.sun.security.auth.module.Krb5LoginModule"
    del extra["sasl.kerberos.keytab"]
    extra["sasl.jaas.config"] = f'{module} required useTicketCache=true ticketCache="{cache}";'
    if fault == "expired-of-nobody-named":
        del extra["sasl.kerberos.principal"]
    if fault == "of-another":
        extra["sasl.kerberos.principal"] = kdc.principal("dave")
    assert type(_refused_by_java(java, configure("krb", extra), *words)) is _LOGIN


@needs_kdc
def test_keys_of_another_kdc(secured_broker: KafkaBroker, java: KafkaJvm, kdc: Kdc, tmp_path: Path) -> None:
    """Of the same realm: a keytab for which this one has other keys, one of a principal that it does not know, and a
    ticket for the broker that is locked with another key, of which the broker says no more than that it refuses it.
    """
    extra = secured_broker.sasl_client_config("carol", "GSSAPI")
    with Kdc() as other:
        for name, words in (
            ("carol", ["keys in the keytab are not those of the principal", "Create the keytab again"]),
            ("mallory", ["Kerberos does not know the principal.", "Correct sasl.kerberos.principal."]),
        ):
            keytab = {"sasl.kerberos.principal": kdc.principal(name), "sasl.kerberos.keytab": str(other.keytab(name))}
            assert type(_refused_by_java(java, configure("krb", extra | keytab), *words)) is _LOGIN
        other.keytab("kafka/localhost")
        theirs = extra | {"sasl.kerberos.keytab": str(other.keytab("carol"))}
        system = kerberos_properties(other.environment)
        with KafkaJvm({}, "the test's broker", timeout=30.0, system_properties=system) as jvm:
            words = ["The broker refused the Kerberos login.", "compare the clocks of worker, broker and KDC"]
            assert type(_refused_by_java(jvm, configure("krb", theirs), *words)) is _LOGIN


@pytest.mark.long
@needs_kdc
@needs_clock
def test_a_clock_that_only_the_tickets_for_the_broker_show(secured_broker: KafkaBroker) -> None:
    """Java's client logs in to a KDC that asks for no proof of the key, tries again and again for a ticket, and reports
    nothing; so the clocks are what to look at.
    """
    with Kdc(clock_offset=timedelta(minutes=10)) as other:
        other.keytab("kafka/localhost")
        extra = secured_broker.sasl_client_config("alice", "GSSAPI") | {
            "sasl.kerberos.keytab": str(other.keytab("alice"))
        }
        config, system = configure("krb", extra), kerberos_properties(other.environment)
        began = time.monotonic()
        with (
            KafkaJvm(config.java, "the test's broker", timeout=5.0, system_properties=system) as java,
            pytest.raises(BrokerUnavailableError, match="With Kerberos, also compare the clocks of all machines"),
        ):
            java.get(java.admin().describeCluster().clusterId(), "reading the cluster's id")
        assert time.monotonic() - began < 30
