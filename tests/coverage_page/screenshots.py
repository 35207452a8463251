"""The pictures of the documentation: ``python -m tests.coverage_page.screenshots [FOLDER]``.

It starts an Airflow with runs of each kind, and Chromium. The default folder is ``docs/images``. A test of the page
brings it to the same states, and reads what the pictures show.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.chromium import Chromium
from tests.coverage_page import runs
from tests.coverage_page.airflow_api import AirflowApi

_CHECKOUT = Path(__file__).resolve().parents[2]
_FRAME = "document.querySelector('iframe').contentDocument"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="coverage-page-"))
    try:
        with AirflowApi(scratch, path="") as api, Chromium() as page:
            api.write(*runs.one_of_each())
            for name, show in PICTURES.items():
                show(api, page)
                page.screenshot(folder / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _in_airflow(api: AirflowApi, page: Chromium, user: str) -> None:
    page.call("Network.clearBrowserCookies")
    page.set_cookie("_token", api.token(user), f"{api.url}/")
    # The route is of the plugin's view, and what follows is the address in its frame.
    page.visit(f"{api.url}/plugin/kafka-coverage{api.path}/kafka-coverage/?topic=orders_copy")
    page.wait_for(f"!!{_FRAME}?.querySelector('.pair')")


def hover(api: AirflowApi, page: Chromium) -> str:
    """In the light, the pointer over what two runs have copied. Returns what is said of it."""
    page.prefer("light")
    page.resize(1280, 820)
    _in_airflow(api, page, "ada")
    x, y = page.evaluate(
        "(() => { const f = document.querySelector('iframe').getBoundingClientRect();"
        f"const b = {_FRAME}.querySelector('.chart').getBoundingClientRect();"
        "return [f.x + b.x + 58 + (b.width - 66) * 340 / 2620, f.y + b.y + 29] })()"
    )
    page.mouse("mouseMoved", x, y)
    page.wait_for(f"!{_FRAME}.querySelector('#tip').hidden")
    said: str = page.evaluate(f"{_FRAME}.querySelector('#tip').innerText")
    return said


def replay(api: AirflowApi, page: Chromium) -> str:
    """In the dark, the dialog of a replay. Returns its configuration."""
    page.prefer("dark")
    page.resize(1000, 860)
    page.call("Network.clearBrowserCookies")
    page.set_cookie("_token", api.token("ada"), f"{api.url}/")
    page.visit(f"{api.url}/kafka-coverage/?topic=orders_copy")
    page.wait_for("!!document.querySelector('.pair')")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("g")
    page.press("Enter")
    page.wait_for("document.querySelector('#replay-conf-label').checkVisibility()")
    page.evaluate(
        "(() => { const s = document.querySelector('#replay-dag'); s.value = 'replay_ranges';"
        "s.dispatchEvent(new Event('change')); document.activeElement.blur() })()"
    )
    page.wait_for("document.querySelector('#replay-plan-label').checkVisibility()")
    configuration: str = page.evaluate("document.querySelector('#replay-conf').value")
    return configuration


def viewer(api: AirflowApi, page: Chromium) -> str:
    """The page of a user who may only read, with the table. Returns its text."""
    page.prefer("light")
    page.resize(1280, 900)
    _in_airflow(api, page, "vera")
    page.evaluate(f"{_FRAME}.querySelector('details').open = true")
    page.wait_for(f"!!{_FRAME}.querySelector('details table')")
    text: str = page.evaluate(f"{_FRAME}.body.innerText")
    return text


PICTURES: dict[str, Callable[[AirflowApi, Chromium], str]] = {
    "coverage-page.png": hover,
    "coverage-page-replay.png": replay,
    "coverage-page-viewer.png": viewer,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _CHECKOUT / "docs/images")
