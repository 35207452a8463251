from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_kafka_spark.clients import new_token, token_requests
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerTlsError,
    ConnectionConfigError,
    DelegationTokenError,
    DelegationTokenExpiredError,
    DelegationTokenNotUsableError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks import delegation_token
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker
from tests.child_processes import children_with
from tests.required_tools import needs_kdc
from tests.secured_brokers import USERS
from tests.services.certificates import CertificateAuthority
from tests.waiting import until

pytestmark = pytest.mark.broker

#: What brokers give.
LIFE_MS, LONGEST_MS = 86_400_000, 7 * 86_400_000
Connection = Callable[..., None]


@pytest.fixture(autouse=True)
def connections(secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = secured_broker.sasl_client_config("alice")
    extras = {
        "alice": alice,
        "copier": secured_broker.sasl_client_config("copier"),
        "wrong": {**alice, "sasl.password": "not-her-password"},
        "plain": {"bootstrap.servers": secured_broker.bootstrap_servers},
        "sha256": {**alice, "delegation.token.mechanism": "SCRAM-SHA-256"},
        "short": {**alice, "delegation.token.max.lifetime.ms": 20_000},
    }
    for name, extra in extras.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))


def only(token_id: str) -> TokenSelection:
    return TokenSelection(token_ids=(token_id,))


def test_from_its_making_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with DelegationTokenHook("alice") as hook:
        assert abs(hook.now_ms() - time.time() * 1000) < 5000
        token = hook.create()
        info = token.info
        assert info.owner == "User:alice"
        assert (info.expiry_ms - info.issue_ms, info.max_ms - info.issue_ms) == (LIFE_MS, LONGEST_MS)
        assert info in hook.describe()
        assert info in hook.describe("alice")
        assert hook.describe("User:nobody") == []

        (renewed,) = hook.renew(only(info.token_id), period_ms=LIFE_MS)
        assert info.expiry_ms < renewed.expiry_ms < info.max_ms
        # No renewal is for longer than the broker's own period.
        (renewed,) = hook.renew(only(info.token_id), period_ms=10 * LONGEST_MS)
        assert renewed.expiry_ms <= hook.now_ms() + LIFE_MS

        # Somebody logs in with it, and may not ask for tokens.
        login = replace(hook.config, java=token.java_login(hook.config.java, "SCRAM-SHA-512"))
        with (
            DelegationTokenHook("alice", config=login) as by_token,
            pytest.raises(DelegationTokenError, match="not itself a delegation token"),
        ):
            by_token.describe()

        (expired,) = hook.expire(only(info.token_id))
        assert expired.expiry_ms <= hook.now_ms() + 1000
        with pytest.raises(DelegationTokenError):
            hook.renew_token(token, LIFE_MS)
        (process,) = children_with("py4j.GatewayServer")
        shown = caplog.text + " ".join(process.cmdline())
    assert children_with("py4j.GatewayServer") == []
    assert not [secret for secret in (token.hmac, USERS["alice"]) if secret in shown + caplog.text]


def test_the_clock_is_the_broker_s(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not this machine's, which may be wrong; the log has the difference."""
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3600)
    with DelegationTokenHook("alice") as hook:
        assert abs(hook.now_ms() - clock() * 1000) < 5000
    assert "s behind this machine's; the times of tokens are the broker's" in capsys.readouterr().out


@pytest.mark.long
def test_what_a_connection_says_of_its_tokens() -> None:
    """A lease, a longest life, and by which mechanism they log in."""
    with DelegationTokenHook("short") as hook:
        info = hook.create(lease_ms=10_000).info
        assert info.max_ms - info.issue_ms == 20_000
        assert 10_000 <= info.expiry_ms - info.issue_ms < 18_000
        # The end is the maximum, whatever is asked for.
        (renewed,) = hook.renew(only(info.token_id), period_ms=LIFE_MS)
        assert renewed.at_maximum
        hook.expire(only(info.token_id))
    with DelegationTokenHook("sha256") as hook:
        hook.expire_token(hook.create())


