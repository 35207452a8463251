"""Operators on delegation tokens: which of them are renewed and ended, and that a refused login is tried once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators.delegation_token import ExpireDelegationTokensOperator as Expire
from airflow_provider_kafka_spark.operators.delegation_token import RenewDelegationTokensOperator as Renew
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import TaskStateStore
from tests.child_processes import children_with
from tests.operators.copy_task import execute
from tests.waiting import until

Hooks = dict[str, DelegationTokenHook]
Made = Callable[..., list[TokenInfo]]
_USER = {"kafka_default": "alice", "copier": "copier"}


@pytest.fixture(scope="module")
def hooks(secured_broker: KafkaBroker) -> Iterator[Hooks]:
    """The tests' own for each connection; each has a JVM."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, user in _USER.items():
            extra = secured_broker.sasl_client_config(user)
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
        yield {name: stack.enter_context(DelegationTokenHook(name)) for name in _USER}


@pytest.fixture
def made(hooks: Hooks) -> Iterator[Made]:
    """Makes tokens; none is left."""

    def make(*leases_ms: int | None, conn_id: str = "kafka_default", **parameters: Any) -> list[TokenInfo]:
        return [hooks[conn_id].create(lease_ms=lease, **parameters).info for lease in leases_ms]

    yield make
    for name, hook in hooks.items():
        now_ms = hook.now_ms()
        ids = tuple(t.token_id for t in hook.describe(f"User:{_USER[name]}") if t.remaining_ms(now_ms) > 0)
        if ids:
            hook.expire(TokenSelection(token_ids=ids))


def renew(**parameters: Any) -> dict[str, Any]:
    return execute(Renew(task_id="t", **parameters))


def expire(store: TaskStateStore | None = None, **parameters: Any) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = execute(Expire(task_id="t", **parameters), store)["tokens"]
    return tokens


def ids(tokens: list[dict[str, Any]]) -> set[str]:
    return {token["token_id"] for token in tokens}


@pytest.mark.broker
@pytest.mark.parametrize("by_owner", [False, True])
def test_by_what_a_sensor_returned(made: Made, hooks: Hooks, by_owner: bool) -> None:
    """Or those of an owner that end soon."""
    soon, other = made(60_000, 300_000)
    (of_copier,) = made(60_000, conn_id="copier")
    selected: dict[str, Any] = {"token_ids": {"tokens": [soon.as_json()], "now_ms": 1}}
    if by_owner:
        selected = {"token_owner": "alice", "ending_within": timedelta(minutes=2)}
    result = renew(**selected)
    (token,) = result["tokens"]
    assert token["token_id"] == soon.token_id
    assert token["expiry_timestamp_ms"] > soon.expiry_ms + 500_000
    assert other in hooks["kafka_default"].describe()
    assert of_copier in hooks["copier"].describe("copier")


