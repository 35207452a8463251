"""Promises of the broker's listeners that ask something of their clients, kept by librdkafka and by Kafka's Java
client.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest
from confluent_kafka import Consumer
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_admin import CLUSTER
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker
from airflow_provider_kafka_spark.toolchain import jars
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES, find_spark_home
from tests.required_tools import needs_kdc
from tests.services.certificates import Certificate, CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

pytestmark = pytest.mark.broker

_USERS = {"alice": "alice's-pass", "bob": "b0b"}
_TOKEN_SECONDS = 10.0
#: By when a token that has ended is refused: before its longest life ends.
_TOKEN_REFUSED_SECONDS, _TOKEN_MAX_SECONDS = 30.0, 40.0
_MODULES = "org.apache.kafka.common.security"
#: What a client whose login is refused may take to find out.
_REFUSED_SECONDS = 3.0
_JAVA_SECONDS = 20


class JavaClient:
    """Kafka's AdminClient of the version that Spark's connector brings, in a JVM of its own."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway

    @contextmanager
    def admin(self, config: Mapping[str, str]) -> Iterator[Any]:
        """An AdminClient, which is always closed."""
        jvm = self._gateway.jvm
        properties = jvm.java.util.Properties()
        waits = {"default.api.timeout.ms": str(_JAVA_SECONDS * 1000), "request.timeout.ms": "5000"}
        for name, value in {**waits, **config}.items():
            properties.setProperty(name, value)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            yield admin
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))

    def result(self, future: Any) -> Any:
        """What a KafkaFuture holds in the end."""
        return future.get(_JAVA_SECONDS + 5, self._gateway.jvm.java.util.concurrent.TimeUnit.SECONDS)

    def cluster_id(self, config: Mapping[str, str]) -> str:
        """Ask for the smallest thing that needs a login."""
        with self.admin(config) as admin:
            return str(self.result(admin.describeCluster().clusterId()))

    def delegation_token(self, config: Mapping[str, str]) -> tuple[str, str]:
        """Return the id and the secret of a new token."""
        with self.admin(config) as admin:
            token = self.result(admin.createDelegationToken().delegationToken())
            return token.tokenInfo().tokenId(), token.hmacAsBase64String()


