"""A real Chromium without a window, driven by its DevTools protocol over one websocket."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from websocket import WebSocket, create_connection

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess

INSTALL_COMMAND = "sudo apt-get install chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_START_SECONDS = 60.0
_ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.05


def find_chromium() -> str | None:
    """The program, if it is installed."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


class Chromium(ManagedServer):
    """A browser with one page, inside ``with``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        command = [
            find_chromium() or "chromium",
            "--headless=new",
            "--remote-debugging-port=0",
            "--remote-allow-origins=*",
            f"--user-data-dir={self._folder}",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            # Chromium's own sandbox does not run as root.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "about:blank",
        ]
        self._process = OwnedProcess(command, self._folder / "chromium.log", name="chromium")
        self._socket: WebSocket | None = None
        self._session: str | None = None
        self._number = 0
        #: What the page wrote to its console, and exceptions that nothing caught.
        self.console: list[str] = []
        #: ``"METHOD path"`` of each request since the page was opened.
        self.requests: list[str] = []

    def start(self) -> None:
        self._process.start()
        deadline = time.monotonic() + _START_SECONDS
        announced = self._folder / "DevToolsActivePort"
        while not (announced.exists() and announced.read_text().count("\n") >= 1):
            if time.monotonic() > deadline or not self._process.running:
                tail = self._process.tail(20)
                self.stop()
                raise LocalServiceError(f"Chromium must listen within {_START_SECONDS:g} seconds.\n{tail}")
            time.sleep(_POLL_SECONDS)
        port, path = announced.read_text().split("\n")[:2]
        self._socket = create_connection(f"ws://127.0.0.1:{port}{path}", timeout=_ANSWER_SECONDS)
        (target,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(1280, 800)

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command, and return its result."""
        if self._socket is None:
            raise self._not_running()
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps({**message, "sessionId": self._session} if self._session else message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                if "error" in answer:
                    raise LocalServiceError(f"Chromium must accept {method}; got {answer['error']}.")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: Mapping[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif event.get("method") == "Log.entryAdded":
            self.console.append(
                f"{params['entry']['level']}: {params['entry']['text']} {params['entry'].get('url', '')}"
            )
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(f"{params['request']['method']} {params['request']['url']}")

    def visit(self, url: str) -> None:
        """Open an address. Its document may not be loaded yet."""
        self.console.clear()
        self.requests.clear()
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it gives."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details))
        return result["result"].get("value")

    def wait_for(self, expression: str, *, seconds: float = 60.0) -> Any:
        """Wait until an expression has a value that is true, and return it."""
        deadline = time.monotonic() + seconds
        got: object = None
        while time.monotonic() < deadline:
            try:
                got = self.evaluate(expression)
            except (AssertionError, LocalServiceError) as error:
                # A document that is being replaced.
                got = error
            else:
                if got:
                    return got
            time.sleep(_POLL_SECONDS)
        raise AssertionError(
            f"{expression} must become true within {seconds:g} s; got {got!r}. Console: {self.console}"
        )

    def set_cookie(self, name: str, value: str, url: str) -> None:
        self.call("Network.setCookie", name=name, value=value, url=url, httpOnly=True, sameSite="Lax")

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def prefer(self, scheme: str) -> None:
        """Prefer the colour scheme ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """Press and release a key, such as ``ArrowRight`` or ``g``."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """``mouseMoved``, ``mousePressed`` or ``mouseReleased`` with the left button."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=1, clickCount=1)

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def screenshot(self, path: Path, clip: Mapping[str, float] | None = None) -> None:
        """Write a PNG of what is in view.

        :param clip: the part of it: ``x``, ``y``, ``width`` and ``height``.
        """
        part = {} if clip is None else {"clip": {**clip, "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **part)["data"]))