@pytest.mark.long
def test_a_listener_that_also_requires_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has none of the connection's own, as it has nothing of its login. No other fault of TLS is named so."""
    authority = CertificateAuthority()
    properties = {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem)
    with KafkaBroker(sasl_users=USERS, tls=tls, properties=properties) as other:
        mine = other.ssl_client_config(authority.issue("alice"))
        extra = {name: value for name, value in mine.items() if name.startswith("ssl.")}
        extra |= other.sasl_client_config("alice", tls=True)
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "kafka", "extra": extra}))
        with DelegationTokenHook("other") as hook:
            with pytest.raises(DelegationTokenError, match=r"no client certificate; .*ssl\.client\.auth=none"):
                hook.create()
            token = hook.create_unchecked()
            untrusted = {**hook.config.java, "ssl.truststore.certificates": CertificateAuthority().ca_pem}
        with (
            DelegationTokenHook("other", config=replace(hook.config, java=untrusted)) as hook,
            pytest.raises(BrokerTlsError, match="unknown authority"),
        ):
            hook.wait_until_usable(token)


@pytest.mark.parametrize(
    ("connection", "error", "said"),
    [
        pytest.param("wrong", BrokerAuthenticationError, "invalid credentials", id="wrong-password"),
        pytest.param("plain", DelegationTokenError, "need a connection with a login", id="no-login"),
        pytest.param("tokenless", DelegationTokenError, r"delegation\.token\.secret\.key", id="broker-without-tokens"),
    ],
)
def test_each_failure_is_named_in_time(
    broker_without_tokens: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    connection: str,
    error: type[Exception],
    said: str,
) -> None:
    extra = broker_without_tokens.sasl_client_config("alice")
    monkeypatch.setenv("AIRFLOW_CONN_TOKENLESS", json.dumps({"conn_type": "kafka", "extra": extra}))
    began = time.monotonic()
    with pytest.raises(error, match=said) as caught, DelegationTokenHook(connection, timeout=5.0) as hook:
        hook.create()
    # Kafka's own clients would go on for a minute; a JVM of a busy machine takes some 20 s to start.
    assert time.monotonic() - began < 60
    assert "not-her-password" not in str(caught.value)
    assert "clock" not in capsys.readouterr().out
    assert children_with("py4j.GatewayServer") == []


@pytest.mark.parametrize(
    ("login", "owner"),
    [
        pytest.param("OAUTHBEARER", "User:copier", id="oauthbearer", marks=pytest.mark.long),
        pytest.param("GSSAPI", "User:alice", id="keytab", marks=needs_kdc),
        pytest.param("certificate", "User:CN=writer", id="certificate"),
    ],
)
def test_a_token_by_every_login(
    secured_broker: KafkaBroker,
    authority: CertificateAuthority,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
    owner: str,
) -> None:
    """A token by a certificate is not tried, as there is no SASL by which it could be."""
    if secured_broker.kerberos:
        monkeypatch.setenv("KRB5_CONFIG", secured_broker.kerberos.environment["KRB5_CONFIG"])
    is_sasl = login != "certificate"
    extra = (
        secured_broker.sasl_client_config(owner.removeprefix("User:"), login)
        if is_sasl
        else secured_broker.ssl_client_config(authority.issue("writer"))
    )
    connection("kafka_login", extra=extra)
    with DelegationTokenHook("kafka_login") as hook:
        make = hook.create if is_sasl else hook.create_unchecked
        token = make(lease_ms=600_000)
        assert token.info.owner == owner
        mine = only(token.info.token_id)

        def of_broker() -> list[TokenInfo]:
            return [found for found in hook.describe(owner) if found.token_id == token.info.token_id]

        # The controller has done it; the broker that is asked hears of it a moment later.
        until(lambda: of_broker() == [token.info])
        (renewed,) = hook.renew(mine)
        assert renewed.expiry_ms - token.info.issue_ms > LIFE_MS / 2
        (expired,) = hook.expire(mine)
        assert expired.expiry_ms < token.info.issue_ms + 120_000
        until(lambda: of_broker() == [])
        if not is_sasl:
            with pytest.raises(ConnectionConfigError, match=r"SASL_SSL or SASL_PLAINTEXT listener; .* is SSL"):
                hook.create()
            until(lambda: hook.describe(owner) == [])
    assert children_with("py4j.GatewayServer") == []


