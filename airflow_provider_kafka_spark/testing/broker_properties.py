"""The server properties of test brokers: short delays, no automatic topic creation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.testing.ports import LOOPBACK

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
#: The service's name in the broker's Kerberos principal, ``kafka/localhost``: what clients set as
#: ``sasl.kerberos.service.name``.
KERBEROS_SERVICE = "kafka"
# A Kerberos client requests a ticket for the name that it connects to; for an address that is the result of a reverse
# look-up.
KERBEROS_HOST = "localhost"
# Without a configuration the log library drops every line, and a failing broker logs nothing.
LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""

_MODULES = "org.apache.kafka.common.security"
_KEYSTORE = "keystore.pem"
_TRUSTSTORE = "truststore.pem"


class Certificate(Protocol):
    """A certificate in PEM, as a broker or its client uses it.

    ``key_pem`` is encrypted if there is a ``password``; ``plain_key_pem``, PKCS#8 as all of Java's keys, never is.
    """

    @property
    def certificate_pem(self) -> str: ...

    @property
    def key_pem(self) -> str: ...

    @property
    def plain_key_pem(self) -> str: ...

    @property
    def password(self) -> str | None: ...


class KerberosRealm(Protocol):
    """A running KDC, as a broker uses it; principals are created if they are missing."""

    @property
    def krb5_conf(self) -> Path: ...

    def principal(self, name: str) -> str: ...

    def keytab(self, principal: str) -> Path: ...


class OidcProvider(Protocol):
    """A running OIDC provider, as a broker and its clients use it; ``clients`` has their ids and secrets."""

    clients: dict[str, str]
    audience: str
    scope: str

    @property
    def issuer(self) -> str: ...

    @property
    def jwks_url(self) -> str: ...

    @property
    def token_url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BrokerTls:
    """The TLS settings of a broker.

    :param certificate: the broker's own, for the hosts 127.0.0.1 and localhost
    :param ca_pem: the authority that signs the clients' certificates and the broker's
    :param client_auth: whether clients of the listener SSL need a certificate. On SASL_SSL they do not
    """

    certificate: Certificate
    ca_pem: str
    client_auth: Literal["none", "requested", "required"] = "none"


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The logins of a broker in addition to the listener without a login; none by default.

    :param sasl_users: user names and passwords, for PLAIN and SCRAM
    :param super_users: principals that may do everything, such as ``"User:admin"``
    """

    sasl_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: BrokerTls | None = None
    kerberos: KerberosRealm | None = None
    identity_provider: OidcProvider | None = None
    authorizer: bool = False
    super_users: Sequence[str] = ()

    def mechanisms(self) -> tuple[str, ...]:
        """Return the SASL mechanisms by which clients log in; none if there are no logins."""
        if not (self.sasl_users or self.kerberos or self.identity_provider):
            return ()
        return (
            *(["PLAIN"] if self.sasl_users else []),
            # Also without users, for clients that log in with a delegation token.
            *SCRAM,
            *(["GSSAPI"] if self.kerberos else []),
            *(["OAUTHBEARER"] if self.identity_provider else []),
        )

    def listeners(self) -> tuple[str, ...]:
        """Return the names of the listeners beside PLAINTEXT and CONTROLLER; each is also its security protocol."""
        return (
            *(["SASL_PLAINTEXT"] if self.mechanisms() else []),
            *(["SSL"] if self.tls else []),
            *(["SASL_SSL"] if self.tls and self.mechanisms() else []),
        )

    def host(self, listener: str) -> str:
        """Return the name under which clients connect to a listener."""
        return KERBEROS_HOST if self.kerberos and listener.startswith("SASL_") else LOOPBACK

    def jvm_options(self) -> list[str]:
        """Return the broker's JVM options for settings without a server property."""
        options = []
        if self.kerberos:
            options.append(f"-Djava.security.krb5.conf={self.kerberos.krb5_conf}")
        if self.identity_provider:
            # Since Kafka 4.0 only URLs in this list are used.
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity_provider.jwks_url}")
        return options


