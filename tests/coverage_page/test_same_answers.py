"""The page and the command say the same of drawn events and tasks, beside the cases that both have."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.ledger.pairs import pairs_of
from airflow_provider_kafka_spark.core.offsets.compact_rows import compacted
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.wire.state_parts import in_parts
from tests.core.ledger.test_coverage_cases import CASES, as_text, logs_of, recorded_of
from tests.coverage_page.page_modules import Engine
from tests.coverage_page.test_page_modules import _BODY
from tests.required_tools import needs_chromium

pytestmark = [needs_chromium, pytest.mark.process]


def test_drawn_events_and_tasks(engine: Engine) -> None:
    drawn = random.Random(40)
    for number in range(400):
        case = _case(drawn)
        assert engine.run(_BODY, case) == _said(case), f"case {number}: {case}"


def _said(case: dict[str, Any]) -> dict[str, Any]:
    """By the rules of Python."""
    recorded = recorded_of(case["events"], case["tasks"])
    pairs, outdated = pairs_of(recorded.deliveries, waiting=recorded.waiting)
    return {
        "pairs": {str(pair): [as_text(s) for s in pair.stretches()] for pair in pairs},
        "logs": {str(pair): logs_of(pair) for pair in pairs},
        "skipped": recorded.skipped,
        "not_by_a_task": recorded.not_by_a_task,
        "outdated": outdated,
    }


def _case(drawn: random.Random) -> dict[str, Any]:
    times = [f"2026-11-20T{hour:02d}:00:00Z" for hour in range(24)]

    def run() -> str:
        return f"{drawn.choice(['scheduled', 'backfill', 'manual'])}__{drawn.choice(times)}"

    events = [
        {
            **CASES["defaults"]["event"],
            "extra": _entry(drawn, "complete"),
            "timestamp": drawn.choice(times),
            "source_run_id": run(),
            "source_dag_id": drawn.choice(["hourly", "hourly", "daily"]),
        }
        for _ in range(drawn.randint(0, 7))
    ]
    states = ["running", "failed", None, "up_for_retry", "upstream_failed", "success"]
    tasks = [
        {
            **CASES["defaults"]["task"],
            "state": drawn.choice(states),
            "updated_at": drawn.choice(times),
            "dag_run_id": run(),
            "dag_id": drawn.choice(["hourly", "daily"]),
            "store": {}
            if drawn.random() < 0.4
            else _stored(drawn, _entry(drawn, drawn.choice(["running", "partial", "complete"]))),
        }
        for _ in range(drawn.randint(0, 4))
    ]
    return {"events": events, "tasks": tasks}


def _stored(drawn: random.Random, entry: dict[str, Any]) -> dict[str, Any]:
    """In parts or not; one of them may be absent, or what names them malformed."""
    key = drawn.choice(["ledger", "ledger/called"])
    if drawn.random() < 0.6:
        return {key: entry}
    head, parts = in_parts(key, json.dumps(entry), drawn.randint(40, 400))
    if drawn.random() < 0.2:
        del parts[drawn.choice(list(parts))]
    if drawn.random() < 0.2:
        head["parts"].append(drawn.choice([7, "", head["parts"][0]]))  # type: ignore[arg-type]
    return {key: head, **parts}


def _entry(drawn: random.Random, state: str) -> dict[str, Any]:
    def some(share: float, topics: tuple[str, ...] = ("orders", "payments")) -> Any:
        count = drawn.randint(1, 3) if drawn.random() < share else 0
        starts = [(drawn.choice(topics), drawn.randrange(2), drawn.randrange(20)) for _ in range(count)]
        found = [f"{topic}:{p}:{start}:{start + drawn.randint(0, 12)}" for topic, p, start in starts]
        if drawn.random() < 0.8:
            return found
        return compacted([r.to_dict() for r in OffsetRanges.parse(found, merge_overlaps=True)], least=0)

    one, two = (drawn.choice([["one", "one"], ["uno", "one"], ["one", ""], ["two", "two"]]) for _ in range(2))
    targets = drawn.choice([["copy"], ["copy"], ["other"], ["copy", "other"], []])
    entry: dict[str, Any] = {
        "version": 1 if drawn.random() < 0.97 else 2,
        "state": state,
        "run_id": drawn.choice("abcd"),
        "offset_ranges": some(0.8),
        "missing_ranges": some(0.2),
        "empty_ranges": some(0.2),
        "planned_ranges": some(0.6),
        "target_topics": targets,
        "source": f"{one[0]}:9092",
        "target": f"{two[0]}:9092",
        "source_cluster_id": one[1],
        "target_cluster_id": two[1],
        "source_topic_ids": {"orders": drawn.choice(["x", "x", "x", "y"])} if drawn.random() < 0.7 else {},
        "target_topic_ids": {t: drawn.choice(["x", "x", "x", "y"]) for t in targets if drawn.random() < 0.7},
        "filtered": drawn.random() < 0.2,
    }
    if drawn.random() < 0.2:
        entry["target_expr"] = drawn.choice(["e1", "e2"])
    elif drawn.random() < 0.2:
        entry["topic_map"] = {"orders": "copy", "payments": "other"}
    if drawn.random() < 0.4:
        at = f"2026-11-20T{drawn.randrange(24):02d}:00:00+00:00"
        logs = [
            f"{t}:{p}:{drawn.randrange(5)}:{drawn.randint(5, 40)}" for t in ("orders", "payments") for p in (0, 1, 2)
        ]
        entry["log"] = {"at": at, "source": logs, "target": [f"copy:0:0:{drawn.randint(0, 9)}"]}
    return entry
