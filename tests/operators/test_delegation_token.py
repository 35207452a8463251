from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators.delegation_token import ExpireDelegationTokensOperator as Expire
from airflow_provider_kafka_spark.operators.delegation_token import RenewDelegationTokensOperator as Renew
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import TaskStateStore
from tests.operators.copy_task import execute
from tests.waiting import until

pytestmark = pytest.mark.broker

#: How long a renewal lasts, and how long a token lives at most.
LIFE_MS, LONGEST_MS = 600_000, 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    properties = {
        "delegation.token.expiry.time.ms": str(LIFE_MS),
        "delegation.token.max.lifetime.ms": str(LONGEST_MS),
        # Tokens that have ended stay in the list.
        "delegation.token.expiry.check.interval.ms": "3600000",
    }
    users = {"alice": "password-of-alice", "bob": "password-of-bob"}
    with KafkaBroker(sasl_users=users, properties=properties) as running:
        yield running


Hooks = dict[str, DelegationTokenHook]
Made = Callable[..., list[TokenInfo]]
_USER = {"kafka_default": "alice", "bob": "bob"}


@pytest.fixture(scope="module")
def hooks(broker: KafkaBroker) -> Iterator[Hooks]:
    """The tests' own for each connection; each has a JVM."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, user in _USER.items():
            extra = broker.sasl_client_config(user)
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
        yield {name: stack.enter_context(DelegationTokenHook(name)) for name in _USER}


@pytest.fixture(autouse=True)
def no_tokens_left(hooks: Hooks) -> Iterator[None]:
    yield
    for name, hook in hooks.items():
        now_ms = hook.now_ms()
        ids = tuple(t.token_id for t in hook.describe(f"User:{_USER[name]}") if t.remaining_ms(now_ms) > 0)
        if ids:
            hook.expire(TokenSelection(token_ids=ids))


@pytest.fixture
def made(hooks: Hooks) -> Made:
    def make(*leases_ms: int | None, conn_id: str = "kafka_default", **parameters: Any) -> list[TokenInfo]:
        return [hooks[conn_id].create(lease_ms=lease, **parameters).info for lease in leases_ms]

    return make


def renew(**parameters: Any) -> dict[str, Any]:
    return execute(Renew(task_id="t", **parameters))


def expire(store: TaskStateStore | None = None, **parameters: Any) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = execute(Expire(task_id="t", **parameters), store)["tokens"]
    return tokens


def ids(tokens: list[dict[str, Any]]) -> set[str]:
    return {token["token_id"] for token in tokens}


@pytest.mark.parametrize("by_owner", [False, True])
def test_by_what_a_sensor_returned(made: Made, hooks: Hooks, by_owner: bool) -> None:
    """Or those of an owner that end soon."""
    soon, other = made(60_000, 300_000)
    (of_bob,) = made(60_000, conn_id="bob")
    selected: dict[str, Any] = {"token_ids": {"tokens": [soon.as_json()], "now_ms": 1}}
    if by_owner:
        selected = {"token_owner": "alice", "ending_within": timedelta(minutes=2)}
    result = renew(**selected)
    (token,) = result["tokens"]
    assert token["token_id"] == soon.token_id
    assert token["expiry_timestamp_ms"] > soon.expiry_ms + 500_000
    assert other in hooks["kafka_default"].describe()
    assert of_bob in hooks["bob"].describe("bob")


def test_the_maximum_is_logged(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A renewal ends there, and a token that is there already is left as it is."""
    (token,) = made(60_000, max_lifetime_ms=300_000)
    for _ in range(2):
        result = renew(token_ids=[token.token_id])
        assert result["at_maximum"] == [token.token_id]
        assert result["tokens"][0]["expiry_timestamp_ms"] == token.max_ms
    assert capsys.readouterr().out.count("has reached its maximum time") == 2


@pytest.mark.long
def test_a_token_that_has_ended_is_an_error_if_it_was_meant_by_its_id(hooks: Hooks) -> None:
    hook = hooks["kafka_default"]
    # Not tried by a login, which may take longer than that.
    token = hook.create_unchecked(lease_ms=1000).info
    until(lambda: hook.now_ms() > token.expiry_ms, "the token has ended", 30)
    assert renew(token_owner="alice") == {"tokens": [], "at_maximum": []}
    with pytest.raises(AirflowFailException, match=rf"cannot be renewed: token {token.token_id}"):
        renew(token_ids=[token.token_id])
    # For an expiry it is the requested state.
    assert expire(token_ids=[token.token_id]) == []


def test_a_further_try_ends_what_an_earlier_one_left(made: Made, hooks: Hooks) -> None:
    """The one that it had ended is gone from the broker's list by then. An id that was never there is an error, and
    keeps none alive.
    """
    first, other, last = made(None, None, None)
    store, hook = TaskStateStore(), hooks["kafka_default"]
    expire(store, token_ids=[first.token_id])
    assert ids(expire(store, token_ids=[first.token_id, other.token_id])) == {other.token_id}
    with pytest.raises(AirflowFailException, match=r"\['no-such-token'\] must exist"):
        expire(store, token_ids=["no-such-token", last.token_id])
    # Brokers hear of it one after the other.
    until(lambda: not {first, other, last} & set(hook.describe("alice")), "none is left", 10)


@pytest.mark.long
def test_how_long_they_live_may_be_given(made: Made, hooks: Hooks) -> None:
    """No renewal shortens, and no expiry prolongs; a broker would do either."""
    (token,) = made(60_000)
    (renewed,) = renew(token_ids=token.token_id, renew_for=120)["tokens"]
    assert renew(token_ids=[token.token_id], renew_for=60) == {"tokens": [], "at_maximum": []}
    assert expire(token_owner="alice", expire_in=500) == []
    (ending,) = expire(token_owner="alice", expire_in=30)

    ends = [each["expiry_timestamp_ms"] - token.issue_ms for each in (renewed, ending)]
    assert 100_000 < ends[0] < 140_000
    assert (ending["token_id"], ends[1] < 75_000) == (token.token_id, True)
    assert token.token_id in {each.token_id for each in hooks["kafka_default"].describe()}


@pytest.mark.long
def test_the_owner_in_default_args_is_airflows(made: Made) -> None:
    """It names a team, not a Kafka principal; one that is written as a principal is one."""
    (token,) = made(60_000)
    with DAG("d", default_args={"owner": "data-team"}):
        operator = Renew(task_id="t", ending_within=120)
        of_another = Renew(task_id="u", ending_within=120, owner="User:carol")
    assert operator.owner == "data-team"
    assert execute(of_another)["tokens"] == []
    assert ids(execute(operator)["tokens"]) == {token.token_id}


@pytest.mark.long
def test_bad_input() -> None:
    refused: list[tuple[list[Any], dict[str, Any], str]] = [
        ([renew, expire], {}, "Select delegation tokens"),
        ([renew, expire], {"ending_within": -1}, "ending_within must be"),
        ([renew, expire], {"token_owner": "alice", "conn_id": None}, "conn_id must be"),
        ([renew], {"token_owner": "alice", "renew_for": 0}, "renew_for must be"),
        ([expire], {"token_owner": "alice", "expire_in": "soon"}, "expire_in must be"),
    ]
    for calls, parameters, message in refused:
        for call in calls:
            with pytest.raises(AirflowFailException, match=message):
                call(**parameters)
