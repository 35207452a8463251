"""Promises of :mod:`tests.services.identity_provider`, over HTTP as a client would use it. Tests of logins prove what
brokers take of its tokens.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import jwt
import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from tests.services.identity_provider import IdentityProvider

_GRANT = {"grant_type": "client_credentials"}


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """One that knows two clients, of which one has a secret that needs quoting."""
    with IdentityProvider({"copier": "s3cret", "odd": "p%:+ s"}) as provider:
        yield provider


@pytest.mark.parametrize("way", ["basic", "basic-quoted", "form"])
@pytest.mark.parametrize("client", ["copier", "odd"])
def test_a_client_gets_a_token_that_can_be_checked(provider: IdentityProvider, client: str, way: str) -> None:
    """Both ways of RFC 6749 lead to a token that is signed by the published key and names the client."""
    before = int(time.time())
    status, answer = _ask(provider, client, provider.clients[client], way, scope="orders")
    assert status == 200
    assert (answer["token_type"], answer["expires_in"], answer["scope"]) == ("Bearer", 3600, "orders")
    claims = _checked(provider, answer["access_token"])
    assert (claims["sub"], claims["scope"], claims["aud"]) == (client, "orders", "kafka")
    assert before <= claims["iat"] <= int(time.time())
    assert claims["exp"] == claims["iat"] + 3600
    assert (provider.tokens_granted, provider.tokens_refused, provider.jwks_requests) == (1, 0, 1)


@pytest.mark.parametrize("way", ["basic", "form"])
@pytest.mark.parametrize(
    ("client", "secret"),
    [
        pytest.param("copier", "wrong", id="wrong-secret"),
        pytest.param("copier", "", id="no-secret"),
        pytest.param("nobody", "s3cret", id="unknown-client"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_who_is_not_known_gets_no_token(provider: IdentityProvider, client: str, secret: str, way: str) -> None:
    """The answer is the one that RFC 6749 asks for."""
    status, answer = _ask(provider, client, secret, way)
    assert (status, answer["error"]) == (401, "invalid_client")
    assert (provider.tokens_granted, provider.tokens_refused) == (0, 1)


def test_a_provider_that_was_stopped_answers_nobody() -> None:
    """Its port is free, its addresses are an error, and it can be started again."""
    provider = IdentityProvider({"copier": "s3cret"})
    with pytest.raises(LocalServiceError, match="IdentityProvider must run"):
        _ = provider.token_url
    with provider:
        url = provider.token_url
        with pytest.raises(LocalServiceError, match="IdentityProvider must be stopped"):
            provider.start()
    provider.stop()
    with pytest.raises(urllib.error.URLError):
        _request(url, _GRANT, {})
    with provider:
        assert _ask(provider, "copier", "s3cret")[0] == 200


def _ask(
    provider: IdentityProvider, client: str, secret: str, way: str = "basic", scope: str | None = None
) -> tuple[int, dict[str, Any]]:
    form = {**_GRANT, **({"scope": scope} if scope else {})}
    if way == "form":
        return _request(provider.token_url, {**form, "client_id": client, "client_secret": secret}, {})
    if way == "basic-quoted":
        client, secret = urllib.parse.quote_plus(client), urllib.parse.quote_plus(secret)
    encoded = base64.b64encode(f"{client}:{secret}".encode()).decode()
    return _request(provider.token_url, form, {"Authorization": f"Basic {encoded}"})


def _request(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    body = None if form is None else urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, dict(headers)), timeout=10) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def _checked(provider: IdentityProvider, token: str) -> dict[str, Any]:
    key = jwt.PyJWKClient(provider.jwks_url, timeout=10).get_signing_key_from_jwt(token)
    return jwt.decode(token, key, algorithms=["RS256"], audience=provider.audience, issuer=provider.issuer)
