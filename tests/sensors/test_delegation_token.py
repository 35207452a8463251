from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import task_context

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def connection(secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = secured_broker.sasl_client_config("alice")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))


def sensor(token: TokenInfo | None = None, **parameters: Any) -> DelegationTokenExpirySensor:
    ids = {} if token is None else {"token_ids": [token.token_id]}
    return DelegationTokenExpirySensor(
        **{"task_id": "wait", "min_remaining": 60, "poke_interval": 0.5, "timeout": 60, **ids, **parameters}
    )


def by_poking(token: TokenInfo | None, **parameters: Any) -> Any:
    return sensor(token, **parameters).execute(task_context())  # type: ignore[arg-type]


def by_sleeping(token: TokenInfo | None, **parameters: Any) -> Any:
    """Deferred, woken by the trigger, and resumed as often as it takes."""
    call: Callable[[], Any] = lambda: sensor(token, deferrable=True, **parameters).execute(task_context())  # type: ignore[arg-type]  # noqa: E731
    for _ in range(20):
        try:
            return call()
        except TaskDeferred as found:
            deferred = found
        path, kwargs = deferred.trigger.serialize()
        assert path == "airflow.providers.standard.triggers.temporal.DateTimeTrigger"
        # Nothing secret, and nothing that asks a broker, is in the triggerer.
        assert set(kwargs) == {"moment", "end_from_trigger"}
        event = asyncio.run(anext(DateTimeTrigger(**kwargs).run()))
        resumed, resume = sensor(token, deferrable=True, **parameters), deferred.kwargs or {}
        assert deferred.method_name == "execute_complete"
        call = lambda r=resumed, e=event, k=resume: r.execute_complete(task_context(), event=e.payload, **k)  # type: ignore[misc]  # noqa: E731
    raise AssertionError("It was deferred again and again.")


@pytest.mark.parametrize("wait", [by_poking, by_sleeping])
def test_it_wakes_when_a_token_comes_to_its_end(
    token_hook: DelegationTokenHook, monkeypatch: pytest.MonkeyPatch, wait: Callable[..., Any]
) -> None:
    """And not before, with two looks however often it is poked; it returns the broker's values, and no secret."""
    looks, look = [], DelegationTokenHook.describe
    token = token_hook.create(lease_ms=34_000)
    info = token.info
    monkeypatch.setattr(DelegationTokenHook, "describe", lambda *a: looks.append(time.monotonic()) or look(*a))
    found = wait(info, min_remaining=timedelta(seconds=30), poke_interval=0.1)
    assert found == {"tokens": [info.as_json()], "now_ms": found["now_ms"]}
    assert 0 < info.expiry_ms - found["now_ms"] <= 30_000
    assert token.hmac not in json.dumps(found)
    assert len(looks) <= 3
    token_hook.expire_token(token)


def test_airflows_own_mode_in_default_args() -> None:
    """It says how the sensor waits, and not what for."""
    with DAG("d", default_args={"mode": "reschedule"}):
        one = sensor(min_remaining=60)
        gate = sensor(min_remaining=60, wait_for="valid", task_id="gate")
    assert (one.mode, one.wait_for, one.reschedule) == ("reschedule", "expiring", True)
    assert (gate.mode, gate.wait_for) == ("reschedule", "valid")
    assert (sensor(mode="valid").mode, sensor(mode="valid").wait_for) == ("poke", "valid")


@pytest.mark.parametrize("wait", [by_poking, pytest.param(by_sleeping, marks=pytest.mark.long)])
def test_a_gate_opens_when_somebody_has_renewed(token_hook: DelegationTokenHook, wait: Callable[..., Any]) -> None:
    info = token_hook.create(lease_ms=60_000).info
    assert sensor(info, min_remaining=3600, mode="valid").poke(task_context()) is False  # type: ignore[arg-type]
    token_hook.renew(TokenSelection(token_ids=(info.token_id,)))
    (found,) = wait(info, min_remaining=3600, mode="valid")["tokens"]
    assert found["token_id"] == info.token_id
    token_hook.expire(TokenSelection(token_ids=(info.token_id,)))


