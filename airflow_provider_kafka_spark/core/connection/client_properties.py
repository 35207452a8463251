"""What both clients read of a connection: its brokers, and the properties of its login and its TLS. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from airflow_provider_kafka_spark.core.secrets import without_user

DEFAULT_PORT = 9092
#: Brokers to begin with. librdkafka has a thread for each.
_MAX_SERVERS = 100

#: librdkafka and Java both accept a protocol prefix. An IPv6 address is in brackets if a port follows.
_SERVER = re.compile(r"(?:[A-Za-z_]+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[\w.-]+))(?::(?P<port>\d{1,5}))?")


class Server(NamedTuple):
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_servers(text: str, default_port: int = DEFAULT_PORT) -> list[Server]:
    """Read a list of brokers.

    >>> [str(server) for server in parse_servers("broker-1:9093, broker-2,[::1]:9092")]
    ['broker-1:9093', 'broker-2:9092', '[::1]:9092']

    :param default_port: for brokers without a port; librdkafka's default is 9092, and Java requires a port.
    :raises ValueError: naming the first part that is not a ``host:port``, or if there are more than 100 brokers.
    """
    servers = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        # An IPv6 address alone needs no brackets.
        found = _SERVER.fullmatch(f"[{part}]" if part.count(":") > 1 and "[" not in part and "/" not in part else part)
        port = int(found["port"] or default_port) if found else 0
        if found is None or not 0 < port < 65536:
            raise ValueError(f"{without_user(part)[:100]!r} is no host:port")
        servers.append(Server(found["ipv6"] or found["host"], port))
    if len(servers) > _MAX_SERVERS:
        raise ValueError(f"got {len(servers):,} of at most {_MAX_SERVERS}; the others are found by these")
    return servers


@dataclass(frozen=True, slots=True)
class TokenService:
    """What makes the worker's access tokens from its own identity: ``aws-msk-iam`` in a region, or ``google``."""

    provider: str
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Properties of the same meaning for both clients.

    :param librdkafka: for confluent-kafka on the worker. **Secret.**
    :param java: for the Java client on this machine. **Secret.**
    :param secrets: values that no log may show.
    :param files: paths that the Java client must find where it runs.
    :param system_properties: of the JVM in which the Java client runs. Not secret.
    :param unsupported_by_librdkafka: why librdkafka cannot use the login, or None.
    :param token_service: what makes librdkafka's tokens, or None.
    """

    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    java: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    files: tuple[str, ...] = ()
    system_properties: Mapping[str, str] = field(default_factory=dict)
    unsupported_by_librdkafka: str | None = None
    token_service: TokenService | None = None


@dataclass(frozen=True, slots=True)
class LoginFiles:
    """The contents of a connection's files and PEM texts, which
    :mod:`~airflow_provider_kafka_spark.clients.connection.files` reads on the worker, in the form that both clients
    accept.

    :param ca_certificates: certificates (PEM) of the authorities that sign the brokers' certificates; empty for the
        machine's trust store.
    :param chain: the client's certificate (PEM) and its intermediate certificates.
    :param key: its private key: PKCS#8, PEM, not encrypted, the only form that every Java reads. **Secret.**
    :param certificate_expires_at: when the client's certificate expires.
    :param jks_trust_store: the file of ``ssl.truststore.location`` is a Java key store, which only Java can read.
    :param jks_key_store: the same of ``ssl.keystore.location``.
    :param https_ca_certificates: certificates (PEM) for the identity provider.
    :param ticket_cache: path of the worker's Kerberos tickets.
    """

    ca_certificates: str = field(default="", repr=False)
    chain: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    certificate_expires_at: datetime | None = None
    jks_trust_store: bool = False
    jks_key_store: bool = False
    https_ca_certificates: str = field(default="", repr=False)
    ticket_cache: str | None = None