@contextmanager
def _java_client(*options: str) -> Iterator[JavaClient]:
    home = find_spark_home()
    connector = jars.resolve(home.connector_coordinates, excludes=CONNECTOR_EXCLUDES)
    gateway = JavaGateway.launch_gateway(
        jarpath=str(next(home.jars.glob("py4j-*.jar"))),
        # Kafka's login by OAuth reads JSON with Jackson, which in a driver is there with Spark.
        classpath=os.pathsep.join(map(str, [*connector, *home.jars.glob("jackson-*.jar")])),
        javaopts=["-Xmx256m", *options],
        java_path=str(find_java().executable),
        die_on_exit=True,
    )
    process = gateway.java_process
    try:
        yield JavaClient(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    """A JVM that knows of no Kerberos realm."""
    with _java_client() as client:
        yield client


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    """It signed the valid certificates."""
    return CertificateAuthority()


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """It knows the clients that log in by OAUTHBEARER."""
    with IdentityProvider({"copier": "s3cret", "fired": "s3cret"}) as provider:
        yield provider


@pytest.fixture(scope="module")
def broker(authority: CertificateAuthority, provider: IdentityProvider) -> Iterator[KafkaBroker]:
    """A broker with all listeners, whose users may do everything."""
    tls = BrokerTls(authority.issue("broker", password="k3y"), authority.ca_pem, "requested")
    with KafkaBroker(sasl_users=_USERS, tls=tls, identity_provider=provider) as broker:
        yield broker


@pytest.fixture(scope="module")
def strict_broker(authority: CertificateAuthority) -> Iterator[KafkaBroker]:
    """A broker that asks for certificates and has ACLs, and whose delegation tokens are good for seconds."""
    with KafkaBroker(
        sasl_users=_USERS,
        tls=BrokerTls(authority.issue("broker", rsa_key=True), authority.ca_pem, "required"),
        authorizer=True,
        super_users=["User:bob"],
        properties={
            "delegation.token.expiry.time.ms": str(int(_TOKEN_SECONDS * 1000)),
            "delegation.token.max.lifetime.ms": str(int(_TOKEN_MAX_SECONDS * 1000)),
            "delegation.token.expiry.check.interval.ms": "500",
        },
    ) as broker:
        yield broker


@pytest.fixture(autouse=True)
def plain_py4j(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other tests have run Spark in this process, PySpark has replaced how py4j raises."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    """The realm of the tests that log in by Kerberos."""
    with Kdc() as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kerberos_broker(kdc: Kdc, authority: CertificateAuthority) -> Iterator[KafkaBroker]:
    """A broker whose users are those of a realm, and nobody else."""
    with KafkaBroker(kerberos=kdc, tls=BrokerTls(authority.issue("broker"), authority.ca_pem)) as broker:
        yield broker


@pytest.fixture(scope="module")
def kerberos_java(kdc: Kdc) -> Iterator[JavaClient]:
    """A JVM in the realm."""
    with _java_client(f"-Djava.security.krb5.conf={kdc.krb5_conf}") as client:
        yield client


@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize(
    ("user", "mechanism"),
    [("alice", "PLAIN"), ("alice", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512"), ("copier", "OAUTHBEARER")],
)
def test_a_user_writes_and_reads(broker: KafkaBroker, user: str, mechanism: str, tls: bool) -> None:
    """By every mechanism, at both listeners that ask for a login."""
    _write_and_read(broker, broker.sasl_client_config(user, mechanism, tls=tls))


@pytest.mark.parametrize("with_certificate", [False, True], ids=["one-way", "mutual"])
def test_a_client_writes_and_reads_by_tls(
    broker: KafkaBroker, authority: CertificateAuthority, with_certificate: bool
) -> None:
    """With and without a certificate of its own, where the broker asks for one and does not insist."""
    _write_and_read(broker, broker.ssl_client_config(authority.issue("writer") if with_certificate else None))


@pytest.mark.parametrize("rsa_key", [False, True], ids=["ec", "rsa"])
def test_java_shows_a_certificate_too(
    java: JavaClient, strict_broker: KafkaBroker, authority: CertificateAuthority, rsa_key: bool
) -> None:
    """A key store in PEM, with either kind of key."""
    certificate = authority.issue("java", rsa_key=rsa_key)
    assert certificate.key_pem == certificate.plain_key_pem
    config = _key_store(strict_broker, certificate, certificate.plain_key_pem)
    assert java.cluster_id(config) == strict_broker.cluster_id


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param(lambda it: it.traditional_key_pem, "Private key could not be loaded", id="pkcs1"),
        pytest.param(lambda it: it.key_pem, "PBES2 SecretKeyFactory not available", id="encrypted"),
    ],
)
def test_java_refuses_keys_that_librdkafka_takes(
    java: JavaClient,
    strict_broker: KafkaBroker,
    authority: CertificateAuthority,
    key: Callable[[Certificate], str],
    reason: str,
) -> None:
    """Of each kind of key file there is one here to test what is made of it."""
    certificate = authority.issue("both", password="s3cret", rsa_key=True)
    librdkafka = {**strict_broker.ssl_client_config(certificate), "ssl.key.pem": key(certificate)}
    assert isinstance(_client(librdkafka).topics(), set)
    with pytest.raises(Py4JJavaError, match=reason):
        java.cluster_id(_key_store(strict_broker, certificate, key(certificate)))


Change = Callable[[CertificateAuthority], dict[str, str]]


def _with_key(authority: CertificateAuthority, **how: Any) -> dict[str, str]:
    certificate = authority.issue("writer", **how)
    return {"ssl.certificate.pem": certificate.certificate_pem, "ssl.key.pem": certificate.key_pem}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: {"ssl.ca.pem": CertificateAuthority().ca_pem}, id="the-client-trusts-another-authority"),
        pytest.param(lambda _: {"ssl.certificate.pem": "", "ssl.key.pem": ""}, id="no-certificate"),
        pytest.param(lambda _: _with_key(CertificateAuthority()), id="of-another-authority"),
        pytest.param(
            lambda authority: _with_key(authority, valid_until=datetime.now(timezone.utc) - timedelta(minutes=1)),
            id="expired",
        ),
    ],
)
def test_a_certificate_that_is_not_good_is_refused(
    strict_broker: KafkaBroker, authority: CertificateAuthority, change: Change
) -> None:
    """By whichever side has the reason."""
    good = strict_broker.ssl_client_config(authority.issue("writer"))
    assert isinstance(_client(good).topics(), set)
    bad = {name: value for name, value in {**good, **change(authority)}.items() if value}
    with pytest.raises(LocalServiceError, match=r"(?i)ssl|certificate"):
        _client(bad, _REFUSED_SECONDS).topics()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param({"hosts": ["elsewhere.example"]}, "certificate verify failed", id="another-host"),
        pytest.param(
            {"valid_until": datetime.now(timezone.utc) - timedelta(minutes=1)},
            "certificate verify failed",
            id="expired",
        ),
    ],
)
def test_a_broker_with_a_bad_certificate_starts_and_is_refused(
    authority: CertificateAuthority, how: dict[str, Any], reason: str
) -> None:
    """The test's own listener has no TLS, so that what clients make of such a broker can be tested."""
    with KafkaBroker(tls=BrokerTls(authority.issue("broker", **how), authority.ca_pem)) as broker:
        assert broker.topics() == set()
        with pytest.raises(LocalServiceError, match=reason):
            _client(broker.ssl_client_config(), _REFUSED_SECONDS).topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_behind_tls_too(broker: KafkaBroker, mechanism: str) -> None:
    """The certificate does not replace the login."""
    config = {**broker.sasl_client_config("alice", mechanism, tls=True), "sasl.password": "wrong"}
    with pytest.raises(LocalServiceError, match="Authentication failed"):
        _client(config, _REFUSED_SECONDS).topics()


def test_a_client_that_the_provider_refuses_does_not_get_in(broker: KafkaBroker, provider: IdentityProvider) -> None:
    """With a wrong secret, or revoked; the provider counts both."""
    wrong = {**broker.sasl_client_config("copier", "OAUTHBEARER"), "sasl.oauthbearer.client.secret": "wrong"}
    provider.revoke("fired")
    for config in (wrong, broker.sasl_client_config("fired", "OAUTHBEARER")):
        refused = provider.tokens_refused
        with pytest.raises(LocalServiceError):
            _client(config, _REFUSED_SECONDS).topics()
        assert provider.tokens_refused > refused


def test_a_consumer_logs_in_by_oauth_without_being_polled(broker: KafkaBroker) -> None:
    """The look-ups that a worker makes do not poll, and get their token all the same."""
    with closing(Consumer({**broker.sasl_client_config("copier", "OAUTHBEARER"), "group.id": "look-up"})) as consumer:
        assert consumer.list_topics(timeout=10).cluster_id == broker.cluster_id


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"life": -1}, id="expired"),
        pytest.param({"aud": "another"}, id="for-another-audience"),
        pytest.param({"iss": "http://elsewhere"}, id="of-another-issuer"),
    ],
)
def test_the_broker_checks_the_token(broker: KafkaBroker, provider: IdentityProvider, claims: dict[str, Any]) -> None:
    """A token that is signed by the provider and is not for this broker, or not any longer, is none."""

    def config(token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            # The client believes that it is good for an hour.
            "oauth_cb": lambda _: (token, time.time() + 3600),
        }

    assert isinstance(_client(config(provider.token("somebody"))).topics(), set)
    with pytest.raises(LocalServiceError, match=r"invalid_token|Authentication failed"):
        _client(config(provider.token("somebody", **claims)), _REFUSED_SECONDS).topics()