@pytest.mark.parametrize(("shift", "is_near"), [(3600, False), pytest.param(-3600, True, marks=pytest.mark.long)])
def test_times_are_the_broker_s(
    token_hook: DelegationTokenHook, monkeypatch: pytest.MonkeyPatch, shift: int, is_near: bool
) -> None:
    """By a clock an hour ahead the token has ended, and by one that is an hour slow it is far from its end."""
    clock = time.time
    info = token_hook.create(lease_ms=50_000 if is_near else 600_000).info
    monkeypatch.setattr(time, "time", lambda: clock() + shift)
    found: Any = sensor(info, min_remaining=60).poke(task_context())  # type: ignore[arg-type]
    gate: Any = sensor(info, min_remaining=60, wait_for="valid").poke(task_context())  # type: ignore[arg-type]
    assert bool(found) is is_near
    assert bool(gate) is not is_near
    seen = (found or gate).xcom_value
    assert abs(seen["now_ms"] - clock() * 1000) < 15_000
    token_hook.expire(TokenSelection(token_ids=(info.token_id,)))


def test_deferred_it_gives_up_in_time(token_hook: DelegationTokenHook) -> None:
    """What is left of its time is given to each sleep."""
    info = token_hook.create(lease_ms=600_000).info
    with pytest.raises(TaskDeferred) as caught:
        sensor(info, min_remaining=60, deferrable=True, timeout=30).execute(task_context())  # type: ignore[arg-type]
    assert caught.value.timeout == timedelta(seconds=30)
    assert 500 < caught.value.trigger.moment.timestamp() - time.time() < 600
    again = caught.value.kwargs or {}
    with pytest.raises(TaskDeferred) as caught:
        sensor(info, min_remaining=60, deferrable=True, timeout=30).execute_complete(task_context(), **again)  # type: ignore[arg-type]
    assert caught.value.timeout is not None
    assert timedelta(seconds=0) < caught.value.timeout < timedelta(seconds=30)
    token_hook.expire(TokenSelection(token_ids=(info.token_id,)))


@pytest.mark.long
def test_bad_input_fails_permanently(secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or skips."""
    extra = {**secured_broker.sasl_client_config("alice"), "sasl.password": "something-else"}
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps({"conn_type": "kafka", "extra": extra}))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"min_remaining": 0, "deferrable": True}, "min_remaining must be a number of seconds"),
        ({"mode": "soon"}, r"wait_for \(or mode\) must be one of"),
        ({"mode": "valid", "wait_for": "expiring"}, "got 'expiring' and mode='valid'"),
        ({"token_ids": ["no-such-token"], "deferrable": True}, "no-such-token"),
        ({"conn_id": " "}, "conn_id must be"),
        ({"conn_id": "wrong"}, "invalid credentials"),
    ]
    for parameters, message in refused:
        given = {"min_remaining": 60, **parameters}
        with pytest.raises(AirflowFailException, match=message) as caught:
            sensor(**given).execute(task_context())  # type: ignore[arg-type]
        assert "something-else" not in str(caught.value)
        if "min_remaining" in parameters:
            with pytest.raises(AirflowSkipException):
                sensor(**given, soft_fail=True).execute(task_context())  # type: ignore[arg-type]


def test_an_outage_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, secured_broker: KafkaBroker, closed_port: int
) -> None:
    down = {**secured_broker.sasl_client_config("alice"), "bootstrap.servers": f"127.0.0.1:{closed_port}"}
    monkeypatch.setenv("AIRFLOW_CONN_DOWN", json.dumps({"conn_type": "kafka", "extra": down}))
    one = sensor(conn_id="down", min_remaining=60, kafka_timeout=2)
    assert one.poke(task_context()) is False  # type: ignore[arg-type]
