"""Logins by a password and by an identity provider, in the words of either client."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas
from airflow_provider_kafka_spark.core.connection.oidc import OidcLogin
from airflow_provider_kafka_spark.core.connection.sasl import MODULES, Login, PasswordLogin, parse_sasl
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_ANN = {"username": "ann", "password": "hunter2"}


def _parse(properties: dict[str, Any]) -> Login:
    extra = ConnectionExtra("my_kafka", properties)
    login = parse_sasl(extra)
    assert extra.left == {}
    return login


def _jaas(mechanism: str, **options: str) -> str:
    return JaasLine(MODULES[mechanism], options).format()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_in_either_clients_words(mechanism: str) -> None:
    librdkafka = {"sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": "hunter2"}
    java = {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(mechanism, **_ANN)}

    for properties in (librdkafka, java, {**librdkafka, **java}):
        login = _parse(properties)
        assert login == PasswordLogin(mechanism, "ann", "hunter2")
        both = login.properties(LoginFiles())
        assert both.librdkafka == librdkafka
        assert both.java == java


def test_a_delegation_token_is_javas_only() -> None:
    """librdkafka cannot log in with one, and says so when it is asked to."""
    line = _jaas("SCRAM-SHA-256", username="id", password="hmac", tokenauth="true")
    both = _parse({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": line}).properties(LoginFiles())

    assert parse_jaas(both.java["sasl.jaas.config"]).options["tokenauth"] == "true"
    assert both.librdkafka == {}
    assert both.unsupported_by_librdkafka is not None
    assert "use_delegation_token=True" in both.unsupported_by_librdkafka


def test_a_password_is_masked_in_every_form_in_which_it_is_written() -> None:
    both = _parse({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": 'x"\\y'}).properties(LoginFiles())

    assert both.secrets == ('x"\\y', 'x\\"\\\\y', both.java["sasl.jaas.config"])


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        pytest.param({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "needs sasl.password", id="no-password"),
        pytest.param(
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _jaas("SCRAM-SHA-256", **_ANN)},
            "ScramLoginModule in sasl.jaas.config, and PLAIN", id="module",
        ),
        pytest.param(
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x required password="hunter2'}, "a quote may be missing",
            id="jaas",
        ),
        pytest.param(
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _jaas("PLAIN", **_ANN, serviceName="k")},
            "['serviceName'] in sasl.jaas.config", id="unknown-option",
        ),
        pytest.param(
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _jaas("PLAIN", **_ANN, tokenauth="true")},
            "brokers take delegation tokens only by SCRAM", id="token-by-plain",
        ),
        pytest.param(
            {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": "my.code"}, "'oauth_cb', which has no counterpart",
            id="callback",
        ),
    ],
)  # fmt: skip
def test_refuses_what_is_no_login(properties: dict[str, Any], words: str) -> None:
    with refuses(ConnectionConfigError, "'my_kafka'", words) as raised:
        _parse(properties)
    assert "hunter2" not in str(raised.value)


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


@pytest.mark.parametrize(
    "properties", [_LIBRDKAFKA, _JAVA, {**_LIBRDKAFKA, **_JAVA}], ids=["librdkafka", "java", "both"]
)
def test_oidc_in_either_clients_words(properties: dict[str, str]) -> None:
    """One login, also for Java clients whose handler had another name."""
    assert _parse(properties) == _LOGIN


def test_oidc_for_both_clients() -> None:
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
def test_refuses_oidc_that_is_incomplete_or_only_one_clients(change: dict[str, Any], words: str) -> None:
    with refuses(ConnectionConfigError, "'my_kafka'", words) as raised:
        _parse({**_LIBRDKAFKA, **change})
    assert "hunter2" not in str(raised.value)