@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
def test_java_logs_in_by_oauth(java: JavaClient, broker: KafkaBroker, provider: IdentityProvider, tls: bool) -> None:
    """By the login handler that comes with the client."""
    before = provider.tokens_granted
    assert java.cluster_id(_oauth(broker, provider, "s3cret", tls)) == broker.cluster_id
    assert provider.tokens_granted > before
    with pytest.raises(Py4JJavaError, match=r"(?i)unauthorized|invalid_client|401|login"):
        java.cluster_id(_oauth(broker, provider, "wrong", tls))


@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
def test_a_delegation_token_is_a_login_until_it_expires(
    java: JavaClient, strict_broker: KafkaBroker, tls: bool
) -> None:
    """An authenticated client gets a token, which logs in for the time in the broker's properties."""
    token_id, secret = java.delegation_token(_scram(strict_broker, "alice", _USERS["alice"], tls))
    made = time.monotonic()
    login = _scram(strict_broker, token_id, secret, tls, token=True)
    _until_a_login(java, login, _TOKEN_SECONDS)
    time.sleep(max(0.0, made + _TOKEN_SECONDS + 1.5 - time.monotonic()))
    with pytest.raises(Py4JJavaError, match="SaslAuthenticationException"):
        _while_a_login(java, login, made + _TOKEN_REFUSED_SECONDS)


