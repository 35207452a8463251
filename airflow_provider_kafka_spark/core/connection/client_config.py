"""One Kafka connection -> the configurations of two clients: librdkafka on the worker, the Java client in Spark. No
I/O.

The Extra of an Airflow connection of type ``kafka`` is a librdkafka configuration; that is how the Kafka provider
stores it. Java's names of the same properties are accepted too. A property that one of the two clients does not support
is an error with its name and the reason; it is never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from airflow_provider_kafka_spark.core.connection import sasl, tls
from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles, TokenService, parse_servers
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.connection_form import with_field_names
from airflow_provider_kafka_spark.core.connection.jaas import parse_jaas
from airflow_provider_kafka_spark.core.connection.kerberos import jaas_elsewhere
from airflow_provider_kafka_spark.core.connection.managed import login_handler
from airflow_provider_kafka_spark.core.connection.sasl import Login, parse_sasl
from airflow_provider_kafka_spark.core.connection.tls import Tls, parse_tls
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: Properties with the same name and meaning in both clients, except for a few values.
SAME_FOR_BOTH = frozenset(
    "client.id client.dns.lookup connections.max.idle.ms metadata.max.age.ms reconnect.backoff.ms "
    "reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms".split()
)
#: Values of librdkafka as Java spells them. "Never" is 0 in librdkafka and negative in Java, where 0 closes idle
#: connections at once.
_JAVA_SPELLING: Mapping[str, Callable[[str], str]] = {
    "connections.max.idle.ms": lambda value: value if value.strip().lstrip("+-0") else "-1",
    "client.dns.lookup": str.lower,
}
#: Properties for the worker's short requests, or for consumers that commit; the job has explicit offsets and its own
#: settings.
WORKER_ONLY = frozenset(
    (
        "group.id group.instance.id auto.offset.reset enable.auto.commit enable.auto.offset.store "
        "auto.commit.interval.ms session.timeout.ms heartbeat.interval.ms max.poll.interval.ms "
        "partition.assignment.strategy isolation.level enable.partition.eof debug log_level log.queue "
        "log.connection.close log.thread.name statistics.interval.ms socket.timeout.ms socket.keepalive.enable "
        "socket.nagle.disable socket.max.fails socket.connection.setup.timeout.ms broker.address.family "
        "broker.address.ttl api.version.request api.version.request.timeout.ms api.version.fallback.ms "
        "broker.version.fallback message.max.bytes max.in.flight topic.metadata.refresh.interval.ms "
        "topic.metadata.refresh.fast.interval.ms topic.metadata.propagation.max.ms acks request.required.acks "
        "enable.idempotence allow.auto.create.topics check.crcs error_cb stats_cb logger"
    ).split()
)
#: Those of them that the worker must not pass on: it joins no group and writes nothing. librdkafka's idempotent client
#: requests a permission to write as soon as it is created.
_USELESS_ON_WORKER = ("group.id", "session.timeout.ms", "max.poll.interval.ms", "enable.idempotence")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TOKEN_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
#: Beginnings of the names of all properties of a login or of TLS.
_OF_LOGINS = ("sasl.", "enable.sasl.", "https.", "ssl.", "enable.ssl.")
_TOKEN_MECHANISM, _TOKEN_LIFETIME = "delegation.token.mechanism", "delegation.token.max.lifetime.ms"


@dataclass(frozen=True, slots=True)
class KafkaClientConfig:
    """The configurations made of one connection.

    :param conn_id: where it comes from.
    :param bootstrap_servers: for messages and links.
    :param librdkafka: for confluent-kafka on the worker. **Secret.**
    :param java: for the Java client on this machine, without Spark's ``kafka.`` prefix. **Secret.**
    :param secrets: values that no log may show.
    :param protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
    :param mechanism: of the login, None without one.
    :param user: of the login, for messages, None without one.
    :param files: local paths that the Java client must find where it runs: a keytab, Java key stores. PEM is passed as
        text.
    :param system_properties: required by a JVM in which the Java client runs. Not secret.
    :param token_mechanism: SASL mechanism for a job that logs in with a delegation token.
    :param token_max_lifetime_ms: how long renewals can prolong such a token, in ms; the broker's own maximum if None.
    :param unsupported_by_librdkafka: why librdkafka cannot log in, or None.
    :param token_service: what makes librdkafka's tokens from the worker's own identity, or None.
    :param certificate_expires_at: when the client's own certificate expires, if it has one.
    :param has_form: whether the connection has fields in a form in place of properties.
    """

    conn_id: str
    bootstrap_servers: str
    librdkafka: Mapping[str, Any] = field(repr=False)
    java: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = field(default=None, repr=False)
    files: tuple[str, ...] = ()
    system_properties: Mapping[str, str] = field(default_factory=dict)
    token_mechanism: str = "SCRAM-SHA-512"  # noqa: S105 - the name of a mechanism
    token_max_lifetime_ms: int | None = None
    unsupported_by_librdkafka: str | None = None
    token_service: TokenService | None = None
    certificate_expires_at: datetime | None = None
    has_form: bool = False

    @property
    def login_handler(self) -> str | None:
        """The class of a cloud's that the Java client needs on its class path; None for Kafka's own logins."""
        return login_handler(self.java)

    def with_field_names(self, message: str) -> str:
        """A message that names properties, with the names of the fields in this connection's form."""
        return with_field_names(message) if self.has_form else message

    def spark_options(self, *, by_name: bool = False, folder: str = "") -> dict[str, str]:
        """The Java properties as options of Spark's Kafka source or sink.

        :param by_name: name :attr:`files` by their base name, for drivers and executors on other machines.
        :param folder: where these have the files; empty for their working directory.
        :raises ConnectionConfigError: if the login cannot leave this machine.
        """
        java = self._java_elsewhere(folder) if by_name else self.java
        return {f"kafka.{name}": value for name, value in java.items()}

    def with_java(self, java: Mapping[str, str]) -> KafkaClientConfig:
        """The same connection with another login in Spark, such as a delegation token's.

        :param java: all properties of the Java client. **Secret.** Files that they do not name are not sent with the
            job.
        """
        named = set(java.values())
        if "sasl.jaas.config" in java:
            named |= set(parse_jaas(java["sasl.jaas.config"]).options.values())
        system = self.system_properties if java.get("sasl.mechanism") == self.mechanism else {}
        files = tuple(path for path in self.files if path in named)
        return replace(self, java=java, files=files, system_properties=system)

    def _java_elsewhere(self, folder: str) -> dict[str, str]:
        names = {path: str(PurePath(folder, PurePath(path).name)) for path in self.files}
        java = {name: names.get(value, value) for name, value in self.java.items()}
        if "sasl.jaas.config" in java:
            java["sasl.jaas.config"] = jaas_elsewhere(self.conn_id, java["sasl.jaas.config"], names)
        return java