def server_properties(
    folder: Path, ports: Mapping[str, int], security: BrokerSecurity, *, node: int = 1
) -> dict[str, str]:
    """Return the properties of a broker that is its own and only controller.

    :param folder: the broker's folder for its log segments and the stores of :func:`write_tls_stores`
    :param ports: the port of PLAINTEXT, of CONTROLLER and of each of the listeners that ``security`` has
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": _voters({node: ports["CONTROLLER"]}),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "SSL:SSL,SASL_SSL:SASL_SSL",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": "1",
        **_internal_topics(partitions=1, replication=1, min_in_sync=1),
        "group.initial.rebalance.delay.ms": "0",
        # Tests write records of any time, which a broker that is some seconds old would begin to delete.
        "log.retention.ms": "-1",
        # Shorter than the default of 15 s, for tests of compacted topics.
        "log.cleaner.backoff.ms": "200",
        "delegation.token.secret.key": "for-tests-only",
        "controlled.shutdown.enable": "false",
        # Twice a second the controller would write a record for nothing: half of what an idle broker costs.
        "metadata.max.idle.interval.ms": "0",
    }
    for listener in security.listeners():
        if listener.startswith("SASL_"):
            properties |= _logins(listener, security)
        if listener.endswith("SSL") and security.tls:
            properties |= _tls(listener, folder, security.tls)
    if security.authorizer:
        properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        # Clients of the listener without a login: the broker itself, and the test as its administrator.
        properties["super.users"] = ";".join(("User:ANONYMOUS", *security.super_users))
        properties["allow.everyone.if.no.acl.found"] = "false"
    properties["listeners"] = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())
    properties["advertised.listeners"] = ",".join(
        f"{name}://{security.host(name)}:{port}" for name, port in ports.items()
    )
    return properties


def cluster_properties(controller_ports: Mapping[int, int]) -> dict[str, str]:
    """Return the properties in which the nodes of a cluster differ from a single broker.

    A broker that dies or hangs is fenced after three seconds. Up to one may be absent: topics have three replicas, of
    which two must have each record.

    :param controller_ports: the port of CONTROLLER of each node
    """
    return {
        "controller.quorum.voters": _voters(controller_ports),
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        # As many as brokers, so that each may be a coordinator; more would slow down the start.
        **_internal_topics(partitions=3, replication=3, min_in_sync=2),
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "metadata.max.idle.interval.ms": "500",
        "controlled.shutdown.enable": "true",
        # The default is half of a small heap.
        "log.cleaner.dedupe.buffer.size": "8388608",
    }


def _voters(controller_ports: Mapping[int, int]) -> str:
    return ",".join(f"{node}@{LOOPBACK}:{port}" for node, port in controller_ports.items())


def _internal_topics(*, partitions: int, replication: int, min_in_sync: int) -> dict[str, str]:
    return {
        "offsets.topic.num.partitions": str(partitions),
        "offsets.topic.replication.factor": str(replication),
        "transaction.state.log.num.partitions": str(partitions),
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(min_in_sync),
        "share.coordinator.state.topic.num.partitions": str(partitions),
        "share.coordinator.state.topic.replication.factor": str(replication),
        "share.coordinator.state.topic.min.isr": str(min_in_sync),
    }


def write_tls_stores(folder: Path, tls: BrokerTls) -> None:
    """Write the files that a broker needs to speak TLS into its folder."""
    write_secret(folder / _KEYSTORE, tls.certificate.plain_key_pem + tls.certificate.certificate_pem)
    write_secret(folder / _TRUSTSTORE, tls.ca_pem)


def write_secret(file: Path, text: str) -> None:
    """Write a file that at any time only its owner may read."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)


def _tls(listener: str, folder: Path, tls: BrokerTls) -> dict[str, str]:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / _KEYSTORE),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / _TRUSTSTORE),
        "ssl.client.auth": tls.client_auth if listener == "SSL" else "none",
        # A test's certificate has more in its subject, which no test knows.
        "ssl.principal.mapping.rules": "RULE:^(CN=[^,]+),.*$/$1/,DEFAULT",
    }
    return {f"listener.name.{listener.lower()}.{name}": value for name, value in properties.items()}


def _logins(listener: str, security: BrokerSecurity) -> dict[str, str]:
    prefix = f"listener.name.{listener.lower()}"
    users = " ".join(f'user_{user}="{password}"' for user, password in security.sasl_users.items())
    jaas = {
        "PLAIN": f"{_MODULES}.plain.PlainLoginModule required {users};",
        **dict.fromkeys(SCRAM, f"{_MODULES}.scram.ScramLoginModule required;"),
    }
    properties = {"sasl.enabled.mechanisms": ",".join(security.mechanisms())}
    if security.kerberos:
        service = f"{KERBEROS_SERVICE}/{KERBEROS_HOST}"
        jaas["GSSAPI"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{security.kerberos.keytab(service)}" principal="{security.kerberos.principal(service)}";'
        )
        properties["sasl.kerberos.service.name"] = KERBEROS_SERVICE
    if security.identity_provider:
        jaas["OAUTHBEARER"] = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        properties[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = (
            f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        )
        properties["sasl.oauthbearer.jwks.endpoint.url"] = security.identity_provider.jwks_url
        properties["sasl.oauthbearer.expected.issuer"] = security.identity_provider.issuer
        properties["sasl.oauthbearer.expected.audience"] = security.identity_provider.audience
        # The provider's clock is the broker's, and the default of 30 s is longer than the life of a test's tokens.
        properties["sasl.oauthbearer.clock.skew.seconds"] = "0"
    for mechanism in security.mechanisms():
        properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = jaas[mechanism]
    return properties


def check_users(users: Mapping[str, str]) -> None:
    """Check that names and passwords need no quoting in the three places that they are written to.

    :raises OptionError: a name or a password is empty or has such a character
    """
    for user, password in users.items():
        if not user or not password or not set(user + password).isdisjoint(' ,=[]"\\;\n\t'):
            raise OptionError(
                'sasl_users must be names and passwords that are not empty and have no space and none of , = [ ] " '
                f"\\ ;, such as {{'alice': 'secret'}}; got user {user!r}. Choose another name or password."
            )


def as_file(properties: Mapping[str, str | None]) -> str:
    """Return the text of a Java properties file, without those that are None."""
    lines = (
        f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n")
        for name, value in properties.items()
        if value is not None
    )
    return "".join(f"{line}\n" for line in lines)
