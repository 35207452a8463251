"""The algebra of the page, without a page: ``coverage.js`` in a real JavaScript engine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import airflow_provider_kafka_spark.coverage_page
from airflow_provider_kafka_spark.state.ledger_api import _ENDED_BADLY, _GOES_ON, OPERATORS
from tests.chromium import Chromium
from tests.coverage_page.runs import event, ledger, task
from tests.required_tools import needs_chromium

pytestmark = needs_chromium

_MODULE = Path(airflow_provider_kafka_spark.coverage_page.__file__).parent / "coverage.js"


@pytest.fixture(scope="module")
def engine() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def _run(engine: Chromium, body: str, argument: Any = None) -> Any:
    """The result of a function body that has the module as ``m`` and an argument as ``a``; a BigInt is a string."""
    address = "data:text/javascript;base64," + base64.b64encode(_MODULE.read_bytes()).decode()
    text = json.dumps(json.dumps(argument))
    return json.loads(
        engine.evaluate(
            f"import({json.dumps(address)}).then((m) => {{ const a = JSON.parse({text});"
            f"const r = (() => {{ {body} }})();"
            "return JSON.stringify(r ?? null, (_, v) => typeof v === 'bigint' ? String(v) : v); })"
        )
    )


_PAIRS = (
    "return m.buildPairs(a.events.flatMap(m.entriesOfEvent)).pairs.map((p) => ({"
    "name: m.pairName(p), lanes: p.lanes.map((l) => [l.partition, ...l.segments.map((s) =>"
    "[s.from, s.until, s.state, s.entries.map((e) => e.kafkaRun)])])}))"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("orders:0:100:200", ["orders", 0, "100", "200"], id="plain"),
        pytest.param("a:b:7:1:2", ["a:b", 7, "1", "2"], id="colon-in-the-topic"),
        pytest.param(
            "t:0:9007199254740993:9223372036854775807",
            ["t", 0, "9007199254740993", "9223372036854775807"],
            id="beyond-the-exact-numbers-of-javascript",
        ),
        pytest.param("orders:0:200:100", None, id="backwards"),
        pytest.param("orders:0:5:5", ["orders", 0, "5", "5"], id="empty"),
        pytest.param("orders:0:-2:5", None, id="negative"),
        pytest.param("orders:0:1", None, id="too-short"),
        pytest.param(7, None, id="not-a-text"),
    ],
)
def test_a_range_is_parsed_exactly_or_not_at_all(engine: Chromium, text: object, expected: list[object] | None) -> None:
    got = _run(engine, "const r = m.parseRange(a); return r && [r.topic, r.partition, r.from, r.until]", text)

    assert got == expected
    if expected:
        assert _run(engine, "return m.formatRange(m.parseRange(a))", text) == text


def _of_tasks(engine: Chromium, *tasks: dict[str, Any]) -> Any:
    body = (
        "const found = a.map(({store, ...t}) => m.entriesOfTask(t,"
        "Object.entries(store).map(([key, value]) => ({key, value}))));"
        "const entries = found.flatMap((f) => f.entries);"
        "return m.buildPairs(entries).pairs.map((p) => [m.pairName(p), p.lanes.map((l) => l.segments.map((s) =>"
        "[s.from, s.until, s.state, s.entries.some((e) => e.wasKilled)]))])"
        ".concat([found.reduce((n, f) => n + f.skipped, 0)])"
    )
    return _run(engine, body, list(tasks))


_PARTIAL = ledger("r1", ["orders:0:0:60"], state="partial", planned_ranges=["orders:0:0:100"])
_RUNNING = ledger("r1", [], state="running", planned_ranges=["orders:0:0:100"])


@pytest.mark.parametrize(
    ("tasks", "segments", "skipped"),
    [
        pytest.param(
            [task("one", "failed", {"ledger": _PARTIAL, "delivery": {"any": "thing"}})],
            [["0", "60", "covered", False], ["60", "100", "failed", False]], 0, id="failed",
        ),
        pytest.param(
            [task("one", "failed", {"ledger/copy": _RUNNING})], [["0", "100", "failed", True]], 0, id="killed"
        ),
        pytest.param(
            [task("a", "deferred", {"ledger": _RUNNING}), task("b", "running", {"ledger": {**_RUNNING, "version": 2}})],
            [["0", "100", "running", False]], 1, id="running-and-one-of-another-version",
        ),
    ],
)  # fmt: skip
def test_what_a_failed_task_has_not_delivered_is_to_be_cleared(
    engine: Chromium, tasks: list[dict[str, Any]], segments: list[list[object]], skipped: int
) -> None:
    """If it failed while its entry runs, it was killed."""
    pair, found = _of_tasks(engine, *tasks)

    assert (pair[1], found) == ([segments], skipped)


def test_a_task_without_known_targets_is_drawn_with_the_targets_of_its_source(engine: Chromium) -> None:
    known = ledger("r1", ["orders:0:0:60"], state="partial", planned_ranges=[])
    entry = ledger("r2", [], state="running", planned_ranges=["orders:0:60:80", "other:0:0:9"], targets=())

    first, second, _ = _of_tasks(
        engine, task("a", "failed", {"ledger": known}), task("b", "running", {"ledger": entry})
    )

    assert first[1] == [[["0", "60", "covered", False], ["60", "80", "running", False]]]
    assert second[0].endswith("/other → broker-2:9092/(topic not known yet)")


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="nothing"),
        pytest.param(None, id="null"),
        pytest.param({"run_id": "r", "offset_ranges": ["orders:0:0:1"]}, id="older-version"),
        pytest.param({**ledger("r", []), "version": 2}, id="newer-version"),
        pytest.param({**ledger("r", []), "offset_ranges": ["x"]}, id="unreadable"),
        pytest.param({**ledger("r", []), "offset_ranges": 7}, id="another-type"),
        pytest.param({**ledger("r", ["orders:0:0:9"]), "from_rest_api": True}, id="made-by-the-api"),
    ],
)
def test_what_another_maker_wrote_is_skipped(engine: Chromium, extra: object) -> None:
    assert _run(engine, "return m.entriesOfEvent(a)", {"extra": extra, "source_task_id": "copy"}) == []


def test_an_event_that_no_task_has_made_is_skipped(engine: Chromium) -> None:
    assert _run(engine, "return m.entriesOfEvent(a)", event(ledger("r", ["orders:0:0:9"]), source_task_id=None)) == []


def test_ranges_of_one_entry_are_one_where_they_overlap(engine: Chromium) -> None:
    """Whoever may make an event may write any ranges: the page must not count each within all others."""
    nested = [f"orders:0:{i}:{40_000 - i}" for i in range(20_000)]

    assert [pair["lanes"] for pair in _run(engine, _PAIRS, {"events": [event(ledger("r1", nested))]})] == [
        [[0, ["0", "40000", "covered", ["r1"]]]]
    ]
    endless = event({**ledger("r1", []), "offset_ranges": ["orders:0:0:1"] * 100_001})
    assert _run(engine, "return m.entriesOfEvent(a)", endless) == []


def test_a_function_that_called_several_operators_has_an_entry_of_each(engine: Chromium) -> None:
    extra = {**ledger("r1", ["orders:0:0:9"]), "more": [ledger("r2", ["payments:0:0:5"], targets=("payments_copy",))]}

    assert [pair["lanes"] for pair in _run(engine, _PAIRS, {"events": [event(extra)]})] == [
        [[0, ["0", "9", "covered", ["r1"]]]],
        [[0, ["0", "5", "covered", ["r2"]]]],
    ]


def test_a_topic_chooses_targets_and_keeps_what_may_be_one(engine: Chromium) -> None:
    extras = [ledger(run, [f"{run}:0:0:9"], targets=targets) for run, targets in [("a", ("x", "YY")), ("b", ("x",))]]
    extras.append(ledger("c", ["c:0:0:9"], targets=()))
    body = (
        "return m.ofTopic(a.flatMap(m.entriesOfEvent), '2:9092/y')"
        ".map((e) => [e.kafkaRun, e.targets.map((t) => t.topic)])"
    )

    found = _run(engine, body, [event(extra) for extra in extras])

    assert found == [["a", ["YY"]], ["c", []]]


def test_each_topic_of_a_map_is_drawn_with_its_own_target(engine: Chromium) -> None:
    entry = ledger("r1", ["orders:0:0:9", "payments:0:0:5"], targets=("orders_v2", "payments_v2"))
    entry |= {"topic_map": {"orders": "orders_v2", "payments": "payments_v2"}}

    pairs = _run(engine, _PAIRS, {"events": [event(entry)]})

    assert [pair["name"] for pair in pairs] == [
        "broker-1:9092/orders → broker-2:9092/orders_v2",
        "broker-1:9092/payments → broker-2:9092/payments_v2",
    ]


def test_the_states_of_tasks_are_those_of_the_command(engine: Chromium) -> None:
    found = _run(engine, "return [m.ACTIVE_STATES, m.FAILED_STATES, m.OPERATORS]")

    assert [set(names) for names in found] == [set(_GOES_ON), set(_ENDED_BADLY), set(OPERATORS)]


def test_what_went_to_an_earlier_target_of_the_same_name_is_not_covered(engine: Chromium) -> None:
    """An entry of an older version does not say which it wrote to, and counts. Nor are runs of an earlier source."""
    new = {"source_topic_ids": {"orders": "new"}, "target_topic_ids": {"orders_copy": "new"}}
    events = [
        event(ledger("r0", ["orders:0:0:100"], source_topic_ids={"orders": "old"}), hours_ago=4),
        event(ledger("r1", ["orders:0:0:100"], target_topic_ids={"orders_copy": "old"}), hours_ago=3),
        event(ledger("r2", ["orders:0:50:60"], **new), hours_ago=2),
        event(ledger("r3", ["orders:0:70:80"]), hours_ago=1),
    ]
    (pair,) = _run(engine, _PAIRS, {"events": events})

    assert _run(engine, "return m.buildPairs(a.flatMap(m.entriesOfEvent)).outdated", events) >= 1
    assert [(*s[:2], s[2]) for s in pair["lanes"][0][1:]] == [
        ("50", "60", "covered"),
        ("60", "70", "gap"),
        ("70", "80", "covered"),
    ]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"offset_ranges": {"value": [], "schema": {"type": "array"}}}, ["offset_ranges", True], id="list"),
        pytest.param(
            {"offset_ranges": {"value": "", "schema": {"type": "string"}}}, ["offset_ranges", False], id="text"
        ),
        pytest.param({"ranges": {"value": [], "schema": {"type": "array"}}}, ["ranges", True], id="incident-form"),
        pytest.param({"ranges": {"value": 3, "schema": {"type": "integer"}}}, None, id="another-meaning"),
        pytest.param({}, None, id="none"),
        pytest.param(None, None, id="no-params"),
    ],
)
def test_which_param_takes_ranges(engine: Chromium, params: object, expected: object) -> None:
    assert _run(engine, "const r = m.rangesParam(a); return r && [r.name, r.isList]", params) == expected


def test_a_view_stays_within_what_is_known(engine: Chromium) -> None:
    views = _run(
        engine,
        "const all = {from: 10n, until: 110n}; const one = m.zoomView({from: 50n, until: 51n}, true, 10n, 110n);"
        "return [m.zoomView(all, true, 10n, 110n), m.zoomView(all, false, 10n, 110n), one,"
        "m.clampView(-5n, 45n, 10n, 110n), m.clampView(100n, 150n, 10n, 110n)].map((v) => [v.from, v.until])",
    )

    assert views == [["35", "85"], ["10", "110"], ["50", "51"], ["10", "60"], ["60", "110"]]


def test_the_axis_has_round_offsets(engine: Chromium) -> None:
    assert _run(engine, "return m.ticks(7n, 1003n, 5.9)") == ["200", "400", "600", "800", "1000"]
    assert _run(engine, "return m.ticks(5n, 7n, 8)") == ["5", "6", "7"]
    assert len(_run(engine, "return m.ticks(0n, 9223372036854775807n, 8)")) <= 10
