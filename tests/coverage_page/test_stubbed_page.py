"""The page in a real Chromium, with answers of Airflow's API that the tests make up."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Chromium
from tests.coverage_page.conftest import colours_of, text_of
from tests.coverage_page.runs import event, ledger, task
from tests.coverage_page.stub_api import FUNCTION, StubApi
from tests.required_tools import needs_chromium

pytestmark = [needs_chromium, pytest.mark.process]

RANGES = {"offset_ranges": {"value": [], "schema": {"type": "array"}}}
#: 100 to 200 is missing.
GAP = [event(ledger("r1", ["orders:0:0:100", "orders:0:200:300"]), dag_run_id="scheduled__2026-11-01T00:00:00Z")]
_REPLAY = "[...document.querySelectorAll('.tools button')].find((b) => b.textContent.startsWith('Replay'))"


def _show(browser: Chromium, api: StubApi, query: str = "") -> Chromium:
    browser.visit(f"{api.url}/kafka-coverage/?{query}")
    browser.wait_for(
        "location.pathname.endsWith('/kafka-coverage/') && document.readyState === 'complete'"
        " && document.querySelector('.pair, #error:not([hidden]), #empty:not([hidden])') !== null"
    )
    return browser


def _open_replay(page: Chromium) -> None:
    page.evaluate(f"{_REPLAY}.click()")
    page.wait_for("!document.querySelector('#replay-dag-note').textContent.startsWith('Looking')")


def test_the_dialog_asks_for_what_has_the_tag_and_for_the_details_of_the_chosen_one(browser: Chromium) -> None:
    with StubApi(GAP, dags={"replay_a": RANGES, "replay_b": RANGES}, others=1_000) as api:
        page = _show(browser, api)
        assert page.console == []
        before = len(api.requests)
        _open_replay(page)
        page.wait_for("!document.querySelector('#replay-start').disabled")

        assert sorted(api.requests[before:]) == [
            "GET dags",
            "GET dags/replay_a/details",
            "GET rights",
        ]
        assert page.evaluate("[...document.querySelectorAll('#replay-dag option')].map((o) => o.value)") == [
            "replay_a",
            "replay_b",
        ]
        page.evaluate("document.querySelector('#replay-start').click()")
        page.wait_for("document.querySelector('#replay-result').textContent.startsWith('Started: ')")
        assert api.started == [
            {
                "path": "dags/replay_a/dagRuns",
                "logical_date": None,
                "conf": {"offset_ranges": ["orders:0:100:200"]},
            }
        ]


def test_more_dags_than_the_dialog_offers_are_counted(browser: Chromium) -> None:
    with StubApi(GAP, dags={f"replay_{i:02}": RANGES for i in range(25)}) as api:
        _open_replay(_show(browser, api))
        browser.wait_for("!document.querySelector('#replay-start').disabled")

        assert "Only 20 of 25 DAGs with the tag are offered." in text_of(browser, "#replay-dag-note")


def test_without_a_dag_the_dialog_says_how_to_get_one(browser: Chromium) -> None:
    with StubApi(GAP, others=3) as api:
        _open_replay(_show(browser, api))

        assert text_of(browser, "#replay-peek") == "airflow kafka-spark peek orders:0:100:200"
        said = text_of(browser, "#replay-how")
        assert "airflow kafka-spark example replay_incident > replay_incident.py" in said
        assert "kafka-spark-replay" in said
        assert not browser.evaluate("document.querySelector('#replay-dag-label').checkVisibility()")


def test_what_the_rights_do_not_allow_is_not_offered(browser: Chromium) -> None:
    """In general; and of one DAG. Nothing is asked for that is refused."""
    with StubApi(GAP, dags={"mine": RANGES, "theirs": RANGES}, without=["runs"]) as api:
        page = _show(browser, api)
        page.evaluate("document.querySelector('.chart').focus()")
        page.press("g")
        page.evaluate("document.querySelector('details').open = true")
        page.wait_for("!!document.querySelector('details table')")

        assert "Missing: partition 0, offsets 100 to 200" in text_of(page, "#tip")
        page.press("Enter")
        assert "replay" not in page.evaluate("document.body.innerText").lower()
        assert not page.evaluate("document.querySelector('dialog[open]')")

        assert page.console == []

        api.without, api.refuses = ["theirs"], {"mine/dagRuns": 403}
        page = _show(browser, api)
        _open_replay(page)
        page.wait_for("!document.querySelector('#replay-start').disabled")
        assert page.evaluate("[...document.querySelectorAll('#replay-dag option')].map((o) => o.value)") == ["mine"]
        assert "Your user may not make runs of theirs." in text_of(page, "#replay-dag-note")
        page.evaluate("document.querySelector('#replay-start').click()")
        page.wait_for("document.querySelector('#replay-result').className === 'failed'")
        assert "403 (dags/mine/dagRuns). Your user may not make runs of this DAG." in text_of(page, "#replay-result")


@pytest.mark.parametrize(
    ("without", "selector", "said", "asked"),
    [
        ("assets", "#error", "Your user may not read assets and their events. Ask an administrator", set()),
        (
            "task_instances",
            "#notes",
            "cannot be shown. Your user may not read task instances. Ask an",
            {"GET assets", "GET assets/events"},
        ),
    ],
)
def test_what_is_refused_is_not_asked_for(
    browser: Chromium, without: str, selector: str, said: str, asked: set[str]
) -> None:
    with StubApi(GAP, without=[without]) as api:
        page = _show(browser, api)

        assert said in text_of(page, selector)
        assert set(api.requests) == {"GET rights", *asked}
        assert page.console == []


def test_where_the_rights_are_not_known_all_is_asked_for(browser: Chromium) -> None:
    with StubApi(GAP, dags={"mine": RANGES}, refuses={"rights": 500}) as api:
        _open_replay(_show(browser, api))
        browser.wait_for("!document.querySelector('#replay-start').disabled")


@pytest.mark.parametrize(
    ("refused", "status", "selector", "said"),
    [
        ("^assets/events", 403, "#error", "403 (assets/events). Your user may not read assets and their events."),
        ("/taskInstances", 403, "#notes", "Your user may not read task instances."),
        ("/state-store", 500, "#notes", "state-store). Try again; the API server's log has the reason."),
        # It was deleted meanwhile, or its run has the id "."; others can be read.
        ("/state-store", 404, "#notes", "What task copy of DAG hourly_copy left in run manual__1 cannot be read."),
    ],
)
def test_the_sentence_names_what_was_refused(
    browser: Chromium, refused: str, status: int, selector: str, said: str
) -> None:
    """What is not refused is shown."""
    tasks = [
        task("manual__1", "failed", {"ledger": ledger("r2", [], state="running", planned_ranges=["orders:0:0:9"])})
    ]
    with StubApi(GAP, tasks, refuses={refused: status}) as api:
        page = _show(browser, api)
        text = text_of(page, selector)
        assert said in text
        if selector == "#notes":
            assert ("Running, waiting and failed tasks cannot be shown." in text) == (status != 404)
            assert "covered 200" in text_of(page, ".servers")


def test_runs_that_have_not_begun_are_drawn_and_named_before_a_replay(browser: Chromium) -> None:
    """Of them nothing is read: they have stored nothing."""
    later = ledger("r2", ["orders:0:400:500"])
    events = [*GAP, event(later, dag_run_id="scheduled__2026-11-01T05:00:00Z")]
    tasks = [task(f"backfill__2026-11-01T0{hour}:00:00Z", "queued", {}) for hour in (2, 3)]
    tasks.append(task("manual__1", "deferred", {"other": {}}))
    with StubApi(events, tasks, dags={"replay": RANGES}) as api:
        page = _show(browser, api)

        assert "offsets: covered 300 · missing 100 · waiting 100" in text_of(page, ".servers")
        assert sum("/state-store" in request for request in api.requests) == 1
        _open_replay(page)
        assert page.evaluate("document.querySelector('#replay-ranges').value") == "orders:0:100:200"
        warning = text_of(page, "#replay-warning")
        for run in ("backfill__2026-11-01T02:00:00Z (queued)", "manual__1 (deferred)"):
            assert f"hourly_copy.copy in {run}" in warning
        page.wait_for("document.querySelector('#replay-conf-label').checkVisibility()")
        assert page.evaluate("document.querySelector('#replay-start').disabled")
        page.evaluate("document.querySelector('#replay-nevertheless').click()")
        assert not page.evaluate("document.querySelector('#replay-start').disabled")
        page.evaluate("document.querySelector('#replay').close()")
        page.evaluate("document.querySelector('.chart').focus()")
        for _ in range(4):
            page.press("ArrowRight")
        assert "Waiting: partition 0, offsets 300 to 400" in text_of(page, "#tip")
        assert "hourly_copy.copy, DAG run backfill__2026-11-01T02:00:00Z: queued" in text_of(page, "#tip")


def test_functions_that_called_an_operator_are_found_in_one_search(browser: Chromium) -> None:
    """By their events; another task of the same DAGs is none of them."""
    where = {"dag_id": "function_copy", "task_id": FUNCTION}
    events = [
        *GAP,
        event(ledger("r2", ["calls:0:0:10"], targets=("calls_copy",)), source_task_id=FUNCTION, dag_id="function_copy"),
    ]
    planned = ledger("r3", [], targets=("calls_copy",), state="running", planned_ranges=["calls:0:10:30"])
    tasks = [task("manual__1", "failed", {"ledger": planned}, **where)]
    tasks.append(task("backfill__2026-11-01T01:00:00Z", "queued", {}, task_id=FUNCTION))
    with StubApi(events, tasks, dags={"replay": RANGES}) as api:
        page = _show(browser, api)

        assert "covered 10 · failed 20" in text_of(page, ".servers")
        # Of tasks that run, that have not begun, and that failed.
        assert api.requests.count("POST dags/~/dagRuns/~/taskInstances/list") == 3
        _open_replay(page)
        assert not page.evaluate("document.querySelector('#replay-warning').checkVisibility()")


def test_a_list_that_changes_while_it_is_read_is_not_said_to_be_cut(browser: Chromium) -> None:
    """Airflow counts and lists in two queries."""
    with StubApi(GAP, change=lambda _, answer: {**answer, "total_entries": answer.get("total_entries", 0) + 1}) as api:
        assert text_of(_show(browser, api), "#notes") == ""


def test_a_bar_says_how_far_the_reading_is(browser: Chromium) -> None:
    events = [event(ledger(f"r{i}", [f"orders:0:{i}:{i + 1}"])) for i in range(250)]
    with StubApi(events) as api:
        api.change = lambda path, answer: (time.sleep(0.3 * (path == "assets/events")), answer)[1]  # type: ignore[func-returns-value]
        browser.visit(f"{api.url}/kafka-coverage/")
        value, most = browser.wait_for(
            "document.querySelector('#bar:not([hidden])')?.max > 1"
            " && [document.querySelector('#bar').value, document.querySelector('#bar').max]"
        )
        assert (value in (100, 200), most) == (True, 250)
        assert text_of(browser, "#progress").startswith("Reading: events ")
        browser.wait_for("!!document.querySelector('.pair')")
        assert browser.evaluate("document.querySelector('#bar').hidden")


#: How much is painted.
_COUNT = """
window.painted = 0;
const { fillRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillRect = function (...all) { window.painted += 1; fillRect.apply(this, all); };
"""


def test_thousands_of_ranges_are_drawn_in_bounded_steps(browser: Chromium) -> None:
    """Neighbours on the screen are one rectangle; a table has 200 rows, and a chart 200 partitions."""
    many = [f"orders:0:{2 * i}:{2 * i + 1}" for i in range(32_000)]
    wide = [f"wide:{p}:0:5" for p in range(1_000)]
    events = [event(ledger("r1", many)), event(ledger("r2", wide, targets=("wide_copy",)))]
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=_COUNT)
    with StubApi(events) as api:
        page = _show(browser, api)

        assert "covered 32,000 · missing 31,999" in text_of(page, ".servers")
        # A chart is painted when it is made and when its size is known.
        assert page.evaluate("window.painted") < 2 * (3 * 1_280 + 4 * 200 + 100)
        page.evaluate("document.querySelector('details').open = true")
        page.wait_for("!!document.querySelector('details table')")
        assert page.evaluate("document.querySelectorAll('details tbody tr').length") == 200
        assert "200 of 31,999" in text_of(page, "details .hint")
        choice = "document.querySelector('.tools select')"
        assert page.evaluate(f"{choice}.options.length") == 5
        assert page.evaluate("document.querySelectorAll('.chart')[1].clientHeight") < 4_000
        page.evaluate(f"{choice}.value = '800'; {choice}.dispatchEvent(new Event('change'))")
        page.evaluate("document.querySelectorAll('.chart')[1].focus()")
        page.press("ArrowRight")
        assert "partition 800, offsets 0 to 5" in text_of(page, "#tip")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def test_too_many_ranges_are_refused_by_name(browser: Chromium) -> None:
    def events(count: int, runs: int) -> list[dict[str, Any]]:
        ranges = [f"orders:0:{2 * i}:{2 * i + 1}" for i in range(count)]
        return [event(ledger(f"r{i}", ranges), dag_run_id=f"manual__{i}") for i in range(runs)]

    with StubApi(events(100_000, 4)) as api:
        said = text_of(_show(browser, api), "#error")
        assert "The copies of this time have 400,000 ranges; the page draws at most 300,000." in said
        assert "hourly_copy.copy, DAG run manual__3 (100,000)" in said
    claimed = [{**each, "source_task_id": None} for each in events(100_000, 4)]
    with StubApi([*GAP, *events(1_000_000, 1), *claimed]) as api:
        page = _show(browser, api)
        notes = text_of(page, "#notes")
        assert "Not drawn: hourly_copy.copy, DAG run manual__0 has an entry with 1,000,000 ranges" in notes
        assert "Not drawn: 400,000 ranges that events not by a task claim, which is too many." in notes
        assert "Events not by a task: 4" in notes
        assert "covered 200" in text_of(page, ".servers")


def test_what_is_shown_is_searched_sorted_and_saved(browser: Chromium, tmp_path: Path) -> None:
    events = [
        event(ledger("r1", ["orders:0:0:10", "orders:0:20:30"]), hours_ago=3),
        event(ledger("r2", ["orders:0:0:10"], targets=("orders_stream",)), hours_ago=1, dag_id="stream"),
        event(ledger("r3", ["clicks:0:0:10", "clicks:0:90:99"], targets=("clicks_copy",)), hours_ago=2),
    ]
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    with StubApi(events) as api:
        page = _show(browser, api)
        requests = len(api.requests)

        def titles(**values: str) -> list[str]:
            for name, value in values.items():
                page.evaluate(
                    f"(() => {{ const i = document.querySelector('#{name}'); i.value = {json.dumps(value)};"
                    "i.dispatchEvent(new Event('input')) })()"
                )
            found: list[str] = page.evaluate("[...document.querySelectorAll('.pair h2')].map((h) => h.innerText)")
            return [title.partition(" → ")[2] for title in found]

        assert titles() == ["clicks_copy", "orders_copy", "orders_stream"]
        assert titles(sort="last") == ["orders_stream", "clicks_copy", "orders_copy"]
        assert titles(sort="missing") == ["clicks_copy", "orders_copy", "orders_stream"]
        assert titles(source="Orders") == ["orders_copy", "orders_stream"]
        assert titles(dag="hourly") == ["orders_copy"]
        assert titles(dag="", topic="stream") == ["orders_stream"]
        assert titles(state="missing") == []
        assert "none with this source, target, DAG and state" in text_of(page, "#empty")
        assert titles(topic="") == ["orders_copy"]
        for kind in ("csv", "json"):
            page.evaluate(f"document.querySelector('#{kind}').click()")
            file = tmp_path / f"kafka-coverage.{kind}"
            _until(file.exists)
        assert len(api.requests) == requests
    assert [row["range"] for row in json.loads((tmp_path / "kafka-coverage.json").read_text())] == ["orders:0:10:20"]
    assert (tmp_path / "kafka-coverage.csv").read_text().count("\n") == 2


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_log_and_what_no_task_has_claimed_are_drawn(browser: Chromium) -> None:
    log = {"at": "2026-11-20T11:00:00+00:00", "source": ["orders:0:0:400"], "target": ["orders_copy:0:0:150"]}
    claimed = event(ledger("r9", ["orders:0:100:150"]), source_task_id=None, task_id="forged")
    with StubApi([event(ledger("r1", ["orders:0:50:100", "orders:0:200:300"], log=log)), claimed]) as api:
        page = _show(browser, api)

        assert "covered 150 · missing 100 · unseen 150" in text_of(page, ".servers")
        assert text_of(page, ".log") == (
            "The source's log had 400 offsets in 1 partition at 2026-11-20 11:00:00 UTC · "
            "the target's log had 150 offsets in 1 partition at 2026-11-20 11:00:00 UTC"
        )
        assert "Events not by a task: 1, made through Airflow's API." in text_of(page, "#notes")
        page.evaluate("document.querySelector('.chart').focus()")
        page.press("g")
        assert "1 event not by a task claims to have copied from here (" in text_of(page, "#tip")
        assert "190,24,93" in colours_of(page)


def test_what_is_gone_from_the_log_is_not_offered(browser: Chromium) -> None:
    log = {"at": "2026-11-20T11:00:00+00:00", "source": ["orders:0:200:300"], "target": []}
    with StubApi([event(ledger("r1", ["orders:0:0:100", "orders:0:200:300"], log=log))]) as api:
        page = _show(browser, api)

        page.evaluate("document.querySelector('.chart').focus()")
        page.press("g")
        assert "The log begins at 200 now: these records are gone." in text_of(page, "#tip")
        assert page.evaluate(f"{_REPLAY} === undefined")
    log["source"] = ["orders:0:150:300"]
    with StubApi([event(ledger("r1", ["orders:0:0:100", "orders:0:200:300"], log=log))]) as api:
        _open_replay(_show(browser, api))
        assert browser.evaluate("document.querySelector('#replay-ranges').value") == "orders:0:150:200"


def test_without_javascript_the_page_says_what_to_do(browser: Chromium) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        with StubApi() as api:
            browser.visit(f"{api.url}/kafka-coverage/")
            browser.wait_for(
                "document.querySelector('noscript')?.innerText.includes('airflow kafka-spark coverage TOPIC')"
            )
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
