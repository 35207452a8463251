"""Every login that a connection can name, on real brokers, for both clients; and every fault of one, named for what it
is.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm, kerberos_properties
from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig, joined_system_properties
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerTlsError,
    BrokerUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.java import find_java
from tests.required_tools import needs_clock, needs_kdc
from tests.secured_brokers import USERS
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc, find_clock_library

pytestmark = pytest.mark.broker

Connection = Callable[..., None]
Extra = dict[str, Any]
#: In which a fault has to be named.
_SOON = 25.0


@pytest.fixture
def broker(secured_broker: KafkaBroker) -> KafkaBroker:
    return secured_broker


@pytest.fixture(scope="module")
def java(provider: IdentityProvider, kdc: Kdc | None) -> Iterator[KafkaJvm]:
    """Spark's Kafka client, in one JVM for all tests."""
    of_provider = configure("provider", {**_oidc(provider, "broker-1:9092"), "security.protocol": "SASL_PLAINTEXT"})
    system = {
        **kerberos_properties(kdc.environment if kdc else {}),
        **joined_system_properties([of_provider]),
    }
    with KafkaJvm({}, "the test's broker", timeout=10.0, system_properties=system) as java:
        yield java


def _oidc(provider: IdentityProvider, servers: str) -> Extra:
    return {
        "bootstrap.servers": servers,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.id": "copier",
        "sasl.oauthbearer.client.secret": provider.clients["copier"],
    }


def _worker_logs_in(connection: Connection, extra: Mapping[str, Any], **fields: Any) -> KafkaClientConfig:
    connection("kafka_login", extra=extra, **fields)
    with KafkaHook("kafka_login", timeout=20) as hook:
        assert set(hook.state(["orders"]).topic("orders").partitions) == {0, 1}
        return hook.config


def _java_logs_in(java: KafkaJvm, config: KafkaClientConfig, broker: KafkaBroker) -> None:
    future = java.admin(config.java).describeCluster().clusterId()
    assert java.get(future, "reading the cluster's id") == broker.cluster_id


def _java_logs_in_again(jvm: KafkaJvm, config: KafkaClientConfig, broker: KafkaBroker, seconds: float) -> None:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        _java_logs_in(jvm, config, broker)


@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize(
    ("user", "mechanism"),
    [("alice", "PLAIN"), ("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512"), ("copier", "OAUTHBEARER")],
)
def test_one_connection_logs_both_clients_in(
    connection: Connection, broker: KafkaBroker, java: KafkaJvm, user: str, mechanism: str, tls: bool
) -> None:
    """By every mechanism, with TLS and without."""
    _java_logs_in(java, _worker_logs_in(connection, broker.sasl_client_config(user, mechanism, tls=tls)), broker)


def test_without_tls_and_login(connection: Connection, broker: KafkaBroker, java: KafkaJvm) -> None:
    """The plainest listener there is."""
    _java_logs_in(java, _worker_logs_in(connection, {"bootstrap.servers": broker.bootstrap_servers}), broker)


@pytest.mark.parametrize(
    ("form", "rsa_key"),
    [
        pytest.param("inline", False, id="inline-ec"),
        pytest.param("inline", True, id="inline-rsa"),
        pytest.param("files", False, id="files"),
        pytest.param("encrypted", False, id="encrypted"),
        pytest.param("pkcs1", True, id="pkcs1"),
        pytest.param("pkcs12", False, id="pkcs12"),
        pytest.param("java-pem", False, id="java-pem"),
    ],
)
def test_a_client_certificate_in_every_form(
    connection: Connection,
    broker: KafkaBroker,
    java: KafkaJvm,
    authority: CertificateAuthority,
    tmp_path: Path,
    form: str,
    rsa_key: bool,
) -> None:
    """PEM in the connection, PEM in files, keys that Java itself does not read, and Java's own stores."""
    certificate = authority.issue("writer", rsa_key=rsa_key, password="k3y-pass" if form == "encrypted" else None)
    base = {"bootstrap.servers": broker.ssl_bootstrap_servers, "security.protocol": "SSL"}
    ca, files = authority.write(tmp_path), certificate.write(tmp_path)
    key_password = {"ssl.key.password": "k3y-pass"} if certificate.password else {}
    of_files = {
        **base,
        **key_password,
        "ssl.ca.location": str(ca),
        "ssl.certificate.location": str(files.certificate),
        "ssl.key.location": str(files.key),
    }
    if form == "pkcs1":
        files.key.write_text(certificate.traditional_key_pem)
    store = tmp_path / "store.p12"
    if form == "pkcs12":
        command = ["openssl", "pkcs12", "-export", "-in", files.certificate, "-inkey", files.key, "-out", store]
        subprocess.run([*command, "-passout", "pass:st0re-pass"], check=True)
    extra: Extra = {
        "inline": broker.ssl_client_config(certificate),
        "pkcs12": {
            **base,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "st0re-pass",
        },
        "java-pem": {
            **base,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.ca_pem,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate.certificate_pem,
            "ssl.keystore.key": certificate.plain_key_pem,
        },
    }.get(form, of_files)

    config = _worker_logs_in(connection, extra)

    _java_logs_in(java, config, broker)
    assert config.files == ()


