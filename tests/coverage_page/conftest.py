"""One Airflow with runs of many kinds, and one browser, for all tests of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.chromium import Chromium
from tests.coverage_page import runs
from tests.coverage_page.airflow_api import AirflowApi
from tests.coverage_page.page_modules import Engine, page_modules

MARKUP = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
#: 2^53 + 1, and Kafka's last offset.
HUGE = (9007199254740993, 9223372036854775807)


@pytest.fixture(scope="package")
def airflow_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowApi]:
    events, tasks = runs.one_of_each()
    events += runs.month()
    entry = runs.ledger("a1", ["markup:0:0:10", "markup:0:20:30"], targets=(MARKUP,))
    events.append(runs.event(entry, task_id=MARKUP, dag_run_id=MARKUP))
    entry = runs.ledger("a2", [f"huge:0:{HUGE[0]}:{HUGE[0] + 1}", f"huge:0:{HUGE[0] + 2}:{HUGE[1]}"], targets=("huge",))
    events.append(runs.event({**entry, "records_read": 1}))
    events += [
        runs.event({}),
        runs.event({"run_id": "x", "offset_ranges": ["foreign:0:0:9"]}),
        runs.event({"version": 99, "source": "b:1", "offset_ranges": []}),
        runs.event(runs.ledger("a4", ["gone:0:0:10"], targets=("gone",)), dag_id="deleted_dag", hours_ago=0),
        runs.event(runs.ledger("a5", ["old:0:0:10"], targets=("old_copy",)), hours_ago=24 * 60),
    ]
    function = {"dag_id": "function_copy", "task_id": "copy_by_function"}
    calls = runs.ledger("a6", ["calls:0:0:10"], targets=("calls",))
    others = runs.ledger("a3", ["others:0:0:10"], targets=("others",))
    events.append(runs.event({**calls, "more": [others]}, **function))
    entry = runs.ledger("a7", [], targets=("calls",), state="running", planned_ranges=["calls:0:10:30"])
    tasks.append(runs.task("manual__killed", "failed", {"ledger/inner": entry}, **function))
    with AirflowApi(tmp_path_factory.mktemp("coverage")) as api:
        api.write(events, tasks)
        yield api


@pytest.fixture(scope="package")
def _browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with page_modules() as found:
        yield found


@pytest.fixture
def browser(_browser: Chromium) -> Iterator[Chromium]:
    """With no session, no stored theme and a light colour scheme."""
    _browser.call("Network.clearBrowserCookies")
    _browser.prefer("light")
    _browser.resize(1280, 900)
    yield _browser
    _browser.visit("about:blank")


@pytest.fixture
def show(airflow_api: AirflowApi, browser: Chromium) -> Callable[..., Chromium]:
    """Open the page as a user, and wait until it has read: ``show("topic=orders_copy", user="vera")``."""

    def visit(query: str = "", *, user: str = "ada", script: str = "") -> Chromium:
        browser.set_cookie("_token", airflow_api.token(user), f"{airflow_api.url}/")
        added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=script) if script else None
        browser.visit(f"{airflow_api.url}/kafka-coverage/?{query}")
        browser.wait_for(
            "location.pathname.endsWith('/kafka-coverage/') && document.readyState === 'complete'"
            " && (document.querySelector('.pair') ?? document.querySelector('#error:not([hidden])')"
            " ?? document.querySelector('#empty:not([hidden])')) !== null"
        )
        if added:
            browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
        return browser

    return visit


def text_of(page: Chromium, selector: str) -> str:
    """What a reader sees of the first element; empty if there is none."""
    text: str = page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
    return text


def colours_of(page: Chromium) -> set[str]:
    """The colours of the first chart, such as ``21,128,61``."""
    return set(
        page.evaluate(
            "(() => { const c = document.querySelector('.chart');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();"
            "for (let i = 0; i < d.length; i += 4) seen.add(`${d[i]},${d[i + 1]},${d[i + 2]}`); return [...seen] })()"
        )
    )
