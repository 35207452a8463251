"""An ASGI application that serves the files of the page, what its user may do, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.coverage_page.rights import rights

_Message = MutableMapping[str, Any]

_FOLDER = Path(__file__).parent
_CONTENT_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_RIGHTS = "rights"
_JSON = "application/json"
_FILES = frozenset(file.name for file in _FOLDER.iterdir() if file.suffix in _CONTENT_TYPES)
#: No inline script, no resource of another host. Airflow shows the page in a frame.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # After an upgrade, files of two versions must not meet.
    "Cache-Control": "no-cache",
}


class StaticSite:
    """The page's files.

    They hold no data, so everyone may read them: the data comes from Airflow's REST API, which checks the user. What a
    user may do is said to this user only.
    It needs no web framework, because every process of Airflow imports its plugins.
    """

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        _receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        # Mounted applications see the whole path; what is before theirs is the root path.
        name = str(scope["path"]).removeprefix(str(scope.get("root_path", ""))).lstrip("/") or "index.html"
        if scope["method"] not in ("GET", "HEAD"):
            status, body, content_type = HTTPStatus.METHOD_NOT_ALLOWED, b"Method not allowed\n", "text/plain"
        elif name == _RIGHTS:
            status, answer = await rights(scope)
            body, content_type = json.dumps(answer).encode(), _JSON
        elif name not in _FILES:
            status, body, content_type = HTTPStatus.NOT_FOUND, b"Not found\n", "text/plain"
        else:
            status, body = HTTPStatus.OK, (_FOLDER / name).read_bytes()
            content_type = _CONTENT_TYPES[Path(name).suffix]
        headers = {**_HEADERS, "Content-Type": f"{content_type}; charset=utf-8", "Content-Length": str(len(body))}
        if content_type == _JSON:
            headers["Cache-Control"] = "no-store"
        encoded = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": int(status), "headers": encoded})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
