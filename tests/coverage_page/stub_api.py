"""The page with answers of Airflow's API that a test makes up, and no Airflow."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_kafka_spark.coverage_page.static_site import StaticSite

_STORE = re.compile(r"dags/([^/]+)/dagRuns/([^/]+)/taskInstances/([^/]+)/state-store")
#: Id of a task that has no operator of this package.
FUNCTION = "function"


@dataclass
class StubApi:
    """An API with the events, tasks and DAGs that are given; inside ``with``.

    :param events: as :func:`tests.coverage_page.runs.event` makes them.
    :param tasks: as :func:`tests.coverage_page.runs.task` makes them.
    :param dags: params by the id of a DAG that has the tag.
    :param others: how many DAGs there are without the tag.
    :param refuses: the status for requests whose path and body a pattern finds; the first pattern counts.
    :param without: names of rights that the user does not have, and ids of DAGs of which the user may make no runs.
    :param change: takes the path and an answer, and returns another one.
    :param pause: before each answer, in seconds.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    dags: dict[str, dict[str, Any]] = field(default_factory=dict)
    others: int = 0
    refuses: dict[str, int] = field(default_factory=dict)
    without: Sequence[str] = ()
    change: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _, answer: answer
    pause: float = 0.0
    #: ``METHOD path`` of each request to the API.
    requests: list[str] = field(default_factory=list)
    #: What was sent to make a run.
    started: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> StubApi:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api._serve(self)

            do_POST = do_GET  # noqa: N815 - the server's name

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if parts.path == "/kafka-coverage/rights":
            self.requests.append("GET rights")
            asked = parse_qs(parts.query).get("dag", [])
            may = {right: right not in self.without for right in ("assets", "task_instances", "dags", "runs")}
            answer = {**may, "runs_of": [dag for dag in asked if dag not in self.without]}
            _send(handler, self.refuses.get("rights", 200), json.dumps(answer).encode(), "application/json")
            return
        if not parts.path.startswith("/api/v2/"):
            _serve_file(handler, parts.path)
            return
        path = parts.path.removeprefix("/api/v2/")
        self.requests.append(f"{handler.command} {path}")
        time.sleep(self.pause)
        asked = f"{path} {body.decode()}"
        status = next((status for pattern, status in self.refuses.items() if re.search(pattern, asked)), 0)
        answer: dict[str, Any] = {"detail": "refused"}
        if not status:
            status, answer = self._answer(path, {**parse_qs(parts.query)}, json.loads(body) if body else {})
        _send(handler, status, json.dumps(self.change(path, answer)).encode(), "application/json")

    def _answer(self, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "assets":
            return 200, {"assets": [self._asset()] if self.events else [], "total_entries": len(self.events[:1])}
        if path == "assets/events":
            since = query.get("timestamp_gte", [""])[0]
            found = [self._event(i) for i, each in enumerate(self.events) if each["timestamp"] >= since]
            return 200, _page(found[::-1], query, "asset_events")
        if path.startswith("dags/~/"):
            states = [state or "no_status" for state in body.get("state") or query.get("state", [])]
            query |= {"limit": [str(body["page_limit"])], "offset": [str(body["page_offset"])]} if body else {}
            found = [_task(i, t) for i, t in enumerate(self.tasks) if (t["state"] or "no_status") in states]
            if body:
                found = [t for t in found if t["dag_id"] in body["dag_ids"] and t["task_id"] in body["task_ids"]]
            else:
                found = [t for t in found if t["task_id"] != FUNCTION]
            return 200, _page(found, query, "task_instances")
        if store := _STORE.fullmatch(path):
            where = tuple(map(unquote, store.groups()))
            found = [t for t in self.tasks if (t["dag_id"], t["dag_run_id"], t["task_id"]) == where]
            rows = [{"key": k, "value": v, "updated_at": t["started_at"]} for t in found for k, v in t["store"].items()]
            return 200, {"task_state_store": rows, "total_entries": len(rows)}
        if path == "dags":
            others = [] if query.get("tags") == ["kafka-spark-replay"] else [f"other_{i}" for i in range(self.others)]
            return 200, _page([{"dag_id": dag} for dag in sorted([*self.dags, *others])], query, "dags")
        if path.endswith("/details"):
            dag = unquote(path.split("/")[1])
            return 200, {"dag_id": dag, "is_paused": False, "params": self.dags[dag]}
        self.started.append({"path": path, **body})
        return 200, {"dag_run_id": "manual__1"}

    def _asset(self) -> dict[str, Any]:
        last = {"id": len(self.events) - 1, "timestamp": self.events[-1]["timestamp"]}
        return {"name": "kafka_spark_copies", "last_asset_event": last}

    def _event(self, number: int) -> dict[str, Any]:
        event = {"dag_id": "hourly_copy", "dag_run_id": "manual", "task_id": "copy", **self.events[number]}
        where = {"source_dag_id": event["dag_id"], "source_run_id": event["dag_run_id"], "source_map_index": -1}
        where |= {"source_task_id": event.get("source_task_id", event["task_id"])}
        return {
            "id": number,
            "name": "kafka_spark_copies",
            "extra": event["extra"],
            "timestamp": event["timestamp"],
            **where,
        }


def _task(number: int, task: dict[str, Any]) -> dict[str, Any]:
    names = ("dag_id", "dag_run_id", "task_id", "state")
    start = task["started_at"] if task["store"] else None
    return {"id": str(number), "map_index": -1, "start_date": start, "try_number": 1, **{n: task[n] for n in names}}


def _page(items: list[Any], query: dict[str, list[str]], key: str) -> dict[str, Any]:
    offset, limit = int(query.get("offset", ["0"])[0]), int(query.get("limit", ["50"])[0])
    return {key: items[offset : offset + limit], "total_entries": len(items)}


def _serve_file(handler: BaseHTTPRequestHandler, path: str) -> None:
    """By the plugin's own application."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": handler.command, "path": path, "root_path": "/kafka-coverage"}
    asyncio.run(StaticSite()(scope, None, send))  # type: ignore[arg-type]
    types = dict(sent[0]["headers"])
    _send(handler, sent[0]["status"], sent[1]["body"], types[b"content-type"].decode(), types)


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    content_type: str,
    headers: dict[bytes, bytes] | None = None,
) -> None:
    handler.send_response(status)
    headers = headers or {b"content-type": content_type.encode(), b"content-length": str(len(body)).encode()}
    for name, value in headers.items():
        handler.send_header(name.decode(), value.decode())
    handler.end_headers()
    handler.wfile.write(body)
