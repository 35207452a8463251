"""The settings by which Spark itself obtains Kafka's delegation tokens: on YARN and Kubernetes, with Kerberos. No I/O.

Rules: ``KafkaTokenSparkConf``, ``KafkaTokenUtil`` and ``KafkaConfigUpdater`` of Spark's
``spark-token-provider-kafka-0-10``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.client_properties import parse_servers
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, OptionError

_PREFIX = "spark.kafka.clusters"
#: Settings with which Spark requests a token by its own Kerberos login, and logs in with the token.
_LOGIN = "sasl."
_SERVICE = "sasl.kerberos.service.name"
_NAMED = ("bootstrap.servers", "security.protocol")


def obtained_by_spark(configs: Iterable[KafkaClientConfig]) -> list[KafkaClientConfig]:
    """The connections of a job for which Spark can obtain a token: those that log in by Kerberos.

    :raises OptionError: if none does.
    :raises ConnectionConfigError: if two of them lead to the same brokers, or one needs a file that only this worker
        has.
    """
    distinct = {config.conn_id: config for config in configs}
    found = [config for config in distinct.values() if config.mechanism == "GSSAPI"]
    if not found:
        raise OptionError(
            "use_delegation_token='spark' is for connections that log in by Kerberos (GSSAPI), since Spark asks for "
            "tokens with its own Kerberos login; "
            f"{', '.join(f'{c.conn_id!r} has {c.mechanism or c.protocol}' for c in distinct.values())}. Use True: "
            "then the worker makes a token with the connection's login."
        )
    for one, other in ((one, other) for one in found for other in distinct.values() if other is not one):
        # Spark's token replaces any login in the options for these brokers.
        shared = sorted(_servers(one) & _servers(other))
        if shared:
            raise ConnectionConfigError(
                f"Connections {one.conn_id!r} and {other.conn_id!r} both lead to {', '.join(shared)}, and Spark has "
                "one token for each cluster. Use one of them for source and target, or use_delegation_token=True."
            )
    for config in found:
        stores = [name for name in ("ssl.truststore.location", "ssl.keystore.location") if name in config.java]
        if stores:
            raise ConnectionConfigError(
                f"use_delegation_token='spark' needs what the connection {config.conn_id!r} has in {stores[0]} here "
                "and on the cluster, at the same path. Convert the Java key store to PKCS#12 or PEM, which travel "
                "inside of the settings."
            )
    return found


def cluster_settings(configs: Iterable[KafkaClientConfig]) -> dict[str, str]:
    """``spark.kafka.clusters.<id>.*`` for each connection, with a pattern that matches its own servers and no others.
    **Secret**, if a connection has a client certificate.

    :param configs: as :func:`obtained_by_spark` gives them.
    """
    settings: dict[str, str] = {}
    for number, config in enumerate(configs):
        # An id ends at a dot, so two connections may have the same first part.
        prefix = f"{_PREFIX}.{re.sub(r'[^A-Za-z0-9_-]', '_', config.conn_id)}-{number}"
        own = {
            "auth.bootstrap.servers": config.bootstrap_servers,
            "target.bootstrap.servers.regex": "|".join(map(_literally, sorted(_servers(config)))),
            "security.protocol": config.protocol,
            _SERVICE: config.java.get(_SERVICE, "kafka"),
            "sasl.token.mechanism": config.token_mechanism,
        }
        settings |= {f"{prefix}.{name}": value for name, value in own.items()}
        further = {n: v for n, v in config.java.items() if n not in _NAMED and not n.startswith(_LOGIN)}
        settings |= {f"{prefix}.kafka.{name}": value for name, value in further.items()}
    return settings


def without_login(config: KafkaClientConfig) -> KafkaClientConfig:
    """The connection for Spark's source or sink: Spark adds the token if no option has a login."""
    return config.with_java({name: value for name, value in config.java.items() if not name.startswith(_LOGIN)})


def _servers(config: KafkaClientConfig) -> set[str]:
    # Spark compares the parts of bootstrap.servers as they are written.
    return {part.strip() for part in config.java["bootstrap.servers"].split(",")} | {
        str(server) for server in parse_servers(config.bootstrap_servers)
    }


def _literally(text: str) -> str:
    """A Java pattern that matches exactly this text."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text)
