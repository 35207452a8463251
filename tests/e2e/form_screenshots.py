"""Fill in the form of a Kafka connection in a real Airflow by Chromium, press "Test", and keep pictures of it for the
documentation: ``python -m tests.e2e.form_screenshots docs/images``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_api_server import AirflowApiServer
from tests.chromium import Chromium

_USER, _PASSWORD = "copier", "s3cret-s3cret"
#: React reads what its own setter wrote.
_TYPE = """(element, value) => {
    const kind = element instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(element, value);
    element.dispatchEvent(new Event("input", {bubbles: true}));
    element.dispatchEvent(new Event("blur", {bubbles: true}));
}"""


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
        with AirflowApiServer(home) as airflow, Chromium() as page:
            page.resize(1280, 1500)
            _draw(page, airflow, broker.sasl_bootstrap_servers, folder)


def _draw(page: Chromium, airflow: AirflowApiServer, servers: str, folder: Path) -> None:
    page.visit(f"{airflow.url}/auth/login")
    _type(page, "input[name=username]", airflow.user)
    _type(page, "input[name=password]", airflow.password)
    _press_button(page, "Sign in")
    page.wait_for("document.body.innerText.includes('Admin')")
    page.visit(f"{airflow.url}/connections")
    _press_button(page, "Add Connection")
    _type(page, "input[name=connection_id]", "kafka_default")
    _choose(page, "[role=dialog] input[role=combobox]", "Kafka (for Spark)")
    _type(page, "input[name=host]", servers)
    _type(page, "input[name=port]", "9092")
    _type(page, "input[name=login]", _USER)
    _type(page, "input[name=password]", _PASSWORD)
    _picture(page, folder / "connection-form.png", 930)
    _press_button(page, "Protocol and login (for every secured cluster)")
    _choose(page, "#element_security_protocol input", "SASL_PLAINTEXT")
    _choose(page, "#element_sasl_mechanism input", "SCRAM-SHA-512")
    _picture(page, folder / "connection-form-login.png", 830)
    _press_button(page, "Save")
    _press_button(page, "Test Connection")
    page.wait_for("document.body.innerText.includes('Test Connection Successful')")


def _found(page: Chromium, selector: str) -> str:
    """The expression of an element, which is there."""
    element = f"document.querySelector({json.dumps(selector)})"
    page.wait_for(f"!!{element}")
    return element


def _type(page: Chromium, selector: str, value: str) -> None:
    page.evaluate(f"({_TYPE})({_found(page, selector)}, {json.dumps(value)})")


def _press_button(page: Chromium, text: str) -> None:
    """Press the button with this text or label."""
    named = json.dumps(text)
    button = f"[...document.querySelectorAll('button')].find(b => [b.innerText.trim(), b.ariaLabel].includes({named}))"
    page.wait_for(f"!!{button}")
    _press(page, button)


def _choose(page: Chromium, selector: str, option: str) -> None:
    """Choose from a list."""
    _press(page, _found(page, selector))
    page.call("Input.insertText", text=option)
    page.press("Enter")


def _press(page: Chromium, element: str) -> None:
    page.evaluate(f"{element}.scrollIntoView({{block: 'center'}})")
    # Until what moves has stopped.
    time.sleep(0.5)
    x, y = page.evaluate(
        f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({element}.getBoundingClientRect())"
    )
    page.click(x, y)


def _picture(page: Chromium, path: Path, height: int) -> None:
    """The beginning of the form."""
    time.sleep(1.0)
    form = _found(page, "[role=dialog]")
    box = page.evaluate(f"(({{x, y, width}}) => ({{x, y, width}}))({form}.getBoundingClientRect())")
    page.screenshot(path, {**box, "height": height})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
