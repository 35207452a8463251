from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from airflow_provider_kafka_spark.clients.connection.cloud_tokens import token_callback
from airflow_provider_kafka_spark.core.connection.client_properties import TokenService
from airflow_provider_kafka_spark.core.errors import BrokerAuthenticationError, ConnectionConfigError

_MSK = TokenService("aws-msk-iam", "eu-west-1")


def _signer(monkeypatch: pytest.MonkeyPatch, life: float) -> list[str]:
    regions: list[str] = []

    def generate_auth_token(region: str) -> tuple[str, float]:
        regions.append(region)
        return f"token-{len(regions)}", (time.time() + life) * 1000

    provider = SimpleNamespace(generate_auth_token=generate_auth_token)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=provider))
    return regions


def test_each_later_token_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = _signer(monkeypatch, 900)
    callback = token_callback("msk", _MSK)

    assert [callback(None)[0], callback(None)[0]] == ["token-1", "token-2"]
    assert regions == ["eu-west-1", "eu-west-1"]


def test_an_expired_token_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _signer(monkeypatch, -1)
    with pytest.raises(BrokerAuthenticationError, match="expired already"):
        token_callback("msk", _MSK)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConnectionConfigError, match="pip install aws-msk-iam-sasl-signer-python"):
        token_callback("msk", _MSK)