def test_a_clock_that_the_login_may_not_ask_for(
    secured_broker: KafkaBroker, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is this machine's then, and the log says so."""
    connection("kafka_login", extra=secured_broker.sasl_client_config("guest"))
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
        until(lambda: hook.describe() == [])
    assert time.monotonic() - began < 20


# Last, since the JVM of their hook lives until the end of the module.


def test_a_secret_of_a_broker_is_masked(token_hook: DelegationTokenHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of each token that is meant, before it is used; also where this process has not made the token."""
    masked: list[str] = []
    token, other = token_hook.create(), token_hook.create()
    monkeypatch.setattr(delegation_token, "mask_secret", masked.append)
    for change in (token_hook.renew, token_hook.expire):
        change(only(token.info.token_id))
    assert masked == [token.hmac] * 2
    token_hook.expire_token(other)


def _ends(hook: DelegationTokenHook) -> dict[str, int]:
    return {token.token_id: token.expiry_ms for token in hook.describe("alice")}


@pytest.mark.long
def test_who_may_renew(token_hook: DelegationTokenHook) -> None:
    """A refusal does not keep the others from being renewed."""
    hers = token_hook.create().info
    both = token_hook.create(lease_ms=25_000, renewers=["copier"]).info
    mine = TokenSelection(token_ids=(hers.token_id, both.token_id))
    with DelegationTokenHook("copier") as hook:
        with pytest.raises(BrokerAuthorizationError, match=hers.token_id):
            hook.renew(mine)
        until(lambda: _ends(hook)[both.token_id] > both.expiry_ms)
        assert _ends(hook)[hers.token_id] == hers.expiry_ms
    token_hook.expire(mine)


def test_a_token_that_has_ended(token_hook: DelegationTokenHook) -> None:
    token = token_hook.create_unchecked(lease_ms=1000)
    until(lambda: token_hook.now_ms() > token.info.expiry_ms)
    # It has ended, or has been removed already.
    with pytest.raises(DelegationTokenExpiredError):
        token_hook.renew_token(token, LIFE_MS)


def _fails(*_: object, **__: object) -> None:
    raise ValueError("anything")


def test_whatever_fails_behind_the_broker_s_answer_leaves_no_token(
    token_hook: DelegationTokenHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _living(token_hook)
    for module, step in ((delegation_token, "mask_secret"), (token_requests, "TokenInfo")):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, _fails)
            with pytest.raises(ValueError, match="anything"):
                token_hook.create_unchecked()
    # A broker that knows a later one knows all before it.
    later = token_hook.create()
    assert _living(token_hook) - before == {later.info.token_id}
    token_hook.expire_token(later)


def _living(hook: DelegationTokenHook) -> set[str]:
    now_ms = hook.now_ms()
    return {token.token_id for token in hook.describe("alice") if token.remaining_ms(now_ms) > 0}


def test_a_token_that_brokers_do_not_take(token_hook: DelegationTokenHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have heard of it at the next try."""
    token = token_hook.create()
    token_hook.expire_token(token)
    monkeypatch.setattr(new_token, "USABLE_SECONDS", 2.0)
    began = time.monotonic()
    with pytest.raises(
        DelegationTokenNotUsableError, match=r"must be usable within 2 s; at .* still refused"
    ) as caught:
        token_hook.wait_until_usable(token)
    assert 2 <= time.monotonic() - began < 15
    assert caught.value.retriable
    assert token.hmac not in str(caught.value)
