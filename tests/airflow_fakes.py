"""Airflow's border in a task: what ``execute`` is given, recorded as facts. The rest of the tests is real.

That each takes no more than Airflow's own is shown by ``test_airflow_fakes.py``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_kafka_spark.state import variables


@dataclass
class TaskStateStore:
    """Survives retries and clears, as Airflow's does; ``values`` is what it remembers, ``retained`` for how long."""

    values: dict[str, Any] = field(default_factory=dict)
    retained: dict[str, timedelta | None] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        return copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        self.values[key] = _stored(value)
        self.retained[key] = retention

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


@dataclass
class Variables:
    """Airflow's variables, which are text.

    :ivar unanswered: how many of the next requests for a value Airflow's API does not answer. Airflow then says what it
        says for a variable that is not there.
    :ivar lists: whether the API answers with the names.
    """

    values: dict[str, str] = field(default_factory=dict)
    unanswered: int = 0
    lists: bool = True

    def get(self, key: str, default: Any = None) -> Any:
        if self.unanswered:
            self.unanswered -= 1
            return default
        return self.values.get(key, default)

    def set(self, key: str, value: str, description: str | None = None) -> None:  # noqa: ARG002 - Airflow's
        if not isinstance(value, str):
            raise TypeError("A variable is text.")
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def keys(self, prefix: str | None = None) -> list[str]:
        if not self.lists:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        return sorted(key for key in self.values if key.startswith(prefix or ""))


def use_variables(monkeypatch: pytest.MonkeyPatch, found: Variables, settling_seconds: float = 0.0) -> Variables:
    """These are Airflow's."""
    monkeypatch.setattr(variables, "Variable", found)
    monkeypatch.setattr(variables, "SETTLING_SECONDS", settling_seconds)
    return found


@dataclass
class AssetStateStore:
    """An asset state store: like Airflow's, it keeps JSON over a restart of the triggerer."""

    values: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        return copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: Any) -> None:
        self.values[key] = _stored(value)


def _stored(value: Any) -> Any:
    """As JSON holds it, which is all that Airflow takes."""
    if value is None:
        raise ValueError("Cannot set value as None")
    return json.loads(json.dumps(value))


@dataclass
class TaskInstance:
    """Of a task without the numbers of its tries."""

    dag_id: str = "dag"
    task_id: str = "task"
    run_id: str = "manual__2026-11-20"
    map_index: int = -1
    pushed: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@dataclass
class Try(TaskInstance):
    """One try of a task, as Airflow counts them."""

    try_number: int = 1
    max_tries: int = 3


class OutletEvents(OutletEventAccessors):
    """Airflow's own, in an Airflow that knows these assets.

    :ivar error: what its API answers for others.
    """

    def __init__(self, assets: Sequence[Asset] = ()) -> None:
        super().__init__()
        # Airflow's is of the process.
        self._asset_ref_cache = {}
        self.assets = assets
        self.error = ErrorType.ASSET_NOT_FOUND

    def _get_asset_from_db(self, name: str | None = None, uri: str | None = None) -> Asset:
        for asset in self.assets:
            if name == asset.name or uri == asset.uri:
                return asset
        raise AirflowRuntimeError(ErrorResponse(error=self.error))


def task_context(
    store: TaskStateStore | None = None,
    *,
    clear_number: int = 0,
    ti: TaskInstance | None = None,
    assets: Sequence[Asset] = (),
    dag: DAG | None = None,
) -> dict[str, Any]:
    """The context of one try; give the same store to the next try.

    :param assets: that Airflow knows.
    :param dag: of the task, where it matters.
    """
    return {
        "ti": ti or TaskInstance(),
        "task_state_store": store or TaskStateStore(),
        "dag_run": SimpleNamespace(clear_number=clear_number),
        "outlet_events": OutletEvents(assets),
        **({} if dag is None else {"dag": dag}),
    }