def test_a_broker_can_have_no_delegation_tokens(java: JavaClient) -> None:
    """A property that is None is left out, and without its key the broker refuses requests for tokens."""
    with (
        KafkaBroker(sasl_users=_USERS, properties={"delegation.token.secret.key": None}) as broker,
        pytest.raises(Py4JJavaError, match="DelegationTokenDisabledException"),
    ):
        java.delegation_token(_scram(broker, "alice", _USERS["alice"], tls=False))


def test_a_user_may_do_what_an_acl_says(strict_broker: KafkaBroker) -> None:
    """Nothing else, and no longer than it is there."""
    topic = strict_broker.create_topic("acl-orders")
    alice = _client(strict_broker.sasl_client_config("alice"), timeout=10)
    strict_broker.produce(topic, [Record(value=b"1")])
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        alice.consume(topic)
    strict_broker.add_acl("User:alice", "read", "topic", "acl-", "prefixed")
    strict_broker.add_acl("User:alice", "read", "group", "testing-", "prefixed")
    assert len(alice.consume(topic)) == 1
    with pytest.raises(LocalServiceError, match=r"(?i)topic authorization failed"):
        alice.produce(topic, [Record(value=b"2")])
    strict_broker.add_acl("User:alice", "write", "topic", topic)
    alice.produce(topic, [Record(value=b"2")])
    strict_broker.remove_acl("User:alice", "read", "topic", "acl-", "prefixed")
    strict_broker.remove_acl("User:alice", "write", "topic", topic)
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        alice.consume(topic)


def test_a_super_user_needs_no_acl(strict_broker: KafkaBroker) -> None:
    """Neither do clients of the listener without a login."""
    bob = _client(strict_broker.sasl_client_config("bob", tls=True))
    bob.produce(bob.create_topic("bobs"), [Record(value=b"1")])
    assert len(strict_broker.consume("bobs")) == 1


def test_a_client_with_a_certificate_is_a_user(strict_broker: KafkaBroker, authority: CertificateAuthority) -> None:
    """Its name is that of its certificate."""
    writer = _client(strict_broker.ssl_client_config(authority.issue("carol")), timeout=10)
    with pytest.raises(LocalServiceError, match=r"(?i)authorization failed"):
        writer.create_topic("carols")
    strict_broker.add_acl("User:CN=carol", "create", "cluster", CLUSTER)
    strict_broker.add_acl("User:CN=carol", "write", "topic", "carols")
    writer.produce(writer.create_topic("carols"), [Record(value=b"1")])
    assert len(strict_broker.consume("carols")) == 1


