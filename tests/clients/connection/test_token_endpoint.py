"""Promises for a connection whose token endpoint is another service: it learns nothing of what that answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, KafkaSparkError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.toolchain.settings import TOKEN_ENDPOINT_HOSTS
from tests.web_server import serving


@pytest.fixture
def internal_service() -> Iterator[str]:
    """The address of a web service that knows no OAuth."""

    with serving(lambda *_: (404, "hunter2")) as address:
        yield f"{address}/"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch, internal_service: str) -> str:
    extra = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": internal_service,
        "sasl.oauthbearer.client.id": "copier",
        "sasl.oauthbearer.client.secret": "copier-secret",
    }
    monkeypatch.setenv("AIRFLOW_CONN_PROBE", json.dumps({"conn_type": "kafka", "extra": extra}))
    return "probe"


def test_the_answer_is_not_quoted(connection: str) -> None:
    with KafkaHook(connection, timeout=10) as hook, pytest.raises(KafkaSparkError) as raised:
        hook.metadata()

    assert "identity provider gave no token" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("permitted", "is_asked"), [("id.example.com, 127.0.0.1", True), ("id.example.com", False)])
def test_hosts_of_token_endpoints_can_be_restricted(
    connection: str, monkeypatch: pytest.MonkeyPatch, permitted: str, is_asked: bool
) -> None:
    """By the administrator of the workers, who need not trust those who edit connections."""
    monkeypatch.setenv(TOKEN_ENDPOINT_HOSTS.variable, permitted)

    if is_asked:
        assert KafkaHook(connection).config.mechanism == "OAUTHBEARER"
        return
    with pytest.raises(ConnectionConfigError, match=r"token_endpoint_hosts .*; got the host '127.0.0.1'"):
        KafkaHook(connection).config  # noqa: B018 - reading it is the promise
