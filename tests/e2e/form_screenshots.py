"""Fill in the form of a Kafka connection in a real Airflow by Chromium, press "Test", and keep pictures of it for the
documentation: ``python -m tests.e2e.form_screenshots docs/images``.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.e2e.api_server import AirflowApiServer

_SECONDS = 30
_OPTIONS = ("--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--window-size=1280,1500")
_USER, _PASSWORD = "copier", "s3cret-s3cret"
#: React reads what its own setter wrote.
_TYPE = """(element, value) => {
    const kind = element instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(element, value);
    element.dispatchEvent(new Event("input", {bubbles: true}));
    element.dispatchEvent(new Event("blur", {bubbles: true}));
}"""


class Page:
    """A tab of Chromium, by its DevTools protocol."""

    def __init__(self, port: int) -> None:
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_SECONDS) as answer:
            address = next(tab["webSocketDebuggerUrl"] for tab in json.load(answer) if tab["type"] == "page")
        self._socket = websocket.create_connection(address, timeout=_SECONDS, suppress_origin=True)
        self._sent = 0

    def call(self, method: str, **params: Any) -> Any:
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._sent:
                return answer["result"]

    def run(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}\n{result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script: str) -> Any:
        deadline = time.monotonic() + _SECONDS
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, f"{script}\n{self.run('document.body.innerText')}"
            time.sleep(0.2)
        return found

    def click(self, text: str) -> None:
        """Press the button with this text or label."""
        named = json.dumps(text)
        button = (
            f"[...document.querySelectorAll('button')].find(b => [b.innerText.trim(), b.ariaLabel].includes({named}))"
        )
        self.wait(f"!!{button}")
        self._press(button)

    def _press(self, element: str) -> None:
        self.run(f"{element}.scrollIntoView({{block: 'center'}})")
        # Until what moves has stopped.
        time.sleep(0.5)
        box = self.run(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({element}.getBoundingClientRect())")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def type(self, selector: str, value: str) -> None:
        self.wait(f"!!document.querySelector({selector!r})")
        self.run(f"({_TYPE})(document.querySelector({selector!r}), {json.dumps(value)})")

    def choose(self, selector: str, option: str) -> None:
        """Choose from a list."""
        self.wait(f"!!document.querySelector({selector!r})")
        self._press(f"document.querySelector({selector!r})")
        self.call("Input.insertText", text=option)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)

    def picture(self, path: Path, selector: str, height: int) -> None:
        """The beginning of an element."""
        time.sleep(1.0)
        box = self.run(
            f"(({{x, y, width}}) => ({{x, y, width}}))(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        shot = self.call("Page.captureScreenshot", format="png", clip={**box, "height": height, "scale": 1})
        path.write_bytes(base64.b64decode(shot["data"]))


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary, KafkaBroker(sasl_users={_USER: _PASSWORD}) as broker:
        scratch = Path(temporary)
        for name in ("dags", "scratch"):
            (scratch / name).mkdir()
        home = AirflowHome(
            scratch / "home",
            scratch / "dags",
            scratch / "scratch",
            settings={"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"},
        )
        home.migrate()
        with AirflowApiServer(home) as airflow:
            profile = scratch / "chromium"
            browser = subprocess.Popen(
                ["chromium", *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                _draw(_page(profile), airflow, broker.sasl_bootstrap_servers, folder)
            finally:
                browser.terminate()
                browser.wait(_SECONDS)


def _page(profile: Path) -> Page:
    deadline = time.monotonic() + _SECONDS
    while not (found := profile / "DevToolsActivePort").exists():
        assert time.monotonic() < deadline, "Chromium must start"
        time.sleep(0.1)
    return Page(int(found.read_text().split()[0]))


def _draw(page: Page, airflow: AirflowApiServer, servers: str, folder: Path) -> None:
    form = "[role=dialog]"
    page.call("Page.enable")
    page.call("Page.navigate", url=f"{airflow.url}/auth/login")
    page.type("input[name=username]", airflow.user)
    page.type("input[name=password]", airflow.password)
    page.click("Sign in")
    page.wait("document.body.innerText.includes('Admin')")
    page.call("Page.navigate", url=f"{airflow.url}/connections")
    page.click("Add Connection")
    page.type("input[name=connection_id]", "kafka_default")
    page.wait("!!document.querySelector('[role=dialog] input[role=combobox]')")
    page.choose("[role=dialog] input[role=combobox]", "Kafka (for Spark)")
    page.wait("!!document.querySelector('input[name=host]')")
    page.type("input[name=host]", servers)
    page.type("input[name=port]", "9092")
    page.type("input[name=login]", _USER)
    page.type("input[name=password]", _PASSWORD)
    page.picture(folder / "connection-form.png", form, 930)
    page.click("Protocol and login (for every secured cluster)")
    page.choose("#element_security_protocol input", "SASL_PLAINTEXT")
    page.choose("#element_sasl_mechanism input", "SCRAM-SHA-512")
    page.picture(folder / "connection-form-login.png", form, 830)
    page.click("Save")
    page.click("Test Connection")
    page.wait("document.body.innerText.includes('Test Connection Successful')")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
