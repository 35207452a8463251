"""What runs that have not begun are going to copy, as far as the times in their ids tell. No I/O.

``coverage_page/pairs.js`` has the same rule, and both are tested against ``tests/core/ledger/coverage_cases.json``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, Stretch
from airflow_provider_kafka_spark.core.ledger.entry import TaskRun

_SCHEDULED = re.compile(r"(?:scheduled|backfill)__(\d{4}-\d\d-\d\dT.+(?:Z|[+-]\d\d:\d\d))")


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task of a copy that has neither copied nor planned anything.

    :param state: as Airflow has it; empty if it is not scheduled yet.
    """

    by: TaskRun
    state: str = ""


def due_time(dag_run_id: str) -> float | None:
    """When a scheduled or backfill run was due, in seconds since 1970; None for others.

    >>> due_time("scheduled__1970-01-01T00:01:00Z"), due_time("manual__1970-01-01T00:01:00Z")
    (60.0, None)
    """
    found = _SCHEDULED.fullmatch(dag_run_id)
    try:
        return None if found is None else datetime.fromisoformat(found[1].replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def with_waiting(stretches: Sequence[Stretch], waiting: Iterable[WaitingTask]) -> list[Stretch]:
    """The stretches, where those that are missing or unseen wait for runs of the same task: they were due between
    those that copied what lies before it and after it, or after the last one.

    :param stretches: of one pair, sorted.
    :param waiting: runs of its tasks.
    """
    due: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in waiting:
        if (time := due_time(each.by.run_id)) is not None:
            due[each.by.task].append(time)
    lanes: dict[tuple[str, int], list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        lanes[stretch.offsets.topic, stretch.offsets.partition].append(stretch)
    for task, times in due.items():
        lanes = {place: list(_marked(lane, task, times)) for place, lane in lanes.items()}
    return [stretch for lane in lanes.values() for stretch in lane]


def _marked(lane: Sequence[Stretch], task: tuple[str, str], due: Sequence[float]) -> Iterator[Stretch]:
    """:param due: when the runs of the task that wait were due."""
    times = [[t for d in s.by if d.by.task == task and (t := due_time(d.by.run_id)) is not None] for s in lane]
    after = [math.inf] * len(lane)
    for i in range(len(lane) - 2, -1, -1):
        after[i] = min(times[i + 1], default=after[i + 1])
    before = -math.inf
    for stretch, own, next_one in zip(lane, times, after, strict=True):
        before = max(own, default=before)
        is_open = stretch.coverage in (Coverage.MISSING, Coverage.UNSEEN)
        is_known = before > -math.inf or next_one < math.inf
        if is_open and is_known and any(before < time < next_one for time in due):
            yield replace(stretch, coverage=Coverage.WAITING, by=(), entries=0)
        else:
            yield stretch