def test_javas_names_and_a_jaas_line(connection: Connection, broker: KafkaBroker, java: KafkaJvm) -> None:
    """A connection that was copied from a Java client's properties."""
    config = _worker_logs_in(
        connection,
        {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" '
            f'password="{USERS["alice"]}";',
        },
    )
    _java_logs_in(java, config, broker)


@needs_kdc
@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("way", ["keytab", "ticket-cache"])
def test_kerberos(
    broker: KafkaBroker, java: KafkaJvm, kdc: Kdc, monkeypatch: pytest.MonkeyPatch, way: str, tls: bool
) -> None:
    """By a keytab, which travels with the job, and by the worker's ticket, which does not."""
    extra = broker.sasl_client_config("alice", "GSSAPI", tls=tls)
    if way == "ticket-cache":
        del extra["sasl.kerberos.keytab"]
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket_cache('alice')}")

    config = configure("krb", extra)

    _java_logs_in(java, config, broker)
    if way == "keytab":
        assert [Path(path).name for path in config.files] == ["alice.keytab"]
        assert 'keyTab="alice.keytab"' in config.spark_options(by_name=True)["kafka.sasl.jaas.config"]
    else:
        with pytest.raises(ConnectionConfigError, match="use_delegation_token"):
            config.spark_options(by_name=True)


def _gssapi_is_built_in() -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({"sasl.mechanism": "GSSAPI", "security.protocol": "SASL_PLAINTEXT"})
    except KafkaException as error:
        return "No provider" not in str(error)
    return True


@needs_kdc
def test_kerberos_on_the_worker(connection: Connection, broker: KafkaBroker, kdc: Kdc) -> None:
    """The wheels of confluent-kafka cannot do it, and the message says where to get one that can."""
    extra = broker.sasl_client_config("alice", "GSSAPI")
    if _gssapi_is_built_in():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KRB5_CONFIG", kdc.environment["KRB5_CONFIG"])
            _worker_logs_in(connection, extra)
        return
    connection("kafka_krb", extra=extra)
    with KafkaHook("kafka_krb") as hook, pytest.raises(ConnectionConfigError) as raised:
        hook.state(["orders"])
    for words in ("'kafka_krb'", "GSSAPI", "--no-binary confluent-kafka"):
        assert words in str(raised.value)


def test_a_token_is_no_login_of_the_worker(connection: Connection, broker: KafkaBroker) -> None:
    """A delegation token that somebody put into the connection works for Java only; the message says what to do
    instead.
    """
    line = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="id" password="hmac-secret" '
        'tokenauth="true";'
    )
    extra = {
        "bootstrap.servers": broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": line,
    }
    connection("kafka_token", extra=extra)
    with KafkaHook("kafka_token") as hook, pytest.raises(ConnectionConfigError) as raised:
        hook.state(["orders"])
    assert "'kafka_token'" in str(raised.value)
    assert "use_delegation_token=True" in str(raised.value)
    assert "hmac-secret" not in str(raised.value)


def _refusal(connection: Connection, extra: Mapping[str, Any], timeout: float = 30.0) -> KafkaSparkError:
    """The error of the worker's first call, which comes soon and shows no secret."""
    connection("kafka_bad", extra=extra)
    began = time.monotonic()
    with pytest.raises(KafkaSparkError) as raised, KafkaHook("kafka_bad", timeout=timeout) as hook:
        hook.state(["orders"])
    assert time.monotonic() - began < _SOON
    assert "connection 'kafka_bad'" in str(raised.value)
    for name, value in extra.items():
        assert not name.endswith(("password", "secret")) or str(value) not in str(raised.value)
    return raised.value


Change = Callable[[KafkaBroker, CertificateAuthority], Extra]


