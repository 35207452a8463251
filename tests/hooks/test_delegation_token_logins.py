"""Tokens by every login that can request one, and the errors for logins and brokers that cannot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import (
    BrokerTlsError,
    ConnectionConfigError,
    DelegationTokenError,
    DelegationTokenNotUsableError,
)
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks import delegation_token
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker
from tests.child_processes import children_with
from tests.required_tools import needs_kdc
from tests.secured_brokers import USERS
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

pytestmark = pytest.mark.broker

Connection = Callable[..., None]
_DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def broker(authority: CertificateAuthority, provider: IdentityProvider, kdc: Kdc | None) -> Iterator[KafkaBroker]:
    """All listeners and all mechanisms; nobody has an ACL, so nobody may ask for the cluster's clock."""
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem, "required")
    with KafkaBroker(sasl_users=USERS, tls=tls, identity_provider=provider, kerberos=kdc, authorizer=True) as broker:
        yield broker


@pytest.mark.parametrize(
    ("login", "owner"),
    [
        pytest.param("PLAIN", "User:alice", id="plain"),
        pytest.param("SCRAM-SHA-256", "User:alice", id="scram"),
        pytest.param("OAUTHBEARER", "User:copier", id="oauthbearer"),
        pytest.param("GSSAPI", "User:alice", id="keytab", marks=needs_kdc),
        pytest.param("certificate", "User:CN=writer", id="certificate"),
    ],
)
def test_from_its_making_to_its_end(
    broker: KafkaBroker,
    authority: CertificateAuthority,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
    owner: str,
) -> None:
    """A token by a certificate is not tried, as there is no SASL by which it could be."""
    if broker.kerberos:
        monkeypatch.setenv("KRB5_CONFIG", broker.kerberos.environment["KRB5_CONFIG"])
    is_sasl = login != "certificate"
    extra = (
        broker.sasl_client_config(owner.removeprefix("User:"), login, tls=login == "PLAIN")
        if is_sasl
        else broker.ssl_client_config(authority.issue("writer"))
    )
    connection("kafka_login", extra=extra)
    with DelegationTokenHook("kafka_login") as hook:
        make = hook.create if is_sasl else hook.create_unchecked
        token = make(lease_ms=600_000)
        assert token.info.owner == owner
        _comes_to(lambda: hook.describe(owner) == [token.info])
        mine = TokenSelection(token_ids=(token.info.token_id,))
        (renewed,) = hook.renew(mine)
        assert renewed.expiry_ms - token.info.issue_ms > _DAY_MS / 2
        (expired,) = hook.expire(mine)
        assert expired.expiry_ms < token.info.issue_ms + 120_000
        _comes_to(lambda: hook.describe(owner) == [])
        if not is_sasl:
            with pytest.raises(ConnectionConfigError, match=r"SASL_SSL or SASL_PLAINTEXT listener; .* is SSL"):
                hook.create()
            _comes_to(lambda: hook.describe(owner) == [])
    assert children_with("py4j.GatewayServer") == []


def _comes_to(what: Callable[[], bool]) -> None:
    """The controller has done it; the broker that is asked hears of it a moment later."""
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline, "not in 10 s"
        time.sleep(0.1)


def test_a_clock_that_the_login_may_not_ask_for(
    broker: KafkaBroker, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is this machine's then, and the log says so."""
    connection("kafka_login", extra=broker.sasl_client_config("alice"))
    with DelegationTokenHook("kafka_login") as hook:
        assert abs(hook.now_ms() - time.time() * 1000) < 1000
    assert "ClusterAuthorizationException" in capsys.readouterr().out


def test_a_listener_without_scram(misconfigured_broker: KafkaBroker, connection: Connection) -> None:
    """The token could never log in there, which is no matter of waiting; it is expired."""
    connection("kafka_plain", extra=misconfigured_broker.sasl_client_config("alice", "PLAIN"))
    began = time.monotonic()
    with DelegationTokenHook("kafka_plain") as hook:
        with pytest.raises(
            DelegationTokenError, match="uses SCRAM, so the listener must have SCRAM-SHA-512, in addition to PLAIN"
        ) as caught:
            hook.create()
        assert type(caught.value) is DelegationTokenError
        assert "sasl.enabled.mechanisms" in str(caught.value)
        _comes_to(lambda: hook.describe() == [])
    assert time.monotonic() - began < 20


def test_a_token_that_brokers_do_not_take(
    broker: KafkaBroker, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have heard of it at the next try."""
    monkeypatch.setattr(delegation_token, "USABLE_SECONDS", 2.0)
    connection("kafka_login", extra=broker.sasl_client_config("alice"))
    with DelegationTokenHook("kafka_login") as hook:
        token = hook.create()
        hook.expire_token(token)
        began = time.monotonic()
        with pytest.raises(
            DelegationTokenNotUsableError, match=r"must be usable within 2 s; at .* still refused"
        ) as caught:
            hook.wait_until_usable(token)
        assert 2 <= time.monotonic() - began < 15
    assert caught.value.retriable
    assert token.hmac not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        pytest.param(
            lambda b: b.ssl_client_config(),
            ["another host", "ssl.endpoint.identification.algorithm"],
            id="another-host",
        ),
        pytest.param(
            lambda b: b.sasl_client_config("alice", tls=True),
            ["The certificate that the broker shows, or that of its authority, has expired."],
            id="expired",
        ),
    ],
)
def test_a_certificate_of_the_broker_that_java_does_not_take(
    misconfigured_broker: KafkaBroker,
    connection: Connection,
    capsys: pytest.CaptureFixture[str],
    extra: Callable[[KafkaBroker], dict[str, Any]],
    words: list[str],
) -> None:
    """Whichever question comes first, and long before the time-out."""
    connection("kafka_bad", extra=extra(misconfigured_broker))
    ask: Callable[[DelegationTokenHook], object]
    for ask in (DelegationTokenHook.now_ms, DelegationTokenHook.describe, DelegationTokenHook.create):
        began = time.monotonic()
        with pytest.raises(BrokerTlsError) as caught, DelegationTokenHook("kafka_bad") as hook:
            ask(hook)
        assert time.monotonic() - began < 15
        assert not [word for word in words if word not in str(caught.value)], caught.value
    assert "clock" not in capsys.readouterr().out
    assert children_with("py4j.GatewayServer") == []
