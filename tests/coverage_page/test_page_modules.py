"""What the page computes, without a page: its modules in a real JavaScript engine."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry
from airflow_provider_kafka_spark.state.ledger_api import _ENDED_BADLY, _GOES_ON, OPERATORS
from tests.core.ledger.test_coverage_cases import CASES, filled
from tests.coverage_page.page_modules import Engine
from tests.coverage_page.runs import event, ledger
from tests.required_tools import needs_chromium

pytestmark = needs_chromium

_BODY = """
const found = new m.Entries();
for (const event of a.events) found.addEvent(event);
const waiting = [];
for (const { store, ...task } of a.tasks) {
  const stored = Object.entries(store).map(([key, value]) => ({ key, value, updated_at: task.updated_at }));
  const rows = m.wholeRows(stored);
  const isActive = m.ACTIVE_STATES.includes(task.state ?? "no_status");
  const where = { dagId: task.dag_id, dagRunId: task.dag_run_id, taskId: task.task_id };
  if (!found.addTask(task, rows) && isActive) waiting.push(where);
}
const { pairs, outdated } = m.buildPairs(found.all, found.claims);
for (const pair of pairs) m.markWaiting(pair, waiting);
const nameOf = (p) => `${p.source}/${p.topic} -> ${p.target.server}/${p.target.topic}`;
const line = (lane, s) =>
  [`${lane.partition}:${s.from}:${s.until}`, s.state, s.entries.map((e) => e.kafkaRun).sort().join(",")]
    .filter(Boolean).join(" ");
const time = (at) => new Date(at).toISOString().replace(".000Z", "+00:00");
const look = (log) => (log ? [time(log.at), log.ranges.map(m.formatRange)] : null);
const lags = (p) =>
  p.lags.length > 0 ? { lags: p.lags.map(({ groupId, behind, at }) => `${groupId} ${behind} ${time(at)}`) } : {};
const of = (value) => Object.fromEntries(pairs.map((p) => [nameOf(p), value(p)]));
return {
  pairs: of((p) => p.lanes.flatMap((lane) => lane.segments.map((s) => line(lane, s)))),
  logs: of((p) => ({ source: look(p.sourceLog), target: look(p.targetLog), ...lags(p) })),
  skipped: found.skipped, not_by_a_task: found.notByTask, outdated,
};
"""


def test_the_page_judges_as_the_command_does(engine: Engine) -> None:
    """The cases of both."""
    for case in CASES["cases"]:
        events, tasks = filled(case)

        found = engine.run(_BODY, {"events": events, "tasks": tasks})

        expected = {"pairs": {}, "skipped": 0, "not_by_a_task": 0, "outdated": 0, "logs": found["logs"], **case}
        assert found == {name: expected[name] for name in found}, case["name"]


_MANY = [f"t:{p}:{n * 90 + p}:{n * 90 + 70}" for p in (0, 7) for n in range(800)]


def test_thousands_of_ranges_are_read_from_their_short_form(engine: Engine) -> None:
    """As Python reads them, and to the largest offset. What is malformed is skipped."""
    log = {"at": "2026-11-26T10:00:00+00:00", "source": [f"t:{p}:0:80000" for p in range(1_200)], "target": []}
    whole = ledger("r", [*_MANY, f"u:3:5:{2**63 - 1}"], log=log)
    short = short_entry(whole)
    assert isinstance(short["offset_ranges"], dict)
    assert isinstance(short["log"]["source"], dict)
    broken = {**short, "offset_ranges": {**short["offset_ranges"], "offsets": {"t": "AAE="}}}

    found = [engine.run(_BODY, {"events": [event(entry)], "tasks": []}) for entry in (whole, short, broken)]
    size = engine.run("return m.compactSize(a)", short["offset_ranges"])
    assert size == len(_MANY) + 1

    assert found[0] == found[1]
    assert len(found[0]["pairs"]) == 2
    assert (found[2]["pairs"], found[2]["skipped"]) == ({}, 1)


def test_the_words_are_those_of_the_command(engine: Engine) -> None:
    words = engine.run("return m.WORDS")

    assert words == CASES["words"]


def test_the_states_of_tasks_are_those_of_the_command(engine: Engine) -> None:
    found = engine.run("return [m.ACTIVE_STATES, m.FAILED_STATES, m.OPERATORS]")

    assert [set(names) for names in found] == [set(_GOES_ON), set(_ENDED_BADLY), set(OPERATORS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("orders:0:100:200", ["orders", 0, "100", "200"], id="plain"),
        pytest.param(
            "t:0:9007199254740993:9223372036854775807",
            ["t", 0, "9007199254740993", "9223372036854775807"],
            id="beyond-the-exact-numbers-of-javascript",
        ),
        pytest.param("orders:0:1:9223372036854775808", None, id="beyond-kafka"),
        pytest.param("orders:2147483648:1:2", None, id="too-many-partitions"),
        pytest.param("orders:0:200:100", None, id="backwards"),
        pytest.param("orders:0:5:5", ["orders", 0, "5", "5"], id="empty"),
        pytest.param("a:b:7:1:2", None, id="colon-in-the-topic"),
        pytest.param(7, None, id="not-a-text"),
    ],
)
def test_a_range_is_parsed_exactly_or_not_at_all(engine: Engine, text: object, expected: list[object] | None) -> None:
    got = engine.run("const r = m.parseRange(a); return r && [r.topic, r.partition, r.from, r.until]", text)

    assert got == expected
    if expected:
        assert engine.run("return m.formatRange(m.parseRange(a))", text) == text


_SEGMENTS = """
const found = new m.Entries();
for (const event of a) found.addEvent(event);
const { pairs } = m.buildPairs(found.all);
return pairs.flatMap((p) => p.lanes.flatMap((l) => l.segments.map((s) =>
  [s.from, s.until, s.state, s.total, s.entries.length])));