def _ssl(broker: KafkaBroker, authority: CertificateAuthority, **how: Any) -> Extra:
    return broker.ssl_client_config(authority.issue("writer", **how))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        pytest.param(
            lambda b, a: {**_ssl(b, a), "ssl.ca.pem": CertificateAuthority().ca_pem},
            ["unknown authority", "ssl.ca.location"],
            id="unknown-ca",
        ),
        pytest.param(
            lambda b, _: b.ssl_client_config(),
            ["requires a client certificate", "ssl.certificate.location"],
            id="no-certificate",
        ),
        pytest.param(
            lambda b, a: _ssl(b, a, valid_until=datetime.now(timezone.utc) - timedelta(minutes=1)),
            ["client's certificate, which expired at", "Renew it"],
            id="expired-client-certificate",
        ),
        pytest.param(
            lambda b, a: _ssl(b, CertificateAuthority()) | {"ssl.ca.pem": a.ca_pem},
            ["refused the client's certificate", "ssl.certificate.location"],
            id="client-certificate-of-another-authority",
        ),
        pytest.param(
            lambda b, a: _ssl(b, a) | {"bootstrap.servers": b.bootstrap_servers},
            ["does not speak TLS", "security.protocol"],
            id="tls-at-a-plain-port",
        ),
        pytest.param(
            lambda b, _: {"bootstrap.servers": b.ssl_bootstrap_servers},
            ["speaks TLS", "security.protocol"],
            id="plain-at-a-tls-port",
        ),
        pytest.param(
            lambda b, _: b.sasl_client_config("alice") | {"bootstrap.servers": b.sasl_ssl_bootstrap_servers},
            ["speaks TLS", "SASL_SSL"],
            id="sasl-at-a-sasl_ssl-port",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_tls_is_named(
    connection: Connection, broker: KafkaBroker, authority: CertificateAuthority, extra: Change, words: list[str]
) -> None:
    """Long before the time-out, with what to do, and not to be tried again."""
    error = _refusal(connection, extra(broker, authority))
    assert type(error) is BrokerTlsError
    assert not error.retriable
    for word in words:
        assert word in str(error)


def test_a_certificate_of_another_host_is_named(connection: Connection, misconfigured_broker: KafkaBroker) -> None:
    """librdkafka only says that the certificate cannot be verified. The connection can disable the check."""
    extra = misconfigured_broker.ssl_client_config()
    error = _refusal(connection, extra)
    assert type(error) is BrokerTlsError
    assert "another host" in str(error)
    assert "ssl.endpoint.identification.algorithm" in str(error)

    config = _worker_logs_in(connection, extra | {"ssl.endpoint.identification.algorithm": "none"})
    assert config.java["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        pytest.param({"ssl.ca.pem": "other"}, BrokerTlsError, ["unknown authority", "ssl.ca.location"], id="ca"),
        pytest.param(
            {"sasl.password": "no-password"}, BrokerAuthenticationError, ["refused", "sasl.password"], id="password",
        ),
    ],
)  # fmt: skip
def test_java_s_words_are_named_too(
    broker: KafkaBroker, java: KafkaJvm, fault: Extra, kind: type[Exception], words: list[str]
) -> None:
    """As those of the worker's own client are."""
    if "ssl.ca.pem" in fault:
        fault = {"ssl.ca.pem": CertificateAuthority().ca_pem}
    config = configure("kafka_login", broker.sasl_client_config("alice", tls=True) | fault)
    with pytest.raises(kind) as caught:
        java.get(java.admin(config.java).describeCluster().clusterId(), "reading the cluster's id")
    assert not [word for word in words if word not in str(caught.value)], caught.value
    assert "no-password" not in str(caught.value)