def test_an_acl_that_is_not_there_cannot_be_removed(strict_broker: KafkaBroker) -> None:
    """A test that takes back what it never gave has a mistake in it."""
    with pytest.raises(LocalServiceError, match="no such ACL"):
        strict_broker.remove_acl("User:alice", "read", "topic", "never-given")


@pytest.mark.parametrize(
    "acl",
    [
        pytest.param(("raed", "topic", "t", "literal"), id="operation"),
        pytest.param(("read", "tpoic", "t", "literal"), id="resource-type"),
        pytest.param(("read", "topic", "t", "prefix"), id="pattern"),
    ],
)
def test_a_misspelt_acl_is_refused(strict_broker: KafkaBroker, acl: tuple[str, str, str, str]) -> None:
    """With the names that there are."""
    with pytest.raises(OptionError, match=r"must be one of \[.*'(read|topic|prefixed)'"):
        strict_broker.add_acl("User:alice", *acl)


def test_an_acl_needs_an_authorizer(broker: KafkaBroker) -> None:
    """Without one it would change nothing, and the broker says so."""
    with pytest.raises(LocalServiceError, match=r"must add the ACL.*(?i:authorizer)"):
        broker.add_acl("User:alice", "read", "topic", "t")


def test_a_listener_or_user_that_is_not_there_is_an_error(broker: KafkaBroker, authority: CertificateAuthority) -> None:
    """Before a client fails with less to say."""
    plain = KafkaBroker()
    for config in (plain.ssl_client_config, lambda: plain.sasl_client_config("alice")):
        with pytest.raises(OptionError, match=r"must run and have a listener SA?SL"):
            config()
    with pytest.raises(OptionError, match=r"one of the broker's mechanisms.*'GSSAPI'"):
        broker.sasl_client_config("alice", "GSSAPI")
    for user, mechanism in (("copier", "PLAIN"), ("alice", "OAUTHBEARER")):
        with pytest.raises(OptionError, match=f"user must be one of .* for {mechanism}; got '{user}'"):
            broker.sasl_client_config(user, mechanism)


def test_keys_are_for_the_owner_only(broker: KafkaBroker) -> None:
    """Other users of this machine cannot read the broker's files."""
    stores = list(Path(tempfile.gettempdir()).glob("kafka-broker-*/*.pem"))
    assert {file.name for file in stores} == {"keystore.pem", "truststore.pem"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in stores} == {0o600}


