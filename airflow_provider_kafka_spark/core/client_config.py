"""One Kafka connection -> the configurations of two clients: librdkafka on the worker, the Java client in Spark. No I/O.

The Extra of an Airflow connection of type ``kafka`` is a librdkafka configuration; that is how the Kafka provider stores it. What cannot be
translated for Java is an error that names the property, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: Same name and meaning in both clients.
_SAME = frozenset(
    "bootstrap.servers security.protocol client.id client.dns.lookup connections.max.idle.ms metadata.max.age.ms reconnect.backoff.ms "
    "reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms sasl.kerberos.service.name ssl.endpoint.identification.algorithm".split()
)
#: They concern the worker's short look-ups, or consumers that commit; the job has explicit offsets and settings of its own.
_WORKER_ONLY = frozenset(
    "group.id group.instance.id auto.offset.reset enable.auto.commit enable.auto.offset.store auto.commit.interval.ms session.timeout.ms "
    "heartbeat.interval.ms max.poll.interval.ms partition.assignment.strategy isolation.level enable.partition.eof debug log_level log.queue "
    "log.connection.close log.thread.name statistics.interval.ms socket.timeout.ms socket.keepalive.enable socket.nagle.disable "
    "socket.max.fails socket.connection.setup.timeout.ms broker.address.family broker.address.ttl api.version.request "
    "api.version.request.timeout.ms api.version.fallback.ms broker.version.fallback message.max.bytes max.in.flight topic.metadata.refresh.interval.ms "
    "topic.metadata.refresh.fast.interval.ms topic.metadata.propagation.max.ms acks request.required.acks enable.idempotence "
    "allow.auto.create.topics check.crcs error_cb stats_cb logger".split()
)
_SASL_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class KafkaClientConfig:
    """The configurations made of one connection.

    :param conn_id: where it comes from.
    :param bootstrap_servers: for messages and links.
    :param librdkafka: for confluent-kafka on the worker. **Secret.**
    :param java: for Spark, without the ``kafka.`` prefix. **Secret.**
    :param secrets: values that no log may show.
    """

    conn_id: str
    bootstrap_servers: str
    librdkafka: Mapping[str, Any] = field(repr=False)
    java: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def spark_options(self) -> dict[str, str]:
        """The Java properties as options of Spark's Kafka source or sink."""
        return {f"kafka.{name}": value for name, value in self.java.items()}


def translate(conn_id: str, extra: Mapping[str, Any]) -> KafkaClientConfig:
    """Make both configurations of a connection's Extra.

    :param conn_id: for messages.
    :param extra: a librdkafka configuration.
    :raises ConnectionConfigError: if it lacks ``bootstrap.servers``, holds something that Java has no counterpart for, or a login is incomplete.
    """
    config = {str(name).strip(): value for name, value in extra.items() if value is not None}
    servers = config.get("bootstrap.servers") or config.get("metadata.broker.list")
    if not isinstance(servers, str) or not servers.strip():
        raise ConnectionConfigError(
            f'The connection {conn_id!r} must have \'bootstrap.servers\' in its Extra, such as {{"bootstrap.servers": "broker-1:9092"}}; '
            f"its Extra has {sorted(config) or 'nothing'}. Add it under Admin > Connections, or in AIRFLOW_CONN_{conn_id.upper()}."
        )
    java: dict[str, str] = {"bootstrap.servers": servers.strip()}
    protocol = str(config.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise ConnectionConfigError(
            f"security.protocol in connection {conn_id!r} must be one of {', '.join(_PROTOCOLS)}; got {config.get('security.protocol')!r}."
        )
    java["security.protocol"] = protocol
    handled = {"bootstrap.servers", "metadata.broker.list", "security.protocol"}
    secrets: list[str] = []
    if protocol.startswith("SASL_"):
        handled |= _translate_sasl(conn_id, config, java, secrets)
    if protocol.endswith("SSL"):
        handled |= _translate_ssl(conn_id, config, java)
    without_effect = sorted(
        name
        for name in config
        if (name.startswith("sasl.") and not protocol.startswith("SASL_"))
        or (name.startswith("ssl.") and not protocol.endswith("SSL"))
    )
    if without_effect:
        raise ConnectionConfigError(
            f"The connection {conn_id!r} sets {without_effect}, which has no effect with security.protocol {protocol}. "
            f"Set security.protocol to the listener's (SASL_SSL, SASL_PLAINTEXT or SSL), or remove them."
        )
    for name, value in config.items():
        if name in handled or name in _WORKER_ONLY:
            continue
        if name not in _SAME:
            raise ConnectionConfigError(
                f"The connection {conn_id!r} sets {name!r}, for which no counterpart in Spark's Java client is known, so the job could not connect as the "
                f"worker does. Remove it. A setting that is no login can be given in its Java form, as 'kafka.<property>' in source_options or sink_options."
            )
        java[name] = _text(value)
    librdkafka = {name: value for name, value in config.items() if name != "group.id"}
    return KafkaClientConfig(conn_id, servers.strip(), librdkafka, java, tuple(secrets))


def _translate_sasl(conn_id: str, config: Mapping[str, Any], java: dict[str, str], secrets: list[str]) -> set[str]:
    mechanism = str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI").upper()
    module = _SASL_LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConnectionConfigError(
            f"sasl.mechanism in connection {conn_id!r} must be one of {', '.join(sorted(_SASL_LOGIN_MODULES))} to be translated for Spark; got "
            f"{mechanism!r}."
        )
    user, password = config.get("sasl.username"), config.get("sasl.password")
    if not user or not password:
        absent = [name for name in ("sasl.username", "sasl.password") if not config.get(name)]
        raise ConnectionConfigError(
            f"sasl.mechanism {mechanism} in connection {conn_id!r} needs {' and '.join(absent)} in its Extra."
        )
    java["sasl.mechanism"] = mechanism
    java["sasl.jaas.config"] = (
        f"{module} required username={_jaas_quote(str(user))} password={_jaas_quote(str(password))};"
    )
    secrets += [str(password), java["sasl.jaas.config"]]
    return {"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"}


def _translate_ssl(conn_id: str, config: Mapping[str, Any], java: dict[str, str]) -> set[str]:
    location, inline = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    if location and inline:
        raise ConnectionConfigError(f"The connection {conn_id!r} sets both ssl.ca.location and ssl.ca.pem; give one.")
    if location:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.location"] = str(location)
    if inline:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.certificates"] = str(inline)
    # librdkafka says "none" where Java wants an empty text.
    if str(config.get("ssl.endpoint.identification.algorithm", "")).lower() == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
        return {"ssl.ca.location", "ssl.ca.pem", "ssl.endpoint.identification.algorithm"}
    return {"ssl.ca.location", "ssl.ca.pem"}


def _jaas_quote(value: str) -> str:
    # Kafka's parser is a StreamTokenizer, whose quoted texts end with the line.
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
