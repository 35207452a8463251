"""What the command ``coverage`` prints: of each pair of topics what was copied, and what was not. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, Stretch, picture, uncovered
from airflow_provider_kafka_spark.core.ledger.entry import Delivery, GroupLag, Look, TaskRun
from airflow_provider_kafka_spark.core.ledger.pairs import Pair
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import one_line
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics

#: Ranges, and of each its runs, that a text lists.
_MOST, _MOST_RUNS = 20, 3
#: What somebody has to act on, and what is not over; of each pair the first one that it has is its state.
TO_DO = (Coverage.MISSING, Coverage.FAILED)
NOT_OVER = (Coverage.UNFINISHED, Coverage.WAITING, Coverage.UNSEEN)


def report_of_pair(pair: Pair, stretches: Sequence[Stretch]) -> dict[str, Any]:
    """What is known of a pair, as plain JSON."""
    counts = dict.fromkeys(Coverage, 0)
    for stretch in stretches:
        counts[stretch.coverage] += stretch.offsets.size
    filtered = OffsetRanges(s.offsets for s in stretches if s.filtered)
    return {
        "source": pair.source,
        "target": pair.target,
        "target_topic": pair.target_topic,
        "runs": len({(d.by, d.run_id) for d in pair.deliveries}),
        "counts": {kind.value: count for kind, count in counts.items() if count},
        "source_log": _log(pair.source_log),
        "target_log": _log(pair.target_log),
        "lags": [_lag(lag, at) for lag, at in pair.lags],
        "picture": picture(stretches),
        **stretches_of(stretches, pair.deliveries),
        "missing": KnownTopics({pair.topic: pair.topic_id}).dicts(uncovered(stretches)),
        "filtered": [r.to_dict() for r in filtered.merge()],
        "waiting": [{**_who(task.by), "state": task.state or None} for task in pair.waiting],
    }


def stretches_of(stretches: Sequence[Stretch], deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """What ``--json`` prints of the coverage by some deliveries: each of them once, and in a stretch its place."""
    places = {id(d): place for place, d in enumerate(deliveries)}
    found = [(s, _stretch(s, places)) for s in stretches]
    return {
        "ledger": [{"run_id": d.run_id, "filtered": d.filtered, **_who(d.by)} for d in deliveries],
        "stretches": [printed for _, printed in found],
        "failed": [printed for s, printed in found if s.coverage is Coverage.FAILED],
    }


def has(report: Mapping[str, Any], kinds: Iterable[Coverage]) -> bool:
    """Whether any pair has offsets of these kinds."""
    return any(kind.value in pair["counts"] for pair in report["pairs"] for kind in kinds)


def text_of(report: Mapping[str, Any]) -> str:
    """The report as a person reads it."""
    lines = [line for pair in report["pairs"] for line in (*_lines_of(report["topic"], pair), "")]
    for name, what in (
        ("skipped_entries", "entries are of another version or malformed, and were not counted"),
        ("not_by_a_task", "asset events were made by no task, and were not counted"),
        ("outdated", "entries are of topics that were deleted and recreated since, and say nothing of those of now"),
    ):
        lines += [f"{report[name]:,} {what}."] if report[name] else []
    lines += [f"Note: {one_line(text)}." for text in report["cut"]]
    return "\n".join(lines).rstrip("\n")


def _lines_of(topic: str, pair: Mapping[str, Any]) -> list[str]:
    name = one_line(pair["target_topic"]) or "(no target is known)"
    lines = [f"{topic} -> {name}: {_plural(pair['runs'], 'run')}"]
    servers = {one_line(pair[side]) for side in ("source", "target")}
    lines += [f"from {one_line(pair['source'])} to {one_line(pair['target'])}"] if len(servers - {""}) > 1 else []
    lines += [pair["picture"]] if pair["picture"] else []
    lines.append(", ".join(f"{count:,} {kind}" for kind, count in pair["counts"].items()) or "no offsets")
    for side, of in (("source_log", topic), ("target_log", name)):
        if pair[side] is not None:
            size = sum(OffsetRange.parse(text).size for text in pair[side]["ranges"])
            lines.append(f"{of} had {size:,} offsets when a run last looked, at {pair[side]['at']}.")
    for lag in pair["lags"]:
        group, of = one_line(lag["group_id"]), one_line(lag["topic"])
        lines.append(f"Group {group} was {lag['behind']:,} offsets behind on {of} at {lag['at']}.")
    if pair["missing"]:
        ranges = [OffsetRange.parse(r) for r in pair["missing"]]
        lines.append(
            f"No run has copied {_plural(sum(r.size for r in ranges), 'offset')} in {_plural(len(ranges), 'range')}:"
        )
        lines += [f"  {r.format()}" for r in ranges[:_MOST]] + _more(ranges)
    if pair["failed"]:
        lines.append("Runs that failed were to copy these; clear the task, which copies the rest:")
        lines += [f"  {_offsets(s)} by {_runs(pair, s)}" for s in pair["failed"][:_MOST]] + _more(pair["failed"])
    if pair["waiting"]:
        lines.append(
            "These have not begun to copy, and may copy what is waiting, missing or unseen. Do not replay it before:"
        )
        lines += [f"  {_task(t)} ({t['state'] or 'not scheduled yet'})" for t in pair["waiting"][:_MOST]]
        lines += _more(pair["waiting"])
    if pair["filtered"]:
        size = sum(OffsetRange.parse(r).size for r in pair["filtered"])
        lines.append(f"Of {size:,} covered offsets, all runs had a filter, and may have left records out on purpose.")
    return lines


def _more(items: Sequence[object]) -> list[str]:
    return [f"  and {len(items) - _MOST:,} more"] if len(items) > _MOST else []


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _offsets(stretch: Mapping[str, Any]) -> str:
    return ":".join(str(stretch[name]) for name in ("topic", "partition", "from_offset", "until_offset"))


def _runs(pair: Mapping[str, Any], stretch: Mapping[str, Any]) -> str:
    return "; ".join(_task(pair["ledger"][place]) for place in stretch["by"][:_MOST_RUNS])


def _task(of: Mapping[str, Any]) -> str:
    return one_line(str(TaskRun(of["dag_id"], of["dag_run_id"], of["task_id"], of["map_index"])))


def _log(look: Look | None) -> dict[str, Any] | None:
    return None if look is None else {"at": look.at.isoformat(timespec="seconds"), "ranges": look.ranges.format()}


def _lag(lag: GroupLag, at: datetime) -> dict[str, Any]:
    side = "target" if lag.of_target else "source"
    of = {"group_id": lag.group_id, "topic": lag.topic, "side": side, "behind": lag.behind}
    return {**of, "at": at.isoformat(timespec="seconds")}


def _stretch(stretch: Stretch, places: Mapping[int, int]) -> dict[str, Any]:
    """:param places: of each entry in the ledger that is printed, by ``id``."""
    return {
        **stretch.offsets.to_dict(),
        "coverage": stretch.coverage.value,
        "entries": stretch.entries,
        "by": [places[id(d)] for d in stretch.by],
    }


def _who(by: TaskRun) -> dict[str, Any]:
    return {"dag_id": by.dag_id, "dag_run_id": by.run_id, "task_id": by.task_id, "map_index": by.map_index}