@pytest.mark.broker
def test_the_maximum_is_logged(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A renewal ends there, and a token that is there already is left as it is."""
    (token,) = made(60_000, max_lifetime_ms=300_000)
    for _ in range(2):
        result = renew(token_ids=[token.token_id])
        assert result["at_maximum"] == [token.token_id]
        assert result["tokens"][0]["expiry_timestamp_ms"] == token.max_ms
    assert capsys.readouterr().out.count("has reached its maximum time") == 2


@pytest.mark.broker
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


@pytest.mark.broker
@pytest.mark.long
def test_how_long_they_live_may_be_given(made: Made, hooks: Hooks) -> None:
    """No renewal shortens, and no expiry prolongs; a broker would do either."""
    (token,) = made(60_000)
    (renewed,) = renew(token_ids=token.token_id, renew_for=120)["tokens"]
    assert renew(token_ids=[token.token_id], renew_for=60) == {"tokens": [], "at_maximum": []}
    assert expire(token_ids=[token.token_id], expire_in=500) == []
    (ending,) = expire(token_ids=[token.token_id], expire_in=30)

    ends = [each["expiry_timestamp_ms"] - token.issue_ms for each in (renewed, ending)]
    assert 100_000 < ends[0] < 140_000
    assert (ending["token_id"], ends[1] < 75_000) == (token.token_id, True)
    assert token.token_id in {each.token_id for each in hooks["kafka_default"].describe()}


@pytest.mark.broker
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
@pytest.mark.broker
@pytest.mark.usefixtures("hooks")
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


of_each_kind = pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        pytest.param(Renew, {}, id="renew"),
        pytest.param(Expire, {}, id="expire"),
        pytest.param(DelegationTokenExpirySensor, {"min_remaining": 60}, id="sensor"),
    ],
)
_IDS, _OWNER = ["Fnb0YrRxQ8C0YjWbl0aMsA", "second-id"], "User:alice"


@of_each_kind
def test_ids_and_owner_are_shown(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """Under names that Airflow does not take for those of secrets; the parameters keep theirs. So are those of a
    sensor's whole result, and of a mapped task.
    """
    owner, context = "User:{{ who }}", {"first": _IDS[0], "who": "alice"}
    task: Any = kind(task_id="t", token_ids=["{{ first }}", _IDS[1]], token_owner=owner, **parameters)
    found = {"tokens": [{"token_id": name} for name in _IDS], "now_ms": 1}
    of_result: Any = kind(task_id="r", token_ids=found, token_owner=owner, **parameters)
    with DAG("d"):
        partial = kind.partial(task_id="m", token_owner=owner, **parameters)
        mapped = partial.expand(token_ids=[_IDS, []])
    unmapped: Any = mapped.unmap({"token_ids": _IDS})
    for each in (task, of_result):
        each.render_template_fields(context)
    # As the mapped operator renders it: by the fields of the class.
    unmapped._do_render_template_fields(unmapped, mapped.template_fields, context, mapped.get_template_env(), set())  # noqa: SLF001

    for each in (task, of_result, unmapped):
        # As a task runner sends them to Airflow's UI.
        shown = _serialize_rendered_fields(each)
        assert (shown["selected_ids"], shown["selected_owner"]) == (_IDS, _OWNER)
        assert not [name for name, value in shown.items() if "***" in str(value)]
        assert (each.token_ids, each.token_owner) == (_IDS, _OWNER)


@of_each_kind
def test_a_task_whose_ids_come_from_another_waits_for_it(kind: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """However they are given."""
    with DAG("d"):
        first = DelegationTokenExpirySensor(task_id="first", min_remaining=60)
        tasks: list[Any] = [kind(task_id="argument", token_ids=first.output, **parameters)]
        tasks.append(kind(task_id="attribute", **parameters))
        tasks[-1].token_ids = first.output
        partial = kind.partial(task_id="partial", token_ids=first.output, **parameters)
        tasks.append(partial.expand(conn_id=["a", "b"]))
        tasks.append(kind.partial(task_id="expand", **parameters).expand(token_ids=first.output))

    assert [task.upstream_task_ids for task in tasks] == [{"first"}] * 4


_SASL_AUTHENTICATE = (36).to_bytes(2, "big")


class Door:
    """A port in front of the broker's. A client may connect again before it logs in, as on a busy machine."""

    def __init__(self, address: str) -> None:
        self._broker = address.rsplit(":", 1)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.logins = 0
        threading.Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection((self._broker[0], int(self._broker[1])))
                for pair in ((client, broker, self._look), (broker, client, lambda _: None)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    def _look(self, request: bytes) -> None:
        # The size, then the kind; the first message of SCRAM begins so, and no other.
        self.logins += request[4:6] == _SASL_AUTHENTICATE and b"n,,n=" in request


def _pass_on(source: socket.socket, target: socket.socket, look: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            look(data)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    source.close()


@pytest.mark.broker
def test_a_wrong_password_is_tried_once(
    broker_without_tokens: KafkaBroker, connection: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the default time-out; more tries may lock the user out. No process is left, and no clock is to blame."""
    broker, began, before = broker_without_tokens, time.monotonic(), children_with("py4j.GatewayServer")
    with closing(Door(broker.sasl_bootstrap_servers)) as door:
        wrong = {"sasl.password": "wrong-password", "bootstrap.servers": door.address}
        connection("kafka_wrong", extra={**broker.sasl_client_config("alice"), **wrong})
        with pytest.raises(AirflowFailException, match=r"BrokerAuthenticationError: .*sasl\.password") as caught:
            renew(conn_id="kafka_wrong", token_owner="alice")
        assert door.logins == 1
    assert time.monotonic() - began < 38
    assert children_with("py4j.GatewayServer") == before
    said = "".join((str(caught.value), *capsys.readouterr()))
    assert "clock" not in said
    assert "wrong-password" not in said
