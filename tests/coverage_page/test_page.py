"""The page in a real Chromium, on a real API server of Airflow under a path of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.chromium import Chromium
from tests.coverage_page import runs, screenshots
from tests.coverage_page.airflow_api import AirflowApi
from tests.coverage_page.conftest import HUGE, MARKUP, colours_of, text_of
from tests.required_tools import needs_chromium

pytestmark = [needs_chromium, pytest.mark.airflow]

Show = Callable[..., Chromium]
_TEXT = "document.body.innerText"


def _on_canvas(page: Chromium, lane: int, share: float) -> tuple[float, float]:
    """A point in the first chart: its lane, and how far from the left end of it (0 to 1)."""
    page.evaluate("document.querySelector('.chart').scrollIntoView({block: 'center'})")
    x, y, width = page.evaluate(
        "(() => { const b = document.querySelector('.chart').getBoundingClientRect(); return [b.x, b.y, b.width] })()"
    )
    return x + 58 + (width - 66) * share, y + 22 + 19 * lane + 7


def test_every_state_is_counted_and_drawn(show: Show) -> None:
    page = show("topic=orders_copy")

    assert text_of(page, ".pair h2") == "orders → orders_copy"
    label = page.evaluate("document.querySelector('.chart').getAttribute('aria-label')")
    # 20 windows of 100 but four, in 4 partitions, and 50 of the failed run.
    assert label == (
        "Coverage of orders → orders_copy: 4 partitions; offsets: covered 5,850 · duplicated 520 · missing 1,000 · "
        "waiting 400 · unfinished 800 · failed 750 · lost 200 · empty 80 · unseen 640."
    )
    assert "The source's log had 10,240 offsets in 4 partitions at " in text_of(page, ".log")
    colours = colours_of(page)
    assert {"21,128,61", "109,40,217", "180,83,9", "14,116,144", "3,105,161", "185,28,28"} <= colours
    assert {"63,63,70", "161,161,170", "113,113,122", "190,24,93"} <= colours
    assert page.console == []


def test_a_month_of_windows_and_replays_is_drawn_by_few_requests(show: Show) -> None:
    """720 hourly windows, but seven, and 50 replays of 32 partitions."""
    page = show("topic=clicks_copy")

    assert "22,176,000 · duplicated 640,000 · missing 224,000" in text_of(page, ".servers")
    assert sum("/assets/events" in request for request in page.requests) == 9
    assert sum("/api/v2/" in request for request in page.requests) < 25


def test_the_pointer_and_the_keyboard_say_the_same(show: Show) -> None:
    page = show("topic=orders_copy")

    page.mouse("mouseMoved", *_on_canvas(page, 0, 50 / 2620))
    hovered = text_of(page, "#tip")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("ArrowRight")

    assert "Covered: partition 0, offsets 0 to 100" in hovered
    assert f"hourly_copy.copy, DAG run scheduled__{runs.due(34)}" in hovered
    assert "100 offsets" in hovered
    assert text_of(page, "#tip") == hovered
    assert "Covered: partition 0, offsets 0 to 100" in page.evaluate("document.querySelector('#announcer').textContent")
    page.press("ArrowRight")
    assert "offsets 100 to 200" in text_of(page, "#tip")
    page.press("ArrowDown")
    assert "partition 1, offsets 40 to 140" in text_of(page, "#tip")
    page.press("g")
    assert "Missing: partition 1, offsets 540 to 740" in text_of(page, "#tip")


def test_a_drag_zooms_and_the_buttons_zoom(show: Show) -> None:
    page = show("topic=orders_copy")
    whole = text_of(page, ".span")

    page.mouse("mouseMoved", *_on_canvas(page, 0, 0.25))
    page.mouse("mousePressed", *_on_canvas(page, 0, 0.25))
    page.mouse("mouseMoved", *_on_canvas(page, 0, 0.5))
    page.mouse("mouseReleased", *_on_canvas(page, 0, 0.5))
    low, high = (int(part.replace(",", "")) for part in text_of(page, ".span").removeprefix("offsets ").split(" to "))

    assert (whole, abs(low - 655) < 10, abs(high - 1310) < 10) == ("offsets 0 to 2,620", True, True)
    page.evaluate("document.querySelector('.tools').children[1].click()")
    page.evaluate("document.querySelector('.tools').children[1].click()")
    assert text_of(page, ".span") == whole
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("+")
    assert text_of(page, ".span") == "offsets 655 to 1,965"
    page.press("0")
    assert text_of(page, ".span") == whole


def test_the_time_chooses_runs_and_gaps_are_judged_by_them(show: Show) -> None:
    page = show("topic=orders_copy")
    page.evaluate(
        "(() => { const i = document.querySelector('#from');"
        "i.value = new Date(Date.now() - 12.5 * 3600e3).toISOString().slice(0, 16);"
        "document.querySelector('#filter button').click() })()"
    )
    page.wait_for("document.querySelector('#progress').textContent.startsWith('1 pair')")

    assert "offsets: covered 570 · missing 6,280 · unfinished 800 · failed 750 · lost 200" in text_of(page, ".servers")
    assert "a range that an earlier run copied is missing here" in page.evaluate(_TEXT)


@pytest.mark.long
def test_a_click_leads_to_the_task_in_airflow(airflow_api: AirflowApi, browser: Chromium) -> None:
    """From the frame, which may not leave the interface by itself."""
    browser.set_cookie("_token", airflow_api.token("ada"), f"{airflow_api.url}/")
    browser.visit(f"{airflow_api.url}/plugin/kafka-coverage/airflow/kafka-coverage/?topic=orders_copy")
    browser.wait_for("!!document.querySelector('iframe')?.contentDocument?.querySelector('.pair')")
    frame = "document.querySelector('iframe').contentDocument"

    browser.evaluate(f"{frame}.querySelector('.chart').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    said = browser.evaluate(f"{frame}.querySelector('#tip').innerText")
    assert "offsets 100 to 200" in said
    browser.press("Enter")

    browser.wait_for("location.pathname.includes('/dags/')")
    where = browser.evaluate("location.pathname")
    run = said.partition("DAG run ")[2].splitlines()[0]
    assert where == f"/airflow/dags/hourly_copy/runs/{quote(run)}/tasks/copy"


@pytest.mark.long
def test_the_pictures_show_what_the_documentation_says(airflow_api: AirflowApi, browser: Chromium) -> None:
    said = screenshots.hover(airflow_api, browser)
    assert said.startswith("Duplicated: partition 0, offsets 300 to 380")
    assert "replay_ranges.replay, DAG run manual__replay" in said
    assert "filter:" not in said
    assert json.loads(screenshots.replay(airflow_api, browser))["offset_ranges"] == ["orders:0:500:700"]
    assert "Replay" not in screenshots.viewer(airflow_api, browser)


@pytest.mark.long
def test_a_task_that_copies_has_a_link_to_the_ranges_of_its_dag_run(airflow_api: AirflowApi, browser: Chromium) -> None:
    """It has stored nothing for it; and the heading of such links is not empty."""
    where = "dags/hourly_copy/dagRuns/manual__failed/taskInstances/copy"
    links = airflow_api.get(f"{where}/links")["extra_links"]
    assert links == {
        "Kafka coverage": "dags/hourly_copy/runs/manual__failed/plugin/kafka-coverage-run",
        "Spark application": None,
    }
    assert airflow_api.get("dags/function_copy/dagRuns/manual__killed/taskInstances/copy_by_function/links") == {
        "extra_links": {},
        "total_entries": 0,
    }

    browser.set_cookie("_token", airflow_api.token("vera"), f"{airflow_api.url}/")
    browser.visit(f"{airflow_api.url}/dags/hourly_copy/runs/manual__failed/tasks/copy/details")
    link = "[...document.querySelectorAll('a')].find((a) => a.href.endsWith('/plugin/kafka-coverage-run'))"
    browser.wait_for(f"!!{link}")
    browser.evaluate(f"{link}.click()")
    frame = "document.querySelector('iframe').contentDocument"
    browser.wait_for(f"!!document.querySelector('iframe') && !!{frame}?.querySelector('.pair')")
    assert "Only DAG run manual__failed of DAG hourly_copy." in browser.evaluate(f"{frame}.body.innerText")
    assert "covered 50 · failed 750" in browser.evaluate(f"{frame}.querySelector('.servers').innerText")


def test_a_gap_is_replayed_after_its_plan_was_shown(show: Show, airflow_api: AirflowApi) -> None:
    page = show("topic=orders_copy")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("g")
    page.press("Enter")
    page.wait_for("document.querySelector('#replay-conf-label').checkVisibility()")

    assert page.evaluate("document.querySelector('#replay').open")
    # Runs wait.
    assert page.evaluate("document.querySelector('#replay-start').disabled")
    page.evaluate("document.querySelector('#replay-nevertheless').click()")
    assert text_of(page, "#replay-count").startswith("200 offsets in 1 range, from broker-1:9092 to broker-2:9092.")
    assert page.evaluate("document.querySelector('#replay-ranges').value") == "orders:0:500:700"
    options = page.evaluate("[...document.querySelectorAll('#replay-dag option')].map((o) => o.value)")
    assert options == ["replay_incident", "replay_ranges"]
    assert f"hourly_copy.copy in backfill__{runs.due(25)} (queued)" in text_of(page, "#replay-warning")
    incident = json.loads(page.evaluate("document.querySelector('#replay-conf').value"))
    assert (incident["ranges"], incident["topic"], incident["target_topic"], incident["source"]) == (
        ["orders:0:500:700"],
        "orders",
        "orders_copy",
        "kafka_default",
    )
    assert not page.evaluate("document.querySelector('#replay-plan-label').checkVisibility()")

    page.evaluate(
        "(() => { const s = document.querySelector('#replay-dag'); s.value = 'replay_ranges';"
        "s.dispatchEvent(new Event('change')) })()"
    )
    page.wait_for("document.querySelector('#replay-plan-label').checkVisibility()")
    page.wait_for("!document.querySelector('#replay-start').disabled")
    assert not any(request.startswith("POST") and request.endswith("/dagRuns") for request in page.requests)
    page.evaluate("document.querySelector('#replay-start').click()")
    page.wait_for("document.querySelector('#replay-result').textContent.startsWith('Started: ')")

    (run,) = airflow_api.get("dags/replay_ranges/dagRuns?run_type=manual&state=queued")["dag_runs"]
    assert run["conf"] == {"offset_ranges": ["orders:0:500:700"], "target_topic": "orders_copy", "plan_only": True}
    assert text_of(page, "#replay-result a") == run["dag_run_id"]


def test_a_user_who_may_only_read_is_offered_no_replay(show: Show) -> None:
    page = show("topic=orders_copy", user="vera")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("g")
    page.press("Enter")

    assert "Missing: partition 0, offsets 500 to 700" in text_of(page, "#tip")
    assert page.evaluate("document.querySelector('dialog[open]')") is None
    assert "Replay" not in page.evaluate(_TEXT)
    assert page.console == []


def test_a_user_without_rights_sees_nothing(show: Show) -> None:
    page = show(user="nobody")

    assert "Your user may not read assets and their events." in text_of(page, "#error")
    assert page.evaluate("document.querySelectorAll('.pair, #notes li').length") == 0
    assert "orders" not in page.evaluate(_TEXT)
    assert page.console == []


def test_a_visitor_without_a_session_sees_nothing(airflow_api: AirflowApi, browser: Chromium) -> None:
    browser.visit(f"{airflow_api.url}/kafka-coverage/")
    browser.wait_for("!document.querySelector('#error').hidden")

    assert "answered 401 (rights). Your session has ended. Log in" in text_of(browser, "#error")


#: The timer of the refresh is short, and a tab can be hidden.
_REFRESH = """
const later = window.setTimeout;
window.refreshes = 0;
window.setTimeout = (act, ms) => ms === 30000 ? later(() => { window.refreshes += 1; act() }, 50) : later(act, ms);
window.isHidden = false;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
"""


#: In a hidden tab, with the keyboard in the chart, and zoomed: how it begins and ends.
_CLOSER = (
    ("window.isHidden = true", "window.isHidden = false"),
    ("document.querySelector('.chart').focus()", "document.activeElement.blur()"),
    ("document.querySelector('.tools').children[0].click()", "document.querySelector('.tools').children[4].click()"),
)


@pytest.mark.long
def test_what_runs_is_read_again_unless_somebody_looks_closer(show: Show, airflow_api: AirflowApi) -> None:
    topic, size = "refreshed_copy", 10 * len(_CLOSER)
    entry = runs.ledger(topic, [], targets=(topic,), state="running", planned_ranges=[f"{topic}:0:0:{size}"])
    airflow_api.write(tasks=[runs.task(f"manual__{topic}", "running", {"ledger": entry})])
    page = show(f"topic={topic}", script=_REFRESH)
    page.wait_for("window.refreshes > 0")
    assert f"offsets: unfinished {size}" in text_of(page, ".servers")
    for i, (begin, end) in enumerate(_CLOSER):
        before = text_of(page, ".servers")
        page.evaluate(begin)

        copied = runs.ledger(f"{topic}{i}", [f"{topic}:0:{10 * i}:{10 * i + 10}"], targets=(topic,))
        airflow_api.write([runs.event(copied)])
        seen = page.evaluate("window.refreshes")
        page.wait_for(f"window.refreshes > {seen + 2}")

        assert text_of(page, ".servers") == before
        page.evaluate(end)
        page.wait_for(f"document.querySelector('.servers').innerText.includes('offsets: covered {10 * i + 10}')")
    assert page.console == []


_FAIL = """
const original = window.fetch;
window.fetch = async (url, init) => {
  if (!new RegExp(%s).test(String(url))) return original(url, init);
  %s
};
"""


#: What is said of an answer.
_ERRORS = {
    "answered 404 (assets)": 'return new Response(\'{"detail": "gone"}\', {status: 404})',
    "answered 502 (assets). Try again": "return new Response('<b>bad gateway</b>', {status: 502})",
    "did not answer with JSON (assets)": "return new Response('<html>')",
    "could not be reached (assets)": "throw new TypeError('no network')",
    "did not answer within 30 s (assets)": "throw new DOMException('', 'TimeoutError')",
}


def test_an_error_of_the_api_is_said_and_can_be_tried_again(show: Show) -> None:
    answer = f"let answer = () => {{ {next(iter(_ERRORS.values()))} }};"
    page = show("topic=orders_copy", script=answer + _FAIL % (json.dumps(r"/api/v2/assets\?"), "return answer()"))
    again = "document.querySelector('#again').click()"

    for i, (said, body) in enumerate(_ERRORS.items()):
        if i > 0:
            page.evaluate(f"(() => {{ answer = () => {{ {body} }}; {again} }})()")
        page.wait_for(f"document.querySelector('#error-text').innerText.includes({json.dumps(said)})")
        assert page.evaluate("document.querySelectorAll('.pair').length") == 0
    page.evaluate(f"(() => {{ window.fetch = original; {again} }})()")
    page.wait_for("!!document.querySelector('.pair')")
    assert page.evaluate("document.querySelector('#error').hidden")


@pytest.mark.long
def test_a_function_that_calls_an_operator_is_known_by_its_events(show: Show) -> None:
    """Its task instance has the name of no operator of this package."""
    page = show("topic=calls")

    assert "covered 10 · failed 20" in text_of(page, ".servers")
    page.evaluate("document.querySelector('details').open = true")
    page.wait_for("!!document.querySelector('details table')")
    assert "Clear the task: function_copy.copy_by_function" in text_of(page, "details table")
    # It has called another operator too.
    assert "covered 10" in text_of(show("topic=others"), ".servers")


def test_nothing_that_the_api_says_is_markup(show: Show) -> None:
    page = show(f"topic={quote(MARKUP)}")
    page.evaluate("document.querySelector('.chart').focus()")
    page.press("ArrowRight")
    page.evaluate("document.querySelector('details').open = true")
    page.wait_for("!!document.querySelector('details table')")

    assert MARKUP in page.evaluate("document.querySelector('.pair h2').textContent")
    assert MARKUP in page.evaluate("document.querySelector('#tip').textContent")
    page.press("ArrowRight")
    page.press("Enter")
    assert MARKUP in page.evaluate("document.querySelector('#replay-title').textContent")
    assert page.evaluate("[document.title, document.querySelectorAll('body script, img').length]") == [
        "Kafka coverage",
        0,
    ]


def test_offsets_beyond_the_exact_numbers_of_javascript(show: Show) -> None:
    page = show("topic=huge")
    page.evaluate("[...document.querySelectorAll('.tools button')].at(-1).click()")

    assert page.evaluate("document.querySelector('#replay-ranges').value") == f"huge:0:{HUGE[0] + 1}:{HUGE[0] + 2}"
    assert f"offsets {HUGE[0]:,} to {HUGE[1]:,}" == text_of(page, ".span")


def test_what_cannot_be_drawn_is_not_passed_over_in_silence(show: Show) -> None:
    """Events of other versions; those of a deleted DAG Airflow leaves out, so that only the last one is known of."""
    page = show("topic=huge")

    assert "Entries that were skipped: 2, of another version or malformed." in text_of(page, "#notes")
    assert re.search(
        r"The last copy, of .+ UTC, cannot be shown: its DAG was deleted, or your", text_of(page, "#notes")
    )


def test_where_nothing_is_to_be_drawn_the_page_says_how_to_begin(show: Show) -> None:
    page = show("topic=old_copy")

    assert "There are copies in this time, but none with this source" in text_of(page, "#empty")
    assert page.evaluate("document.querySelectorAll('.pair').length") == 0
    page.evaluate(
        "(() => { document.querySelector('#from').value = '2020-01-01T00:00';"
        "document.querySelector('#to').value = '2020-01-02T00:00';"
        "document.querySelector('#filter button').click() })()"
    )
    page.wait_for("document.querySelector('#empty').innerText.includes('There are copies from other times')")
    nothing = 'return new Response(\'{"assets": [], "asset_events": [], "total_entries": 0}\')'
    page = show("topic=old_copy", script=_FAIL % (json.dumps("/api/v2/assets"), nothing))
    assert "Run a DAG with a KafkaToKafkaBatchOperator" in text_of(page, "#empty")


@pytest.mark.long
@pytest.mark.parametrize("chosen", [None, "dark", "light"])
def test_the_theme_is_airflows_own_or_the_systems(show: Show, chosen: str | None) -> None:
    stored = f"localStorage.setItem('theme', '{chosen}')" if chosen else "localStorage.removeItem('theme')"
    page = show("topic=orders_copy", script=stored)
    for system in ("light", "dark"):
        page.prefer(system)

        background = page.wait_for("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(24, 24, 27)" if (chosen or system) == "dark" else "rgb(255, 255, 255)")


def test_it_is_in_the_navigation_for_all_and_on_the_page_of_a_dag_run(airflow_api: AirflowApi) -> None:
    plugins = airflow_api.get("plugins")["plugins"]

    (ours,) = [plugin for plugin in plugins if plugin["name"] == "kafka_spark_coverage"]
    assert [(view["name"], view["destination"]) for view in ours["external_views"]] == [
        ("Kafka coverage", "nav"),
        ("Kafka coverage", "dag_run"),
    ]
    # A checkout that is installed as editable has its metadata twice, in the environment and in its own folder.
    errors = [found["error"] for found in airflow_api.get("plugins/importErrors")["import_errors"]]
    assert [error for error in errors if "already registered" not in error] == []


def test_it_reads_from_its_own_host_only(show: Show, airflow_api: AirflowApi) -> None:
    page = show(f"topic={quote('orders_copy')}")

    # The icon of the browser's own date field is a data address.
    ours = (f"GET {airflow_api.url}/", f"POST {airflow_api.url}/api/v2/", "GET data:")
    assert [request for request in page.requests if not request.startswith(ours)] == []
