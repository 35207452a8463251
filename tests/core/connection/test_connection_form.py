from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.connection.connection_form import FormFields, extra_of_form, with_field_names
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def _extra(
    host: str | None = "b:9093", login: str | None = None, password: str | None = None, **extra: Any
) -> dict[str, Any]:
    return extra_of_form(FormFields("my_kafka", host, None, login, password, extra))


_PASSWORD = {"sasl_mechanism": "PLAIN", "login": "ann", "password": "hunter2"}
_KERBEROS = {"sasl_mechanism": "GSSAPI", "login": "ann@R", "kerberos_keytab": "/k", "kerberos_service_name": "kafka"}
_LOGIN = {"sasl_mechanism": "OAUTHBEARER", "login": "id", "password": "s"}
_OIDC = {**_LOGIN, "oidc_endpoint_url": "https://id/t", "oidc_ca": "/ca"}
_FILES = {"ssl_ca": "/ca.pem", "ssl_certificate": _PEM, "ssl_private_key": "/key.pem", "ssl_key_password": "p"}
_TOKENS = {"delegation_mechanism": "SCRAM-SHA-256", "delegation_max_lifetime_ms": 5}
_METHOD = {"sasl.oauthbearer.method": "oidc"}


@pytest.mark.parametrize(
    ("fields", "names", "more"),
    [
        ({}, "", {}),
        ({"security_protocol": "SASL_SSL"}, "security.protocol", {}),
        (_PASSWORD, "sasl.mechanism sasl.username sasl.password", {}),
        (_KERBEROS, "sasl.mechanism sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.service.name", {}),
        (_OIDC, "sasl.mechanism {0}.client.id {0}.client.secret {0}.token.endpoint.url https.ca.location", _METHOD),
        (_FILES, "ssl.ca.location ssl.certificate.pem ssl.key.location ssl.key.password", {}),
        (_TOKENS, "delegation.token.mechanism delegation.token.max.lifetime.ms", {}),
        ({"verify_host_names": False}, "", {"ssl.endpoint.identification.algorithm": "none"}),
        ({"librdkafka": '{"client.id": "copy"}'}, "", {"client.id": "copy"}),
        ({"librdkafka": {"client.id": "c"}, "socket.timeout.ms": 5}, "", {"client.id": "c", "socket.timeout.ms": 5}),
        ({"debug": None, "sasl_mechanism": "", "ssl_ca": None, "verify_host_names": True}, "", {}),
    ],
)
def test_fields_stand_for_properties(fields: dict[str, Any], names: str, more: dict[str, Any]) -> None:
    """Most for one each, with the same value."""
    same = dict(zip(names.format("sasl.oauthbearer").split(), fields.values(), strict=False))

    assert _extra(**fields) == {"bootstrap.servers": "b:9093", **same, **more}


@pytest.mark.parametrize(
    ("host", "port", "field", "servers"),
    [
        ("b", 9093, None, "b:9093"),
        ("b-1,b-2:1", 9093, None, "b-1:9093,b-2:1"),
        ("b", None, None, "b:9092"),
        (None, None, "b:1,c:2", "b:1,c:2"),
        ("b:1", None, "b:1", "b:1"),
    ],
)
def test_servers_are_the_host_or_a_field(host: str | None, port: int | None, field: str | None, servers: str) -> None:
    extra = extra_of_form(FormFields("c", host, port, extra={"bootstrap_servers": field}))
    assert translate("c", extra).bootstrap_servers == servers


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"sasl_mechanisn": "PLAIN"}, ["'my_kafka'", "'sasl_mechanisn'", "Did you mean 'sasl_mechanism'?"],
            id="misspelt",
        ),
        pytest.param(
            {"host": "b:1", "bootstrap_servers": "c:1"},
            ["'b:1' in \"Bootstrap servers\" (host)", "'c:1' in bootstrap_servers"],
            id="servers-twice",
        ),
        pytest.param({"host": "b:port"}, ["'b:port' is no host:port"], id="no-host"),
        pytest.param(
            {"sasl_mechanism": "PLAIN", "librdkafka": {"sasl.mechanism": "GSSAPI"}},
            ["['sasl.mechanism']", "different values"], id="two-mechanisms",
        ),
        pytest.param(
            {"sasl_mechanism": "GSSAPI", "password": "hunter2"}, ["Kerberos", '"Kerberos keytab" (kerberos_keytab)'],
            id="kerberos-with-a-password",
        ),
        pytest.param({"librdkafka": "{"}, ["no JSON"], id="no-json"),
        pytest.param({"librdkafka": "[1]"}, ["got a list"], id="no-object"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be(fields: dict[str, Any], words: list[str]) -> None:
    with refuses(ConnectionConfigError, *words) as raised:
        _extra(**fields)
    assert "hunter2" not in str(raised.value)


def test_messages_name_the_fields_of_the_form() -> None:
    """A user of the form does not know librdkafka's names; where a name is only part of another it is not meant."""
    message = with_field_names("needs sasl.password. And ssl.key.password, not ssl.key.")
    assert message.endswith(
        'In this connection\'s form, ssl.key.password is "Password of the client key" (ssl_key_password), '
        'sasl.password is "Password" (password).'
    )
    assert with_field_names("nothing of it") == "nothing of it"