def test_an_expired_certificate_of_the_broker_is_named(
    connection: Connection, misconfigured_broker: KafkaBroker
) -> None:
    """It is the broker's to renew."""
    error = _refusal(connection, misconfigured_broker.sasl_client_config("alice", tls=True))
    assert type(error) is BrokerTlsError
    assert "The certificate that the broker shows, or that of its authority, has expired." in str(error)
    assert "Renew it on the broker." in str(error)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        pytest.param(
            lambda b, _: b.sasl_client_config("alice", "PLAIN", tls=True) | {"sasl.password": "wrong-pass"},
            ["refused the user or the password", "sasl.password"],
            id="wrong-password",
        ),
        pytest.param(
            lambda b, _: b.sasl_client_config("alice", "SCRAM-SHA-256") | {"sasl.username": "nobody"},
            ["refused the user or the password", "sasl.username"],
            id="unknown-user",
        ),
        pytest.param(
            lambda b, _: b.sasl_client_config("alice") | {"bootstrap.servers": b.bootstrap_servers},
            ["asks for no login", "security.protocol"],
            id="login-where-none-is-asked-for",
        ),
        pytest.param(
            lambda b, _: {"bootstrap.servers": b.sasl_bootstrap_servers},
            ["asks for a login, and the connection has none", "SCRAM-SHA-256", "SASL_PLAINTEXT"],
            id="no-login-where-one-is-asked-for",
        ),
        pytest.param(
            lambda b, _: b.ssl_client_config() | {"bootstrap.servers": b.sasl_ssl_bootstrap_servers},
            ["asks for a login, and the connection has none", "SASL_SSL"],
            id="no-login-behind-tls",
        ),
        pytest.param(
            lambda b, _: b.sasl_client_config(
                "copier", "OAUTHBEARER",
            ) | {"sasl.oauthbearer.client.secret": "not-the-secret"},
            ["identity provider gave no token", "sasl.oauthbearer.client.secret"],
            id="identity-provider-refuses",
        ),
    ],
)  # fmt: skip
def test_a_refused_login_is_named(
    connection: Connection, broker: KafkaBroker, authority: CertificateAuthority, extra: Change, words: list[str]
) -> None:
    """Also where it is the protocol that is wrong, of which librdkafka says nothing at all."""
    error = _refusal(connection, extra(broker, authority))
    assert type(error) is BrokerAuthenticationError
    assert not error.retriable
    for word in words:
        assert word in str(error)


def test_a_mechanism_that_the_listener_has_not(connection: Connection, misconfigured_broker: KafkaBroker) -> None:
    """The message lists those that it has."""
    scram = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "wrong-pass"}
    servers = {"bootstrap.servers": misconfigured_broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    error = _refusal(connection, servers | scram)
    assert type(error) is BrokerAuthenticationError
    assert "does not have this sasl.mechanism" in str(error)
    assert "PLAIN" in str(error)


def test_a_token_that_is_not_for_this_broker(
    connection: Connection, broker: KafkaBroker, provider: IdentityProvider
) -> None:
    """The provider has nothing against the client, and the broker has."""
    with IdentityProvider(provider.clients, audience="another") as other:
        error = _refusal(
            connection, _oidc(other, broker.sasl_bootstrap_servers) | {"security.protocol": "SASL_PLAINTEXT"}
        )
    assert type(error) is BrokerAuthenticationError
    assert "refused the token" in str(error)


def test_an_identity_provider_that_does_not_answer_may_do_so_later(connection: Connection, broker: KafkaBroker) -> None:
    """It is worth another try, and is asked again for half of the time-out."""
    extra = broker.sasl_client_config("copier", "OAUTHBEARER")
    extra["sasl.oauthbearer.token.endpoint.url"] = "http://127.0.0.1:1/token"
    error = _refusal(connection, extra, timeout=4.0)
    assert type(error) is BrokerUnavailableError
    assert error.retriable
    assert "identity provider does not answer" in str(error)


def test_a_form_in_place_of_properties(connection: Connection, broker: KafkaBroker, java: KafkaJvm) -> None:
    """The connection type of our own, for both clients; its errors name the fields of its form."""
    assert broker.tls is not None
    fields = {
        "conn_type": "kafka_spark",
        "host": broker.sasl_ssl_bootstrap_servers,
        "login": "alice",
        "password": USERS["alice"],
    }
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_ca": broker.tls.ca_pem}
    _java_logs_in(java, _worker_logs_in(connection, extra, **fields), broker)

    connection("kafka_bad", extra=extra, **{**fields, "password": "wrong-pass"})
    with KafkaHook("kafka_bad") as hook, pytest.raises(BrokerAuthenticationError) as raised:
        hook.state(["orders"])
    assert 'sasl.password is "Password" (password)' in str(raised.value)
    assert "wrong-pass" not in str(raised.value)


@needs_kdc
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("changed-password", ["keys in the keytab are not those of the principal", "Create the keytab again"]),
        ("unknown-principal", ["Kerberos does not know the principal.", "Correct sasl.kerberos.principal."]),
        ("ticket-expired", ["There is no valid Kerberos ticket.", "Run kinit"]),
        ("ticket-of-nobody-named-expired", ["There is no valid Kerberos ticket.", "Run kinit"]),
        ("ticket-of-another", ["There is no valid Kerberos ticket.", "as sasl.kerberos.principal if that is named"]),
    ],
)
def test_a_fault_of_kerberos_in_java(
    broker: KafkaBroker,
    java: KafkaJvm,
    kdc: Kdc,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    words: list[str],
) -> None:
    """Each is a refused login, named soon, with what to do."""
    extra = broker.sasl_client_config("carol", "GSSAPI")
    if fault.startswith("ticket"):
        cache = kdc.ticket_cache("carol", life=None if fault == "ticket-of-another" else 1)
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
        deadline = time.monotonic() + 30
        while fault != "ticket-of-another" and kdc.is_valid(cache):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        module = "com.sun.security.auth.module.Krb5LoginModule"
        del extra["sasl.kerberos.keytab"]
        extra["sasl.jaas.config"] = f'{module} required useTicketCache=true ticketCache="{cache}";'
    if fault == "ticket-of-nobody-named-expired":
        del extra["sasl.kerberos.principal"]
    if fault == "ticket-of-another":
        extra["sasl.kerberos.principal"] = kdc.principal("dave")
    if fault in ("changed-password", "unknown-principal"):
        # The same realm, and other keys.
        with Kdc() as other:
            name = "carol" if fault == "changed-password" else "mallory"
            keytab = tmp_path / "other.keytab"
            shutil.copyfile(other.keytab(name), keytab)
        extra |= {"sasl.kerberos.principal": kdc.principal(name), "sasl.kerberos.keytab": str(keytab)}
    config = configure("krb", extra)
    began = time.monotonic()
    with pytest.raises(BrokerAuthenticationError) as caught:
        java.get(java.admin(config.java).describeCluster().clusterId(), "reading the cluster's id")
    assert time.monotonic() - began < 30
    assert not [word for word in words if word not in str(caught.value)], caught.value
    assert "Asn1Exception" not in str(caught.value)