def translate(
    conn_id: str,
    properties: Mapping[str, Any],
    read_files: Callable[[Tls | None, Login | None], LoginFiles] = lambda _tls, _login: LoginFiles(),
) -> KafkaClientConfig:
    """Make both configurations of a connection's Extra.

    :param conn_id: for messages.
    :param properties: a librdkafka configuration, or one with Java's names.
    :param read_files: returns what the files and PEM texts of the connection hold, by default nothing.
    :raises ConnectionConfigError: if it lacks ``bootstrap.servers``, has a property without a counterpart in one of the
        clients, contradicts itself, or has an incomplete login.
    """
    extra = ConnectionExtra(conn_id, properties)
    servers = _servers(extra, sorted(extra.left))
    given = extra.left.get("security.protocol")
    protocol = (extra.take("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ConnectionConfigError(
            f"security.protocol in connection {conn_id!r} must be one of {', '.join(PROTOCOLS)}; got {given!r}."
        )
    token_mechanism, token_lifetime = _token_settings(extra)
    java = {"bootstrap.servers": servers, "security.protocol": protocol}
    login = parse_sasl(extra, servers) if protocol.startswith("SASL_") else None
    connection_tls = parse_tls(extra) if protocol.endswith("SSL") else None
    further = _taken(extra, (*(sasl.JAVA_ONLY if login else ()), *(tls.JAVA_ONLY if connection_tls else ())))
    both, worker = _taken(extra, sorted(SAME_FOR_BOTH)), _taken(extra, sorted(WORKER_ONLY))
    _validate_rest(extra, protocol, login)
    for name in _USELESS_ON_WORKER:
        worker.pop(name, None)
    spelt = {name: _JAVA_SPELLING.get(name, str)(value) for name, value in both.items()}
    librdkafka = {"bootstrap.servers": servers, **({"security.protocol": protocol} if given else {}), **worker, **both}
    files = read_files(connection_tls, login)
    parts = [part.properties(files) for part in (login, connection_tls) if part is not None]
    return KafkaClientConfig(
        conn_id=conn_id,
        bootstrap_servers=servers,
        librdkafka={**librdkafka, **_merged(part.librdkafka for part in parts)},
        java={**java, **_merged(part.java for part in parts), **further, **spelt},
        secrets=tuple(dict.fromkeys(secret for part in parts for secret in part.secrets)),
        protocol=protocol,
        mechanism=login.mechanism if login else None,
        user=login.user if login else None,
        files=tuple(dict.fromkeys(path for part in parts for path in part.files)),
        system_properties=_merged(part.system_properties for part in parts),
        token_mechanism=token_mechanism,
        token_max_lifetime_ms=token_lifetime,
        unsupported_by_librdkafka=next(filter(None, (part.unsupported_by_librdkafka for part in parts)), None),
        token_service=next(filter(None, (part.token_service for part in parts)), None),
        certificate_expires_at=files.certificate_expires_at,
    )


def joined_system_properties(configs: Iterable[KafkaClientConfig]) -> dict[str, str]:
    """The system properties of a JVM that connects by several connections: a source's and a target's.

    Values are lists with commas, and are joined.
    """
    joined: dict[str, list[str]] = {}
    for config in configs:
        for name, value in config.system_properties.items():
            values = joined.setdefault(name, [])
            values += [value] if value not in values else []
    return {name: ",".join(values) for name, values in joined.items()}


def _servers(extra: ConnectionExtra, names: list[str]) -> str:
    found = [extra.left.get(name) for name in ("bootstrap.servers", "metadata.broker.list")]
    servers = next((text.strip() for text in found if isinstance(text, str) and text.strip()), None)
    if servers is None and any(isinstance(given, list) for given in found):
        raise extra.error(
            "must have one text in bootstrap.servers, such as 'broker-1:9092,broker-2:9092'; got a list. Correct it."
        )
    if servers is None:
        raise ConnectionConfigError(
            f"The connection {extra.conn_id!r} must have 'bootstrap.servers' in its Extra, such as "
            '{"bootstrap.servers": "broker-1:9092"}; '
            f"its Extra has {names or 'nothing'}. Add it under Admin > Connections, or in "
            f"AIRFLOW_CONN_{extra.conn_id.upper()}."
        )
    extra.take("bootstrap.servers", "metadata.broker.list")
    try:
        # Java requires a port; librdkafka has a default.
        return ",".join(str(server) for server in parse_servers(servers))
    except ValueError as error:
        raise extra.error(
            f"must have brokers such as 'broker-1:9092,broker-2:9092' in bootstrap.servers; {error}. Correct it."
        ) from None


def _token_settings(extra: ConnectionExtra) -> tuple[str, int | None]:
    mechanism = (extra.take(_TOKEN_MECHANISM) or TOKEN_MECHANISMS[0]).upper()
    if mechanism not in TOKEN_MECHANISMS:
        raise extra.error(
            f"must have one of {', '.join(TOKEN_MECHANISMS)} for {_TOKEN_MECHANISM}, since brokers accept delegation "
            f"tokens by no other; got {mechanism!r}."
        )
    given = extra.left.get(_TOKEN_LIFETIME)
    lifetime = extra.take(_TOKEN_LIFETIME)
    if lifetime is not None and (isinstance(given, bool) or not lifetime.isdecimal() or int(lifetime) == 0):
        raise extra.error(
            f"must have a whole number of milliseconds above 0 for {_TOKEN_LIFETIME}, such as 604800000 for 7 days; "
            f"got {given!r}."
        )
    return mechanism, int(lifetime) if lifetime else None


def _validate_rest(extra: ConnectionExtra, protocol: str, login: Login | None) -> None:
    of_logins = sorted(name for name in extra.left if name.startswith(_OF_LOGINS))
    if of_logins:
        raise extra.error(
            f"sets {of_logins}, which is not known, or has no effect with security.protocol {protocol}"
            f"{f' and sasl.mechanism {login.mechanism}' if login else ''}. Set security.protocol to the listener's "
            f"(SASL_SSL, SASL_PLAINTEXT or SSL){', and sasl.mechanism' if login else ''}, or remove it."
        )
    for name in extra.left:
        raise extra.error(
            f"sets {name!r}, for which no counterpart in Spark's Java client is known, so the job could not connect as "
            "the worker does. Remove it. A setting that is no login can be given in its Java form, as "
            "'kafka.<property>' in source_options or sink_options."
        )


def _taken(extra: ConnectionExtra, names: Iterable[str]) -> dict[str, str]:
    return {name: value for name in names if (value := extra.take(name)) is not None}


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}
