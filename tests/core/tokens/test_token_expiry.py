from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import DelegationTokenError, InvalidInputError, OptionError
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_expiry import check_expiry
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection, principal

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
    ("owner", "ids"), [("", None), (7, None), (None, []), (None, [1]), (None, {"a": 1}), (None, "")]
)
def test_selections_that_cannot_be_right(owner: object, ids: object) -> None:
    with pytest.raises(InvalidInputError):
        TokenSelection.parse(owner, ids)


def test_principals_have_their_type() -> None:
    assert (principal("alice"), principal("User:alice")) == ("User:alice", "User:alice")
