"""Runs as the ledger has them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tests.core.ledger.test_coverage import entry

NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


def ledger(
    run_id: str, ranges: list[str], *, targets: tuple[str, ...] = ("orders_copy",), **fields: Any
) -> dict[str, Any]:
    """What an operator writes of one run."""
    count = sum(int(text.split(":")[-1]) - int(text.split(":")[-2]) for text in ranges)
    counts = {"records_read": count, "records_written": count, "filtered": False}
    try_ = {"started_at": NOW.isoformat(), "seconds": 2.3, "try_number": 1}
    unknown = {"source_cluster_id": "", "target_cluster_id": "", "source_topic_ids": {}}
    return entry(run_id, *ranges, **{**counts, **try_, **unknown, "target_topics": list(targets), **fields})


def event(extra: dict[str, Any], *, hours_ago: float = 1, **fields: Any) -> dict[str, Any]:
    """The asset event of a run."""
    moment = NOW - timedelta(hours=hours_ago)
    extra = {**extra, "started_at": moment.isoformat()} if "started_at" in extra else extra
    return {"extra": extra, "timestamp": moment.isoformat(), "source_task_id": "copy", **fields}


def task(run: str, state: str, store: dict[str, Any], *, hours_ago: float = 1, **where: str) -> dict[str, Any]:
    """A task instance with what its task state store holds."""
    moment = NOW - timedelta(hours=hours_ago)
    where = {"dag_id": "hourly_copy", "task_id": "copy", **where}
    return {**where, "dag_run_id": run, "state": state, "started_at": moment.isoformat(), "store": store}


def due(hours_ago: float) -> str:
    """The end of the id of a run that was due then."""
    return (NOW - timedelta(hours=hours_ago)).isoformat()


def one_of_each(partitions: int = 4) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events and tasks with each state of a range, and an event that no task has made."""

    def of(from_offset: int, until_offset: int) -> list[str]:
        return [f"orders:{p}:{from_offset + 40 * p}:{until_offset + 40 * p}" for p in range(partitions)]

    hours = [hour for hour in range(20) if hour not in (5, 6, 9, 12)]
    windows = {hour: ledger(f"{hour:016x}", of(100 * hour, 100 * hour + 100)) for hour in hours}
    windows[15] |= {"offset_ranges": of(1500, 1580), "empty_ranges": of(1580, 1600)}
    windows[19]["log"] = {
        "at": (NOW - timedelta(hours=15)).isoformat(),
        "source": [f"orders:{p}:0:{2500 + 40 * p}" for p in range(partitions)],
        "target": [f"orders_copy:{p}:0:1730" for p in range(partitions)],
    }
    events = [
        event(entry, hours_ago=34 - hour, dag_run_id=f"scheduled__{due(34 - hour)}") for hour, entry in windows.items()
    ]
    twice = ledger("f" * 16, of(250, 380))
    events.append(event(twice, hours_ago=2, dag_id="replay_ranges", task_id="replay", dag_run_id="manual__replay"))
    lost = ledger("e" * 16, [], missing_ranges=[f"orders:{p}:{1200 + 40 * p}:{1300 + 40 * p}" for p in range(2)])
    events.append(event(lost, hours_ago=3, dag_run_id="scheduled__lost"))
    events.append(event(ledger("9" * 16, of(520, 580)), hours_ago=2.5, source_task_id=None))
    running = ledger("d" * 16, [], state="running", planned_ranges=of(2000, 2200))
    failed = ledger("c" * 16, ["orders:0:2200:2250"], state="partial", planned_ranges=of(2200, 2400))
    tasks = [
        task("manual__now", "running", {"ledger": running, "other": {"version": 1}}, hours_ago=0.1),
        task("manual__failed", "failed", {"ledger": failed}, hours_ago=0.5),
        task(f"backfill__{due(25)}", "queued", {}, hours_ago=0.2),
    ]
    return events, tasks


def month(hours: int = 720, partitions: int = 32, replays: int = 50) -> list[dict[str, Any]]:
    """Hourly windows, and replays of some of them; one window in a hundred is missing."""
    size = 1000
    events = []
    for hour in range(hours):
        if hour % 100 == 99:
            continue
        ranges = [f"clicks:{p}:{hour * size}:{(hour + 1) * size}" for p in range(partitions)]
        extra = ledger(f"{hour:016x}", ranges, targets=("clicks_copy",))
        events.append(event(extra, hours_ago=hours - hour, dag_run_id=f"scheduled__{hour}"))
    for replay in range(replays):
        start = replay * 14 * size + 300
        ranges = [f"clicks:{p}:{start}:{start + 400}" for p in range(partitions)]
        extra = ledger(f"b{replay:015x}", ranges, targets=("clicks_copy",))
        events.append(
            event(
                extra,
                hours_ago=10,
                dag_id="replay_ranges",
                task_id="replay",
                dag_run_id=f"r{replay}",
            )
        )
    return events
