"""Clears with three plans in turn, some of which are stopped in the middle: the target has what the green ones promise.

What only this proves: that no order of plans and failures loses or doubles a record without a word.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobReportMissingError
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from tests.draws import SEED, draws
from tests.operators.copy_task import CopyTask, NewTask, Replay

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.fault]

RECORDS, STEPS = 30, 6
#: What stops a try: nothing, a record that the target refuses, or the death of its worker after the job.
ENDS = ("green", "green", "refused", "lost")


def _records(rng: random.Random) -> list[Record]:
    large = rng.sample(range(RECORDS), 4)
    sizes = [5_000 if i in large else 1 for i in range(RECORDS)]
    return [Record(value=b"%d %s" % (i, rng.randbytes(size)), partition=i % 2) for i, size in enumerate(sizes)]


def _plan(rng: random.Random, source: str) -> list[str]:
    """One or two ranges of each partition."""
    found = []
    for partition in range(2):
        cuts = sorted(rng.sample(range(RECORDS // 2 + 1), rng.choice((2, 4))))
        found += [f"{source}:{partition}:{a}:{b}" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    return found


def _planned(kafka: Any, source: str, plan: list[str]) -> set[bytes]:
    spans = [tuple(map(int, text.split(":")[1:])) for text in plan]
    records = kafka.consume(source)
    return {r.value for r in records if any(r.partition == p and a <= r.offset < b for p, a, b in spans)}


def _try(task: CopyTask, plan: list[str], end: str) -> dict[str, Any] | None:
    task.kafka.alter_topic(task.target, {"max.message.bytes": "1000" if end == "refused" else "1000000"})
    task.clears += task.tries > 0
    try:
        if end == "lost":
            task.lose_report(Replay, offset_ranges=plan)
            return None
        return task.succeed(Replay, offset_ranges=plan)
    except (AirflowFailException, JobReportMissingError):
        assert end == "refused"
        return None


@pytest.mark.parametrize("provenance", ["headers", "segments"])
@pytest.mark.parametrize("number", draws(10, one_of=3))
def test_three_plans_in_turn(new_task: NewTask, monkeypatch: pytest.MonkeyPatch, provenance: str, number: int) -> None:
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 3)
    rng = random.Random(f"{SEED}-{number}")
    task = new_task(CopyTask, 2, 2, _records(rng), provenance=provenance, preserve_partition=True)
    plans = [_plan(rng, task.source) for _ in range(3)]
    promised, is_said, told = set[bytes](), False, list[str]()
    for step in range(STEPS):
        plan, end = rng.choice(plans), "green" if step == STEPS - 1 else rng.choice(ENDS)
        result = _try(task, plan, end)
        told.append(f"{end} {' '.join(plan)}")
        if result is None:
            continue
        promised |= _planned(task.kafka, task.source, plan)
        is_said = is_said or result["evidence"]["may_have_duplicates"]
        there = task.values()
        assert promised - there.keys() == set(), told
        assert is_said or Counter(v for v, n in there.items() if n > 1) == Counter(), told
