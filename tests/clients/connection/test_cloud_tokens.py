from __future__ import annotations

import base64
import datetime
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import google.auth
import pytest

from airflow_provider_kafka_spark.clients.connection.cloud_tokens import token_callback
from airflow_provider_kafka_spark.core.connection.client_properties import TokenService
from airflow_provider_kafka_spark.core.errors import BrokerAuthenticationError, ConnectionConfigError

_MSK = TokenService("aws-msk-iam", "eu-west-1")
_GOOGLE = TokenService("google")


def _signer(monkeypatch: pytest.MonkeyPatch, life: float) -> list[str]:
    regions: list[str] = []

    def generate_auth_token(region: str) -> tuple[str, float]:
        regions.append(region)
        return f"token-{len(regions)}", (time.time() + life) * 1000

    provider = SimpleNamespace(generate_auth_token=generate_auth_token)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", provider)
    return regions


def test_each_later_token_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has expired, and a worker without the library, are errors."""
    regions = _signer(monkeypatch, 900)
    callback = token_callback("msk", _MSK)
    assert [callback(None)[0], callback(None)[0]] == ["token-1", "token-2"]
    assert regions == ["eu-west-1", "eu-west-1"]

    _signer(monkeypatch, -1)
    with pytest.raises(BrokerAuthenticationError, match="expired already"):
        token_callback("msk", _MSK)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(ConnectionConfigError, match=r"pip install .airflow-provider-kafka-spark\[msk\]"):
        token_callback("msk", _MSK)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No credentials, and none that could be looked for in files or by the network."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.mark.parametrize("session", [None, "session-of-the-role"])
def test_msk_s_token_is_a_signed_url(aws: pytest.MonkeyPatch, session: str | None) -> None:
    """By the real library, with the parts that its documentation has."""
    aws.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    aws.setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-sent")
    if session:
        aws.setenv("AWS_SESSION_TOKEN", session)

    token, expires = token_callback("msk", _MSK)(None)

    assert not token.endswith("=")
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    url, query = urlsplit(text), {name: values[0] for name, values in parse_qs(urlsplit(text).query).items()}
    signed = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%S%z")
    assert (url.scheme, url.hostname, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert query["X-Amz-Credential"] == f"AKIDEXAMPLE/{signed:%Y%m%d}/eu-west-1/kafka-cluster/aws4_request"
    assert query["X-Amz-SignedHeaders"] == "host"
    assert query.get("X-Amz-Security-Token") == session
    assert len(query["X-Amz-Signature"]) == 64
    assert expires == signed.timestamp() + int(query["X-Amz-Expires"])
    assert "not-to-be-sent" not in text


def test_a_worker_without_credentials_of_aws(aws: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerAuthenticationError, match=r"connection 'msk'.*Give its machine or pod a role of IAM"):
        token_callback("msk", _MSK)


class _Credentials:
    """As google-auth has those of a service account."""

    service_account_email = "copier@my-project.iam.gserviceaccount.com"
    token: str | None = None
    expiry: datetime.datetime | None = None

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    def refresh(self, _request: object) -> None:
        if self.fault is not None:
            raise self.fault
        self.token = "ya29.access-token"
        self.expiry = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(hours=1)


def test_google_s_token_has_the_account_and_the_access_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the form that the brokers document: header, claims and access token, each in base64."""
    credentials = _Credentials()
    monkeypatch.setattr(google.auth, "default", lambda **_scopes: (credentials, "my-project"))

    token, expires = token_callback("google", _GOOGLE)(None)

    parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]
    claims = json.loads(parts[1])
    assert json.loads(parts[0]) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert (claims["iss"], claims["scope"], claims["sub"]) == ("Google", "kafka", _Credentials.service_account_email)
    assert claims["exp"] == expires > time.time() + 3500
    assert parts[2] == b"ya29.access-token"


def test_what_google_answers_is_not_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nor by a later failure, when librdkafka asks again, and the log has the kind of failure."""
    credentials = _Credentials(ValueError("invalid_grant for private-key-of-the-account"))
    monkeypatch.setattr(google.auth, "default", lambda **_scopes: (credentials, "my-project"))

    with pytest.raises(BrokerAuthenticationError, match="GOOGLE_APPLICATION_CREDENTIALS") as raised:
        token_callback("google", _GOOGLE)
    assert "private-key" not in str(raised.value)
    assert raised.value.__suppress_context__

    credentials.fault = None
    callback = token_callback("google", _GOOGLE)
    callback(None)
    credentials.fault = ConnectionError("at http://user:password@proxy")
    with pytest.raises(BrokerAuthenticationError):
        callback(None)
    assert "ConnectionError" in caplog.text
    assert "password" not in caplog.text