@needs_kdc
@pytest.mark.parametrize("tls", [False, True], ids=["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("way", ["keytab", "ticket-cache"])
def test_a_principal_logs_in(
    kerberos_java: JavaClient, kerberos_broker: KafkaBroker, kdc: Kdc, way: str, tls: bool
) -> None:
    """By its keytab or by a ticket that it has, at both listeners."""
    login = _krb5(kdc, "alice", kdc.ticket_cache("alice") if way == "ticket-cache" else None)
    config = {**_sasl(kerberos_broker, "GSSAPI", tls), **login}
    assert kerberos_java.cluster_id(config) == kerberos_broker.cluster_id


@needs_kdc
def test_a_principal_gets_a_delegation_token(kerberos_java: JavaClient, kerberos_broker: KafkaBroker, kdc: Kdc) -> None:
    """With which it logs in without Kerberos, although the broker has no users of its own."""
    config = {**_sasl(kerberos_broker, "GSSAPI", tls=False), **_krb5(kdc, "alice")}
    token_id, secret = kerberos_java.delegation_token(config)
    login = _scram(kerberos_broker, token_id, secret, tls=False, token=True)
    _until_a_login(kerberos_java, login, 10)


@needs_kdc
def test_a_ticket_that_expired_is_no_login(kerberos_java: JavaClient, kerberos_broker: KafkaBroker, kdc: Kdc) -> None:
    """Nor is a key of another realm's principal of the same name."""
    cache = kdc.ticket_cache("alice", life=1)
    time.sleep(2)
    with Kdc() as other:
        kdc.keytab("alice")
        for login in (_krb5(kdc, "alice", cache), _krb5(other, "alice")):
            with pytest.raises(Py4JJavaError, match="LoginException"):
                kerberos_java.cluster_id({**_sasl(kerberos_broker, "GSSAPI", tls=False), **login})


@needs_kdc
def test_the_librdkafka_properties_of_a_principal_are_complete(kerberos_broker: KafkaBroker, kdc: Kdc) -> None:
    """The wheel of confluent-kafka has no GSSAPI to try them with, but a connection for Airflow is written in them."""
    assert kerberos_broker.sasl_client_config("dave", "GSSAPI") == {
        "bootstrap.servers": kerberos_broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "dave@TEST.LOCAL",
        "sasl.kerberos.keytab": str(kdc.keytab("dave")),
    }


def _write_and_read(broker: KafkaBroker, config: Mapping[str, Any]) -> None:
    topic = broker.create_topic(f"secured-{time.monotonic_ns()}")
    client = _client(config)
    client.produce(topic, [Record(b"key", b"value")])
    assert [(record.key, record.value) for record in client.consume(topic)] == [(b"key", b"value")]


def _until_a_login(java: JavaClient, config: Mapping[str, str], seconds: float) -> None:
    """A new delegation token is not visible at once."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            java.cluster_id(config)
            return
        except Py4JJavaError:
            if time.monotonic() > deadline:
                raise


def _while_a_login(java: JavaClient, config: Mapping[str, str], deadline: float) -> None:
    """An expired one is found out when the broker looks through its tokens."""
    while True:
        java.cluster_id(config)
        if time.monotonic() > deadline:
            return


def _client(config: Mapping[str, Any], timeout: float = 20) -> BrokerClient:
    return BrokerClient(config["bootstrap.servers"], config, timeout=timeout)


def _trust(broker: KafkaBroker, protocol: str, servers: str) -> dict[str, str]:
    assert broker.tls is not None
    return {
        "bootstrap.servers": servers,
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": broker.tls.ca_pem,
    }


def _key_store(broker: KafkaBroker, certificate: Certificate, key: str) -> dict[str, str]:
    return {
        **_trust(broker, "SSL", broker.ssl_bootstrap_servers),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.certificate_pem,
        "ssl.keystore.key": key,
        **({"ssl.key.password": certificate.password} if certificate.password and "ENCRYPTED" in key else {}),
    }


def _sasl(broker: KafkaBroker, mechanism: str, tls: bool) -> dict[str, str]:
    where = (
        _trust(broker, "SASL_SSL", broker.sasl_ssl_bootstrap_servers)
        if tls
        else {"bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    )
    return {**where, "sasl.mechanism": mechanism}


def _scram(broker: KafkaBroker, user: str, password: str, tls: bool, *, token: bool = False) -> dict[str, str]:
    jaas = f'{_MODULES}.scram.ScramLoginModule required username="{user}" password="{password}"'
    more = ' tokenauth="true"' if token else ""
    return {**_sasl(broker, "SCRAM-SHA-512", tls), "sasl.jaas.config": f"{jaas}{more};"}


def _oauth(broker: KafkaBroker, provider: IdentityProvider, secret: str, tls: bool) -> dict[str, str]:
    module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
    return {
        **_sasl(broker, "OAUTHBEARER", tls),
        "sasl.jaas.config": f'{module} clientId="copier" clientSecret="{secret}" scope="kafka";',
        "sasl.login.callback.handler.class": f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }


def _krb5(kdc: Kdc, principal: str, cache: Path | None = None) -> dict[str, str]:
    by = (
        f'useKeyTab=true storeKey=true keyTab="{kdc.keytab(principal)}"'
        if cache is None
        else f'useTicketCache=true ticketCache="{cache}"'
    )
    module = "com.sun.security.auth.module.Krb5LoginModule required doNotPrompt=true"
    return {
        "sasl.jaas.config": f'{module} {by} principal="{kdc.principal(principal)}";',
        "sasl.kerberos.service.name": "kafka",
    }
