"""Airflow's own client of its execution API, as a task has it, whose server answers as a test says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from airflow.sdk.api.client import Client, ServerResponseError
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import request_handlers, task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection, GetVariable, GetVariableKeys, PutVariable
from tenacity import wait_none

_HANDLERS = {
    GetConnection: request_handlers.handle_get_connection,
    GetVariable: request_handlers.handle_get_variable,
    GetVariableKeys: request_handlers.handle_get_variable_keys,
    PutVariable: request_handlers.handle_put_variable,
}


@dataclass
class ExecutionApi:
    """A server that has variables and no connection, and between it and the task what Airflow has there.

    :ivar broken: paths that begin so are answered with 503.
    :ivar requests: methods and paths, without Airflow's own repetitions.
    """

    variables: dict[str, str] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        transport = httpx.MockTransport(self._answer)
        self._client = Client(base_url="http://airflow", token="", transport=transport)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> ExecutionApi:
        """This process is a task's. Airflow repeats a request that got a 503, here without a wait."""
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self, raising=False)
        request: Any = Client.request
        monkeypatch.setattr(request.retry, "wait", wait_none())
        return self

    def send(self, msg: Any) -> Any:
        """What a task sends to its supervisor, which asks the server, and what the task gets (``handle_requests``)."""
        handler: Any = _HANDLERS.get(type(msg))
        if handler is None:
            return None
        self.requests.append(type(msg).__name__)
        try:
            answer = handler(self._client, msg)
        except ServerResponseError as error:
            detail = {"status_code": error.response.status_code}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail)) from error
        return answer[0] if isinstance(answer, tuple) else answer

    async def asend(self, msg: Any) -> Any:
        return await asyncio.to_thread(self.send, msg)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.lstrip("/")
        if path.startswith(self.broken):
            return httpx.Response(503, json={"detail": "no server"})
        if path == "variables/keys":
            names = sorted(name for name in self.variables if name.startswith(request.url.params["prefix"]))
            return httpx.Response(200, json={"keys": names, "total_entries": len(names)})
        name = path.removeprefix("variables/")
        if request.method == "PUT":
            self.variables[name] = json.loads(request.content)["value"]
            return httpx.Response(201, json={})
        if name in self.variables:
            return httpx.Response(200, json={"key": name, "value": self.variables[name]})
        return httpx.Response(404, json={"detail": {"reason": "not_found"}})
