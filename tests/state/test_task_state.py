"""Promises of :mod:`airflow_provider_kafka_spark.state.task_state`: what others store is not a task's own memory."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from airflow.configuration import conf

from airflow_provider_kafka_spark.core.wire.state_parts import published
from airflow_provider_kafka_spark.state import deployment
from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.state.stream_state import StreamRunStore
from airflow_provider_kafka_spark.state.task_state import TaskState
from airflow_provider_kafka_spark.toolchain.settings import STATE_KEY
from tests.airflow_fakes import TaskInstance, TaskStateStore, Try, Variables, task_context, use_variables

KEY = "kafka_spark_run"
#: As JSON has it: numbers become texts where they are names, and any key may come first.
VALUE = {"b": {1: [1.5, None, True, "ü\u2028"]}, "a": "", "10": 1, "9": 2}
BACK = {"a": "", "9": 2, "10": 1, "b": {"1": [1.5, None, True, "ü\u2028"]}}


def state(store: TaskStateStore, **instance: Any) -> TaskState:
    return TaskState(task_context(store, ti=TaskInstance(**instance)), "task")


@pytest.fixture
def store() -> TaskStateStore:
    store = TaskStateStore()
    state(store).set(KEY, VALUE)
    return store


def test_what_a_task_has_stored_comes_back(store: TaskStateStore) -> None:
    # Airflow's database may give the members of an object in another order.
    store.values[KEY] = {"mac": store.values[KEY]["mac"], "value": BACK}

    assert state(store).get(KEY) == BACK


def _another_key(monkeypatch: pytest.MonkeyPatch, store: TaskStateStore) -> None:
    monkeypatch.setenv(STATE_KEY.variable, "a key that nobody has used before")


def _without_mac(monkeypatch: pytest.MonkeyPatch, store: TaskStateStore) -> None:
    store.values[KEY] = BACK


def _changed(monkeypatch: pytest.MonkeyPatch, store: TaskStateStore) -> None:
    store.values[KEY]["value"]["a"] = "password=hunter2"


def _malformed(monkeypatch: pytest.MonkeyPatch, store: TaskStateStore) -> None:
    store.values[KEY]["mac"] = ["ü"]


def _of_another_key(monkeypatch: pytest.MonkeyPatch, store: TaskStateStore) -> None:
    state(store).set("kafka_spark_requested", VALUE)
    store.values[KEY] = store.values["kafka_spark_requested"]


@pytest.mark.parametrize("change", [_another_key, _without_mac, _changed, _malformed, _of_another_key])
def test_what_others_have_stored_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    store: TaskStateStore,
    change: Callable[[pytest.MonkeyPatch, TaskStateStore], None],
) -> None:
    """And the warning, which anybody may read, has nothing of it."""
    change(monkeypatch, store)

    with caplog.at_level(logging.WARNING):
        assert state(store).get(KEY) is None

    assert KEY in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("other", [{"dag_id": "d"}, {"run_id": "r"}, {"task_id": "t"}, {"map_index": 0}])
def test_the_state_of_another_task_instance_counts_as_lost(store: TaskStateStore, other: dict[str, Any]) -> None:
    context = task_context(store, ti=TaskInstance(**other))

    assert TaskState(context, context["ti"].task_id).get(KEY) is None


def test_a_retry_whose_state_was_changed_asks_the_target(store: TaskStateStore) -> None:
    """A first try has no state, whatever is there; a retry has lost it."""
    store.values[KEY] = {"value": {"result": {}}, "mac": ""}
    first = RunStateStore(task_context(store, ti=Try(try_number=1)), "task").load()
    retry = RunStateStore(task_context(store, ti=Try(try_number=2)), "task").load()

    assert (first.adopts_run, first.is_lost) == (False, False)
    assert (retry.adopts_run, retry.is_lost) == (True, True)
    store.values["kafka_spark_stream"] = {"value": {"result": {}}, "mac": ""}
    assert StreamRunStore(task_context(store, ti=Try(try_number=2)), "task").result is None


def test_a_large_state_is_stored_in_parts_that_airflow_takes(store: TaskStateStore) -> None:
    """One of ten thousand partitions is larger than what Airflow stores without a warning, also where it is packed."""
    most = conf.getint("state_store", "max_value_storage_bytes")
    for seed in ("first", "second"):
        # Also where another try, or a clear, replaces it, which has not read it.
        state(store).set(KEY, [hashlib.sha256(f"{seed}{i}".encode()).hexdigest() for i in range(5_000)])
    # Those of the first value are gone.
    assert len(store.values) == 5
    assert max(len(json.dumps(value)) for value in store.values.values()) <= most
    assert state(store).get(KEY)[-1] == hashlib.sha256(b"second4999").hexdigest()

    own = state(store)
    part = next(name for name in store.values if name != KEY)
    store.values[part] = store.values[part].replace("A", "B")
    assert own.get(KEY) is None
    own.set(KEY, VALUE)
    assert list(store.values) == [KEY]


def test_what_is_published_has_no_mac(store: TaskStateStore) -> None:
    """The coverage page reads it, and no task does."""
    state(store).publish("ledger", VALUE)

    assert store.values["ledger"] == BACK


@pytest.mark.parametrize("called", ["", "/copy_2"], ids=["task", "called"])
def test_what_is_published_is_in_parts_if_it_is_large(called: str) -> None:
    """Each is stored as JSON of JSON, which doubles what has only quotes. A reader who finds one absent has nothing."""
    store, most = TaskStateStore(), conf.getint("state_store", "max_value_storage_bytes")
    ti, task_id = TaskInstance(), called[1:] or "task"
    for value in (['"' * 100_000], ["other" * 20_000]):
        TaskState(task_context(store, ti=ti), task_id).publish("ledger", value)
        assert max(len(json.dumps(stored)) for stored in store.values.values()) <= most
        assert published(store.values, f"ledger{called}") == value
    # The first and the second part are the same text.
    assert len(store.values) == 4
    assert [key for key in store.values if key.partition("/")[0] == "ledger"] == [f"ledger{called}"]
    store.values.pop(next(key for key in store.values if key.startswith("ledger.")))
    assert published(store.values, f"ledger{called}") is None
    TaskState(task_context(store, ti=ti), task_id).publish("ledger", VALUE)
    assert store.values == {f"ledger{called}": BACK}


def test_a_deployment_without_a_key_makes_one_that_stays(
    monkeypatch: pytest.MonkeyPatch, store: TaskStateStore
) -> None:
    variables = use_variables(monkeypatch, Variables())
    monkeypatch.delenv(STATE_KEY.variable)
    state(store).set(KEY, VALUE)

    assert state(store).get(KEY) == BACK
    assert len(variables.values[deployment.KEY_VARIABLE]) == 64
    variables.values[deployment.KEY_VARIABLE] = "0" * 64
    assert state(store).get(KEY) is None
