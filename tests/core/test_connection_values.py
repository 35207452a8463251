"""Values of a connection that are no plain text, in every field that a connection has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection import client_config, sasl, tls
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_form import FIELDS, FormFields, extra_of_form
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.spark.java_properties import format_properties, parse_properties

_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
_FILES = LoginFiles(ca_certificates=_PEM, chain=_PEM, key=_PEM, https_ca_certificates=_PEM, jks_trust_store=True)
_SERVERS = {"bootstrap.servers": "b:9092"}
_PASSWORD = {**_SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
_OIDC = {**_SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
_KERBEROS = {**_SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
_TLS = {**_SERVERS, "security.protocol": "SSL"}


def _no_reading(*_: object) -> LoginFiles:
    return _FILES


def _jaas(mechanism: str, **options: str) -> dict[str, str]:
    return {"sasl.jaas.config": JaasLine(sasl.MODULES[mechanism], options).format()}


#: Connections that together set every property, in the words of either client.
_CONNECTIONS: tuple[dict[str, Any], ...] = (
    {**_SERVERS, **dict.fromkeys(sorted(client_config.SAME_FOR_BOTH | client_config.WORKER_ONLY), "1")},
    {
        "metadata.broker.list": "b:9092",
        "delegation.token.mechanism": "SCRAM-SHA-256",
        "delegation.token.max.lifetime.ms": 1,
    },
    {**_PASSWORD, "sasl.username": "ann", "sasl.password": "hunter2", **dict.fromkeys(sasl.JAVA_ONLY, "1")},
    {
        **_OIDC,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "cluster=a",
        "sasl.oauthbearer.sub.claim.name": "sub",
        "sasl.oauthbearer.scope.claim.name": "scope",
        "sasl.oauthbearer.header.urlencode": "false",
        "sasl.oauthbearer.grant.type": "client_credentials",
        "https.ca.location": "/ca.pem",
    },
    {
        **_KERBEROS,
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "copier@REALM",
        "sasl.kerberos.keytab": "/etc/copier.keytab",
        "sasl.kerberos.min.time.before.relogin": "60000",
        "sasl.kerberos.ticket.renew.jitter": "0.05",
        "sasl.kerberos.ticket.renew.window.factor": "0.8",
    },
    {
        **_TLS,
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/c.pem",
        "ssl.key.location": "/k.pem",
        "ssl.key.password": "hunter2",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.providers": "default",
        **dict.fromkeys(tls.JAVA_ONLY, "x"),
    },
    {**_TLS, "ssl.ca.pem": _PEM, "ssl.certificate.pem": _PEM, "ssl.key.pem": _PEM},
    {
        **_TLS,
        "ssl.ca.pem": _PEM,
        "ssl.truststore.location": "/trust.jks",
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": "hunter2",
        "ssl.keystore.location": "/key.jks",
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": "hunter2",
        "ssl.key.password": "hunter2",
    },
    {**_TLS, "ssl.truststore.certificates": _PEM, "ssl.keystore.certificate.chain": _PEM, "ssl.keystore.key": _PEM},
)  # fmt: skip
#: Options of a JAAS line, by mechanism, with what else such a connection has.
_JAAS: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
    (_PASSWORD, {"username": "ann", "password": "hunter2"}),
    (
        {
            **_OIDC,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
        },
        {"clientId": "id", "clientSecret": "secret", "scope": "kafka", "extension_cluster": "a"},
    ),
    (_KERBEROS, {"serviceName": "kafka", "principal": "copier@REALM", "keyTab": "/etc/copier.keytab"}),
    (_KERBEROS, {"principal": "copier@REALM", "useTicketCache": "true", "ticketCache": "/tickets"}),
)
_FORM: tuple[dict[str, Any], ...] = (
    {
        "host": "b:9092",
        "login": "ann",
        "password": "hunter2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "ssl_ca": "/ca.pem",
        "ssl_certificate": "/c.pem",
        "ssl_private_key": "/k.pem",
        "ssl_key_password": "hunter2",
        "verify_host_names": "true",
        "delegation_mechanism": "SCRAM-SHA-256",
        "delegation_max_lifetime_ms": "1",
        "librdkafka": '{"client.id": "copy"}',
    },
    {
        "bootstrap_servers": "b:9092",
        "login": "id",
        "password": "secret",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "oidc_endpoint_url": "https://id.example.com/token",
        "oidc_scope": "kafka",
        "oidc_extensions": "cluster=a",
        "oidc_ca": "/ca.pem",
    },
    {
        "host": "b:9092",
        "login": "copier@REALM",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "kerberos_keytab": "/etc/copier.keytab",
        "kerberos_service_name": "kafka",
    },
)
_HOSTILE = (
    *(
        '"', "'", "\\", "`", "\n", "\r\n", "\t", "\0", "\x7f", "\u00a0", "\u2003", "\u2028", "\u3000", "\ufeff",
        "\ud800",
    ),
    '" -agentlib:jdwp=transport=dt_socket,server=y,address=5005 "',
    "\u2003-XX:OnError=id",
    "$(id)",
    "`id`",
    "; id",
    ',extra=1',
)  # fmt: skip


_OF_EXTRA = [(name, connection) for connection in _CONNECTIONS for name in connection]
_OF_JAAS = [(name, rest, options) for rest, options in _JAAS for name in options]
_OF_FORM = [(name, fields) for fields in _FORM for name in fields]


def _of_extra(name: str, connection: Mapping[str, Any]) -> Callable[[str], KafkaClientConfig]:
    return lambda hostile: translate("c", {**connection, name: _with(str(connection[name]), hostile)}, _no_reading)


def _of_jaas(name: str, rest: Mapping[str, Any], options: Mapping[str, str]) -> Callable[[str], KafkaClientConfig]:
    mechanism = str(rest["sasl.mechanism"])
    return lambda hostile: translate(
        "c", {**rest, **_jaas(mechanism, **{**options, name: _with(options[name], hostile)})}, _no_reading
    )


def _of_form(name: str, fields: Mapping[str, Any]) -> Callable[[str], KafkaClientConfig]:
    def config(hostile: str) -> KafkaClientConfig:
        changed = {**fields, name: _with(str(fields[name]), hostile)}
        host, login, password = (changed.pop(field, None) for field in ("host", "login", "password"))
        return translate("c", extra_of_form(FormFields("c", host, None, login, password, changed)), _no_reading)

    return config


def _with(value: str, hostile: str) -> str:
    half = len(value) // 2
    return value[:half] + hostile + value[half:]


_EVERY = [
    *(pytest.param(_of_extra(name, connection), id=name) for name, connection in _OF_EXTRA),
    *(pytest.param(_of_jaas(name, rest, options), id=f"jaas-{name}") for name, rest, options in _OF_JAAS),
    *(pytest.param(_of_form(name, fields), id=f"form-{name}") for name, fields in _OF_FORM),
]


@pytest.mark.parametrize("config", _EVERY)
def test_a_value_is_refused_or_stays_one_value(config: Callable[[str], KafkaClientConfig]) -> None:
    """Either an error of one line names the connection, or the value is nothing but that value to each client."""
    config("")
    # Kafka's Java client would replace it by what the file has, in a password too.
    reference = "${file:/etc/passwd:root}"
    assert isinstance(_config_or_error(config, reference), str)
    for hostile in (*_HOSTILE, reference):
        found = _config_or_error(config, hostile)
        if isinstance(found, str):
            assert "'c'" in found
            assert found.isprintable(), hostile
            assert "hunter2" not in found
        else:
            _check_one_value(found, hostile)


def _config_or_error(config: Callable[[str], KafkaClientConfig], hostile: str) -> KafkaClientConfig | str:
    try:
        return config(hostile)
    except ConnectionConfigError as error:
        return str(error)


def _check_one_value(found: KafkaClientConfig, hostile: str) -> None:
    # What becomes options of a JVM, parts of a list, or words of a shell, is plain.
    for value in found.system_properties.values():
        assert re.fullmatch(r"https?://[A-Za-z0-9._~:/?&=%+-]+", value), hostile
    for path in found.files:
        assert re.fullmatch(r"[\w ./@+=:~()-]+", path), hostile
    for name in ("sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.service.name"):
        assert re.fullmatch(r"[\w./@+=: ~()-]*", found.librdkafka.get(name, "")), hostile
    assert re.fullmatch(r"[\w.:,-]+", found.bootstrap_servers), hostile
    # What goes by a properties file and a JAAS line reads back as it was.
    assert parse_properties(format_properties(found.java)) == found.java
    if "sasl.jaas.config" in found.java:
        options = parse_jaas(found.java["sasl.jaas.config"]).options
        given = {"sasl.username": "username", "sasl.password": "password"}
        given |= {"sasl.oauthbearer.client.id": "clientId", "sasl.oauthbearer.client.secret": "clientSecret"}
        for name, option in given.items():
            assert options.get(option) == found.librdkafka.get(name), hostile
        assert set(options) <= {*_KNOWN_OPTIONS}, hostile
    # Only names and passwords may be anything; everything else has no character that any reader takes for a sign.
    free = ("username", "password", "oauthbearer.client.id", "client.secret", ".pem")
    for name, value in found.librdkafka.items():
        if not name.endswith(free):
            assert not re.search(r"[\"'\\`]", str(value)), (name, hostile)
            assert str(value).isprintable(), (name, hostile)


_KNOWN_OPTIONS = (
    *("username", "password", "clientId", "clientSecret", "scope", "extension_cluster"),
    *("ssl.truststore.type", "ssl.truststore.certificates", "keyTab", "principal", "ticketCache"),
    *("useKeyTab", "storeKey", "useTicketCache", "doNotPrompt"),
)


def test_every_field_of_the_form_is_tried() -> None:
    assert {name for name, _ in _OF_FORM} == {*FIELDS, "host", "login", "password"}