@needs_kdc
@needs_clock
def test_a_clock_that_only_the_tickets_for_the_broker_show() -> None:
    """Java's client logs in to a KDC that asks for no proof of the key, tries again and again for a ticket, and reports
    nothing; so the clocks are what to look at.
    """
    with Kdc(clock_offset=timedelta(minutes=10)) as kdc, KafkaBroker(kerberos=kdc) as broker:
        config = configure("krb", broker.sasl_client_config("alice", "GSSAPI"))
        system = kerberos_properties(kdc.environment)
        began = time.monotonic()
        with (
            KafkaJvm(config.java, "the test's broker", timeout=5.0, system_properties=system) as java,
            pytest.raises(BrokerUnavailableError, match="With Kerberos, also compare the clocks of all machines"),
        ):
            java.get(java.admin().describeCluster().clusterId(), "reading the cluster's id")
        assert time.monotonic() - began < 30


@needs_kdc
@needs_clock
def test_a_broker_with_another_clock_than_the_kdc(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the ticket for one of another time, and says no more than that it refuses it."""
    java, clock = find_java().executable, tmp_path / "clock"
    clock.write_text("+0\n")
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    variables = {
        "LD_PRELOAD": find_clock_library(),
        "FAKETIME_TIMESTAMP_FILE": clock,
        "FAKETIME_CACHE_DURATION": 1,
        "FAKETIME_DISABLE_SHM": 1,
        # Java waits by the monotonic clock.
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        "FAKETIME_FORCE_MONOTONIC_FIX": 0,
    }
    settings = " ".join(f"'{name}={value}'" for name, value in variables.items())
    program.write_text(f"#!/bin/sh\nexec env {settings} '{java}' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    system = kerberos_properties(kdc.environment)
    with KafkaBroker(kerberos=kdc) as broker:
        # Java on the worker has the machine's clock.
        monkeypatch.undo()
        config = configure("krb", broker.sasl_client_config("alice", "GSSAPI"))
        with KafkaJvm(config.java, "the test's broker", timeout=10.0, system_properties=system) as jvm:
            _java_logs_in(jvm, config, broker)
            clock.write_text("+600\n")
            began = time.monotonic()
            # The broker's process looks at the file once a second.
            with pytest.raises(BrokerAuthenticationError) as caught:
                _java_logs_in_again(jvm, config, broker, seconds=30)
    assert time.monotonic() - began < 30
    assert "The broker refused the Kerberos login." in str(caught.value)
    assert "compare the clocks of worker, broker and KDC" in str(caught.value)


@needs_kdc
def test_a_keytab_of_another_principal_is_found_before_anything_is_asked(broker: KafkaBroker, kdc: Kdc) -> None:
    """The message names what to compare."""
    extra = broker.sasl_client_config("alice", "GSSAPI") | {"sasl.kerberos.keytab": str(kdc.keytab("dave"))}
    with pytest.raises(ConnectionConfigError) as raised:
        configure("krb", extra)
    assert "'alice@TEST.LOCAL'" in str(raised.value)
    assert "klist -k" in str(raised.value)
