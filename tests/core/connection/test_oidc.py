from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import parse_jaas
from airflow_provider_kafka_spark.core.connection.oidc import OidcLogin
from airflow_provider_kafka_spark.core.connection.sasl import parse_sasl
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_URL = "https://id.example.com/token"
_LIBRDKAFKA = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": _URL,
    "sasl.oauthbearer.client.id": "copier",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "cluster=a,pool=b",
}
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_JAVA = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    ),
    "sasl.oauthbearer.token.endpoint.url": _URL,
    "sasl.jaas.config": (
        f'{_MODULE} required clientId="copier" clientSecret="hunter2" scope="kafka" extension_cluster="a" '
        'extension_pool="b";'
    ),
}
_LOGIN = OidcLogin(_URL, "copier", "hunter2", "kafka", {"cluster": "a", "pool": "b"})


def _parse(properties: dict[str, Any]) -> OidcLogin:
    extra = ConnectionExtra("my_kafka", properties)
    login = parse_sasl(extra)
    assert extra.left == {}
    assert isinstance(login, OidcLogin)
    return login


@pytest.mark.parametrize(
    "properties", [_LIBRDKAFKA, _JAVA, {**_LIBRDKAFKA, **_JAVA}], ids=["librdkafka", "java", "both"]
)
def test_in_either_clients_words(properties: dict[str, str]) -> None:
    """One login, also for Java clients whose handler had another name."""
    assert _parse(properties) == _LOGIN


def test_for_both_clients() -> None:
    both = _LOGIN.properties(LoginFiles(https_ca_certificates="PEM"))

    assert both.librdkafka == {**_LIBRDKAFKA, "https.ca.pem": "PEM"}
    assert both.java["sasl.login.callback.handler.class"].endswith(".oauthbearer.OAuthBearerLoginCallbackHandler")
    assert parse_jaas(both.java["sasl.jaas.config"]).options == {
        "clientId": "copier",
        "clientSecret": "hunter2",
        "scope": "kafka",
        "extension_cluster": "a",
        "extension_pool": "b",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM",
    }
    assert both.secrets == ("hunter2", both.java["sasl.jaas.config"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"sasl.oauthbearer.method": None}, "sasl.oauthbearer.method 'oidc'", id="no-method"),
        pytest.param(
            {"sasl.oauthbearer.token.endpoint.url": None, "sasl.oauthbearer.client.secret": ""},
            "needs sasl.oauthbearer.token.endpoint.url and sasl.oauthbearer.client.secret", id="incomplete",
        ),
        pytest.param(
            {"sasl.oauthbearer.token.endpoint.url": "https://u:hunter2@id.example.com/t"}, "'@' (U+0040)",
            id="password-in-address",
        ),
        pytest.param(
            {"sasl.oauthbearer.token.endpoint.url": "https://id.example.com/t?client_secret=hunter2"},
            "no secret in sasl.oauthbearer.token.endpoint.url", id="secret-in-address",
        ),
        pytest.param({"sasl.oauthbearer.grant.type": "urn:jwt-bearer"}, "by 'client_credentials' only", id="grant"),
        pytest.param(
            {"sasl.oauthbearer.assertion.file": "/jwt"}, "'sasl.oauthbearer.assertion.file', which has no counterpart",
            id="assertion",
        ),
        pytest.param({"enable.sasl.oauthbearer.unsecure.jwt": True}, "unsigned tokens are not", id="unsecured"),
        pytest.param({"sasl.login.callback.handler.class": "my.Code"}, "names code", id="handler"),
    ],
)  # fmt: skip
def test_refuses_what_is_incomplete_or_only_one_clients(change: dict[str, Any], words: str) -> None:
    with refuses(ConnectionConfigError, "'my_kafka'", words) as raised:
        _parse({**_LIBRDKAFKA, **change})
    assert "hunter2" not in str(raised.value)