"""


def test_ranges_that_overlap_are_looked_at_once(engine: Engine) -> None:
    """Whoever may make an event may write any ranges; and of thousands of runs, ten are named."""
    nested = [f"orders:0:{i}:{40_000 - i}" for i in range(20_000)]
    many = [_event(ledger(f"r{i}", [f"orders:0:{i}:{i + 500}"])) for i in range(2_000)]

    assert engine.run(_SEGMENTS, [_event(ledger("r1", nested))]) == [["0", "40000", "covered", 1, 1]]
    found = engine.run(_SEGMENTS, many)
    assert (len(found), found[1000]) == (2_499, ["1000", "1001", "duplicated", 500, 10])


def _event(extra: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made = event(extra, **fields)
    where = {"source_dag_id": "hourly_copy", "source_run_id": fields.get("dag_run_id", "manual")}
    return {**made, **where}


def test_an_entry_with_too_many_ranges_is_named(engine: Engine) -> None:
    endless = _event({**ledger("r1", []), "offset_ranges": ["orders:0:0:1"] * 100_001})

    body = "const f = new m.Entries(); f.addEvent(a); return [f.all.length, f.skipped, f.refused]"
    none, skipped, ((refused),) = engine.run(body, endless)
    assert (none, skipped, refused["dagRunId"], refused["ranges"]) == (0, 1, "manual", 100_001)


def test_what_is_shown_is_exported(engine: Engine) -> None:
    entry = ledger("r1", ["orders:0:9007199254740993:9007199254740995", "orders:0:9007199254740996:9007199254740997"])
    entry["target_topics"] = ["=cmd", 'a "b", c']
    body = (
        "const f = new m.Entries(); f.addEvent(a); const { pairs } = m.buildPairs(f.all);"
        "return [m.toCsv(m.exportRows(pairs, ['missing'])), m.toJson(m.exportRows(pairs))]"
    )

    as_csv, as_json = engine.run(body, _event(entry))

    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert [(row["target_topic"], row["from_offset"], row["state"]) for row in rows] == [
        ("'=cmd", "9007199254740995", "missing"),
        ('a "b", c', "9007199254740995", "missing"),
    ]
    found = json.loads(as_json)
    assert [row["range"] for row in found[:3]] == [
        "orders:0:9007199254740993:9007199254740995",
        "orders:0:9007199254740995:9007199254740996",
        "orders:0:9007199254740996:9007199254740997",
    ]
    assert found[0]["runs"] == ["hourly_copy/manual/copy"]


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
def test_which_param_takes_ranges(engine: Engine, params: object, expected: object) -> None:
    assert engine.run("const r = m.rangesParam(a); return r && [r.name, r.isList]", params) == expected


def test_a_view_stays_within_what_is_known(engine: Engine) -> None:
    views = engine.run(
        "const all = {from: 10n, until: 110n}; const one = m.zoomView({from: 50n, until: 51n}, true, 10n, 110n);"
        "return [m.zoomView(all, true, 10n, 110n), m.zoomView(all, false, 10n, 110n), one,"
        "m.clampView(-5n, 45n, 10n, 110n), m.clampView(100n, 150n, 10n, 110n)].map((v) => [v.from, v.until])",
    )

    assert views == [["35", "85"], ["10", "110"], ["50", "51"], ["10", "60"], ["60", "110"]]


def test_the_axis_has_round_offsets(engine: Engine) -> None:
    assert engine.run("return m.ticks(7n, 1003n, 5.9)") == ["200", "400", "600", "800", "1000"]
    assert engine.run("return m.ticks(5n, 7n, 8)") == ["5", "6", "7"]
    assert len(engine.run("return m.ticks(0n, 9223372036854775807n, 8)")) <= 10
