from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.client_config import translate
from airflow_provider_kafka_spark.core.connection.connection_form import FormFields, extra_of_form, with_field_names
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def _extra(
    host: str | None = "b:9093", login: str | None = None, password: str | None = None, **extra: Any
) -> dict[str, Any]:
    return extra_of_form(FormFields("my_kafka", host, None, login, password, extra))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {}, id="servers-alone"),
        pytest.param(
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "login": "ann", "password": "hunter2"},
            {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann",
                "sasl.password": "hunter2",
            },
            id="password",
        ),
        pytest.param(
            {"sasl_mechanism": "GSSAPI", "login": "ann@R", "kerberos_keytab": "/k", "kerberos_service_name": "kafka"},
            {
                "sasl.mechanism": "GSSAPI", "sasl.kerberos.principal": "ann@R", "sasl.kerberos.keytab": "/k",
                "sasl.kerberos.service.name": "kafka",
            },
            id="kerberos",
        ),
        pytest.param(
            {
                "sasl_mechanism": "OAUTHBEARER", "login": "id", "password": "s", "oidc_endpoint_url": "https://id/t",
                "oidc_ca": "/ca",
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.token.endpoint.url": "https://id/t",
                "https.ca.location": "/ca",
            },
            id="identity-provider",
        ),
        pytest.param(
            {
                "ssl_ca": "/ca.pem", "ssl_certificate": _PEM, "ssl_private_key": "/key.pem", "ssl_key_password": "p",
                "verify_host_names": False,
            },
            {
                "ssl.ca.location": "/ca.pem",
                "ssl.certificate.pem": _PEM,
                "ssl.key.location": "/key.pem",
                "ssl.key.password": "p",
                "ssl.endpoint.identification.algorithm": "none",
            },
            id="paths-and-texts",
        ),
        pytest.param(
            {"delegation_mechanism": "SCRAM-SHA-256", "delegation_max_lifetime_ms": 5},
            {"delegation.token.mechanism": "SCRAM-SHA-256", "delegation.token.max.lifetime.ms": 5}, id="tokens",
        ),
        pytest.param({"librdkafka": '{"client.id": "copy"}'}, {"client.id": "copy"}, id="further-as-text"),
        pytest.param(
            {"librdkafka": {"client.id": "copy"}, "debug": None, "socket.timeout.ms": 5},
            {"client.id": "copy", "socket.timeout.ms": 5}, id="further",
        ),
        pytest.param({"sasl_mechanism": "", "ssl_ca": None, "verify_host_names": True}, {}, id="empty-fields"),
    ],
)  # fmt: skip
def test_fields_stand_for_properties(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _extra(**fields) == {"bootstrap.servers": "b:9093", **expected}


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
