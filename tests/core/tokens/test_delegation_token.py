from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import (
    ConnectionConfigError,
    DelegationTokenError,
    InvalidInputError,
    OptionError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import (
    DelegationToken,
    TokenInfo,
    TokenSelection,
    check_expiry,
    duration,
    principal,
    utc,
)

NOW = 1_800_000_000_000
HOUR = 3_600_000


def token(name: str, ends_in: int, *, owner: str = "User:alice", at_most: int = 48 * HOUR) -> TokenInfo:
    return TokenInfo(name, owner, (), NOW - HOUR, NOW + ends_in, NOW + at_most)


ENDED, SOON, LATE = token("ended", -1), token("soon", HOUR), token("late", 24 * HOUR)
OF_BOB = token("bobs", HOUR // 2, owner="User:bob")


@pytest.mark.parametrize(
    ("tokens", "selection", "hours", "met", "named", "wait_ms"),
    [
        pytest.param([LATE], {}, 2, False, ["late"], 22 * HOUR, id="none-yet"),
        pytest.param([LATE, SOON], {}, 2, True, ["soon"], None, id="one-is-near"),
        pytest.param([LATE, SOON], {}, 1, True, ["soon"], None, id="to-the-millisecond"),
        pytest.param([LATE, OF_BOB], {"owner": "alice"}, 2, False, ["late"], 22 * HOUR, id="others-do-not-count"),
        pytest.param([LATE, ENDED], {}, 2, False, ["late"], 22 * HOUR, id="ended-and-still-listed"),
        pytest.param([ENDED], {}, 2, True, ["ended"], None, id="only-ended-ones"),
        pytest.param([LATE, ENDED], {"token_ids": ["ended"]}, 2, True, ["ended"], None, id="ended-and-meant"),
        pytest.param([], {}, 2, False, [], None, id="none-at-all"),
    ],
)
def test_expiring(
    tokens: list[TokenInfo], selection: dict[str, object], hours: int, met: bool, named: list[str], wait_ms: int | None
) -> None:
    verdict = check_expiry(tokens, TokenSelection.parse(**selection), hours * HOUR, "expiring", NOW)
    assert (verdict.met, [t.token_id for t in verdict.tokens], verdict.wait_ms) == (met, named, wait_ms)


@pytest.mark.parametrize(
    ("tokens", "selection", "hours", "met"),
    [
        pytest.param([LATE], {}, 2, True, id="long-enough"),
        pytest.param([LATE, SOON], {}, 2, False, id="one-is-not"),
        pytest.param([LATE, SOON], {"token_ids": ["late"]}, 2, True, id="it-is-not-meant"),
        pytest.param([LATE, ENDED], {}, 2, True, id="ended-and-still-listed"),
        pytest.param([LATE, ENDED], {"token_ids": ["late", "ended"]}, 2, False, id="ended-and-meant"),
        pytest.param([], {}, 2, False, id="none-at-all"),
    ],
)
def test_valid(tokens: list[TokenInfo], selection: dict[str, object], hours: int, met: bool) -> None:
    verdict = check_expiry(tokens, TokenSelection.parse(**selection), hours * HOUR, "valid", NOW)
    assert verdict.met is met
    # Time alone does not make a token live longer.
    assert verdict.wait_ms is None


def test_a_token_that_is_meant_by_its_id_must_exist() -> None:
    with pytest.raises(DelegationTokenError, match=r"\['gone'\].*User:alice"):
        check_expiry([LATE], TokenSelection.parse("alice", ["late", "gone"]), HOUR, "valid", NOW)


def test_modes() -> None:
    with pytest.raises(OptionError, match=r"'expiring'.*'soon'"):
        check_expiry([LATE], TokenSelection(), HOUR, "soon", NOW)


@pytest.mark.parametrize(
    ("owner", "ids"), [("", None), (7, None), (None, []), (None, [1]), (None, {"a": 1}), (None, [""]), (None, "")]
)
def test_selections_that_cannot_be_right(owner: object, ids: object) -> None:
    with pytest.raises(InvalidInputError):
        TokenSelection.parse(owner, ids)


def test_a_login_with_a_token_has_nothing_of_the_long_lived_one() -> None:
    before = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": 'Krb5LoginModule required keyTab="/secret";',
        "sasl.kerberos.service.name": "kafka",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "PASSWORD",
    }
    secret = DelegationToken(LATE, "aG1hYw==")
    assert secret.java_login(before, "SCRAM-SHA-256") == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.certificates": "CA",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="late" password="aG1hYw==" '
            'tokenauth="true";'
        ),
    }
    assert "aG1hYw" not in repr(secret)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_token_needs_a_sasl_listener(protocol: str) -> None:
    with pytest.raises(ConnectionConfigError, match=f"is {protocol}"):
        DelegationToken(LATE, "x").java_login({"security.protocol": protocol}, "SCRAM-SHA-512")


def test_texts() -> None:
    assert (principal("alice"), principal("User:alice")) == ("User:alice", "User:alice")
    assert utc(0) == "1970-01-01T00:00:00Z"
    assert utc(2**63 - 1).endswith(" ms")
    assert [duration(ms) for ms in (1500, 90_000, 7_200_000, 3 * 86_400_000)] == ["1.5 s", "90 s", "2 h", "3 d"]
