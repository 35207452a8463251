"""The rules of the ledger, by the cases that the modules of ``coverage_page`` are tested against too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, Stretch
from airflow_provider_kafka_spark.core.ledger.entry import Look, TaskRun
from airflow_provider_kafka_spark.core.ledger.pairs import Pair, pairs_of
from airflow_provider_kafka_spark.state.ledger_api import Recorded

CASES = json.loads(Path(__file__).with_name("coverage_cases.json").read_text(encoding="utf-8"))


def filled(case: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events and the tasks of a case, with what it leaves out."""
    defaults = CASES["defaults"]

    def entry(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        own = {name: value for name, value in given.items() if name not in ("bare", "more")}
        more = {"more": [entry(each) for each in given["more"]]} if "more" in given else {}
        return own if given.get("bare") else {**defaults["entry"], **own, **more}

    events = [{**defaults["event"], **e, "extra": entry(e["extra"])} for e in case.get("events", [])]
    tasks = [{**defaults["task"], **t} for t in case.get("tasks", [])]
    return events, [{**t, "store": {key: entry(value) for key, value in t["store"].items()}} for t in tasks]


def as_text(stretch: Stretch) -> str:
    offsets = stretch.offsets
    runs = ",".join(sorted(d.run_id for d in stretch.by))
    where = f"{offsets.partition}:{offsets.from_offset}:{offsets.until_offset}"
    return f"{where} {stretch.coverage.value} {runs}".strip()


def logs_of(pair: Pair) -> dict[str, Any]:
    """What a pair says of logs and groups."""
    lags = [f"{lag.group_id} {lag.behind} {at.isoformat()}" for lag, at in pair.lags]
    logs = {"source": look_of(pair.source_log), "target": look_of(pair.target_log)}
    return {**logs, "lags": lags} if lags else logs


def look_of(look: Look | None) -> Any:
    return None if look is None else [look.at.isoformat(), look.ranges.format()]


def recorded_of(events: Iterable[dict[str, Any]], tasks: Iterable[dict[str, Any]]) -> Recorded:
    """What the command reads of them."""
    recorded = Recorded()
    for event in events:
        recorded.add_event(event)
    for task in tasks:
        rows = [{"key": key, "value": value, "updated_at": task["updated_at"]} for key, value in task["store"].items()]
        by = TaskRun(task["dag_id"], task["dag_run_id"], task["task_id"], task["map_index"])
        recorded.add_task(by, rows, task)
    return recorded


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_what_entries_say_of_each_offset(case: dict[str, Any]) -> None:
    recorded = recorded_of(*filled(case))

    pairs, outdated = pairs_of(recorded.deliveries, waiting=recorded.waiting)

    assert {str(pair): [as_text(s) for s in pair.stretches()] for pair in pairs} == case["pairs"]
    assert (recorded.skipped, recorded.not_by_a_task, outdated) == tuple(
        case.get(name, 0) for name in ("skipped", "not_by_a_task", "outdated")
    )
    logs = {str(pair): logs_of(pair) for pair in pairs}
    assert logs == case.get("logs", {name: {"source": None, "target": None} for name in case["pairs"]})


def test_the_words_are_those_of_the_cases() -> None:
    assert {kind.value for kind in Coverage} == set(CASES["words"])
