"""Take the screenshots of the documentation: ``python -m tests.coverage_page.screenshots [FOLDER]``.

It starts an Airflow with runs of each kind, and Chromium. The default folder is ``docs/images``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
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
            page.set_cookie("_token", api.token("ada"), f"{api.url}/")
            _show_hover(api, page, folder / "coverage-page.png")
            _show_replay(api, page, folder / "coverage-page-replay.png")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _show_hover(api: AirflowApi, page: Chromium, file: Path) -> None:
    page.prefer("light")
    page.resize(1280, 740)
    page.visit(f"{api.url}/plugin/kafka-coverage")
    page.wait_for(f"!!{_FRAME}.querySelector('.pair')")
    x, y = page.evaluate(
        "(() => { const f = document.querySelector('iframe').getBoundingClientRect();"
        f"const b = {_FRAME}.querySelector('.chart').getBoundingClientRect();"
        "return [f.x + b.x + b.width * 0.16, f.y + b.y + 50] })()"
    )
    page.mouse("mouseMoved", x, y)
    page.wait_for(f"!{_FRAME}.querySelector('#tip').hidden")
    page.screenshot(file)


def _show_replay(api: AirflowApi, page: Chromium, file: Path) -> None:
    page.prefer("dark")
    page.resize(1000, 780)
    page.visit(f"{api.url}/kafka-coverage/")
    page.wait_for("!!document.querySelector('.pair')")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("g")
    page.press("Enter")
    page.wait_for("!document.querySelector('#replay-start').disabled")
    page.evaluate(
        "(() => { const s = document.querySelector('#replay-dag'); s.value = 'replay_ranges';"
        "s.dispatchEvent(new Event('change')); document.activeElement.blur() })()"
    )
    page.screenshot(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _CHECKOUT / "docs/images")
