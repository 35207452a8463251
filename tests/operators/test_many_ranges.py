"""A task with more than a thousand ranges: everything that takes its result takes the compact form as it takes a list.

The rules are tested with the form itself; this goes the whole way once, through plan, copy, clear, audit and event.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.watch import announced_ranges
from airflow_provider_kafka_spark.core.offsets.compact_result import whole_result
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from tests.airflow_fakes import TaskStateStore, task_context
from tests.operators.copy_task import CopyTask, NewTask, Replay, audit, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_RANGES = 1_100


def test_many_ranges_go_the_whole_way(new_task: NewTask) -> None:
    task = new_task(CopyTask, 2, 2, numbered(0, 4 * _RANGES), provenance="segments", preserve_partition=True)
    wanted = [f"{task.source}:1:{2 * i}:{2 * i + 1}" for i in range(_RANGES)]
    kept = _as_xcom(task.succeed(Replay, offset_ranges=wanted))

    assert kept["ranges"]["compact"] == 1
    assert sum(s["until_offset"] - s["from_offset"] for s in rows_in(kept["segments"])) == _RANGES
    assert OffsetRanges.parse(kept["ranges"]).format() == OffsetRanges.parse(wanted).format()
    assert {r["records_written"] for r in whole_result(kept)["ranges"]} == {1}
    assert max(len(json.dumps(value)) for value in task.store.values.values()) < 65_535
    event = _as_xcom(task.event(COPIES).extra)
    assert OffsetRanges.parse(announced_ranges([event])) == OffsetRanges.parse(kept["target_ranges"])
    gaps = uncovered([event], task.source, window=[f"{task.source}:1:0:{2 * _RANGES}"])
    assert sum(r["until_offset"] - r["from_offset"] for r in gaps) == _RANGES

    assert audit(kept)["missing"] == 0
    again = task.clear(Replay, offset_ranges=wanted)
    assert (again["delivered_before"], again["records_written"]) == (_RANGES, _RANGES)
    assert sum(task.values().values()) == _RANGES


def test_a_plan_of_many_ranges_is_carried_out_from_its_compact_form(new_task: NewTask) -> None:
    task = new_task(CopyTask, 2, 2, numbered(0, 4 * _RANGES))
    wanted = [f"{task.source}:0:{2 * i}:{2 * i + 1}" for i in range(_RANGES)]
    operator = Replay(task_id="plan", plan_only=True, offset_ranges=wanted, target_topic=task.target)
    plan = _as_xcom(operator.execute(task_context()))  # type: ignore[arg-type]

    task.store, task.tries = TaskStateStore(), 0
    result = task.run(Replay, plan=plan)

    assert (plan["ranges"]["compact"], plan["planned_records"]) == (1, _RANGES)
    assert result["records_written"] == _RANGES
    assert OffsetRanges.parse(result["ranges"]).format() == OffsetRanges.parse(plan["ranges"]).format()


def _as_xcom(value: Any) -> Any:
    return json.loads(json.dumps(value))
