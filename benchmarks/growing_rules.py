"""What the rules cost at several sizes, without brokers and without Spark: the work of each curve.

``benchmarks/growth.py`` measures seconds and bytes of it; ``tests/core/test_growth.py`` counts what Python executes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, make_plan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.copies.verification import check_delivery, result_of_plan, result_of_run
from airflow_provider_kafka_spark.core.ledger.coverage import coverage, plan_picture, uncovered
from airflow_provider_kafka_spark.core.ledger.entry import Delivery, EntryState
from airflow_provider_kafka_spark.core.ledger.report import stretches_of
from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry, short_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.records.topic_map import check_topic_map
from airflow_provider_kafka_spark.core.topics.bounds import parse_bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, resolve_window
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, RangeReport, Transform
from airflow_provider_kafka_spark.operators.asset_events import parts_by_topic
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore
from benchmarks.airflow_task import task_context

#: What is done at a size. What it needs is made before, so that only the work is measured.
Work = Callable[[], object]


def plan_of_partitions(count: int) -> Work:
    """A plan of topics with a thousand partitions each, as its task logs and stores it."""
    topics = [f"source-{i}" for i in range(-(-count // 1_000))]
    return _plan({name: min(1_000, count - 1_000 * i) for i, name in enumerate(topics)}, Target("copy"), ["copy"])


def plan_of_topics(count: int) -> Work:
    """A plan of topics of two partitions, each to a target of its own."""
    topic_map = {f"source-{i}": f"target-{i}" for i in range(count)}
    target = Target(None, topic_map=check_topic_map(topic_map))
    return _plan(dict.fromkeys(topic_map, 2), target, list(topic_map.values()))


def _plan(partitions: dict[str, int], target: Target, targets: list[str]) -> Work:
    source, sink = _cluster("source", partitions), _cluster("target", dict.fromkeys(targets, 4))
    selection = Selection(list(partitions))
    starting, ending = parse_bound("earliest", "start"), parse_bound("latest", "end")

    def work() -> None:
        resolved = resolve_window(selection, starting, ending, source, ReadRules())
        plan = make_plan(resolved, source, sink, target)
        log = dict.fromkeys(plan.ranges.topic_partitions, (0, 1_000))
        plan_picture(plan.ranges, OffsetRanges(), log)
        result_of_plan(plan, "1" * 16, Transform(topic="copy"))
        ReplayPlan.from_dict(json.loads(json.dumps(plan.to_dict())))

    return work


def _cluster(cluster_id: str, partitions: dict[str, int]) -> ClusterState:
    topics = {
        name: TopicState(name, f"id of {name}", {i: PartitionState(0, 1_000, 1_000, 0) for i in range(count)})
        for name, count in partitions.items()
    }
    return ClusterState(cluster_id, f"{cluster_id}_conn", 0, topics)


def check_of_report(count: int) -> Work:
    """Whether a report proves the delivery of a plan."""
    plan = ReplayPlan("source", "target", Target("copy"), _ranges(count))
    reported = tuple(RangeReport(r, r.size, r.size) for r in plan.ranges)
    report = JobReport("run", plan.digest, reported, ("copy",), "local-1", "4.0.0", 1.0)
    return lambda: check_delivery(report, plan, "run", Transform(topic="copy"))


def ranges_less_others(count: int) -> Work:
    """What is left of the ranges of one partition, and what is both in them and in others."""
    ranges = _ranges(count)
    others = [OffsetRange(r.topic, r.partition, r.from_offset + 5, r.until_offset + 5) for r in ranges]
    return lambda: (ranges.subtract(others), ranges.intersect(others), ranges.merge(others))


def bytes_of_result(count: int) -> Work:
    """What a task returns, and Airflow stores as its XCom."""
    plan = ReplayPlan(
        "source", "target", Target("copy"), _ranges(count), topic_ids={"orders": "pvoo7QRrQUqQbTSaHJYXVg"}
    )
    reported = tuple(RangeReport(r, r.size, r.size) for r in plan.ranges)
    report = JobReport("run", plan.digest, reported, ("copy",), "local-1", "4.0.0", 1.0)
    result = result_of_run(report, plan)
    return lambda: len(json.dumps(short_result(result)))


def largest_state(count: int) -> Work:
    """The largest value that a task stores of its run, with its plan of as many ranges, whose offsets look like nothing
    that could be compressed.
    """
    numbers = random.Random(1)  # noqa: S311
    starts = [numbers.randrange(1, 1_000_000) for _ in range(count)]
    ranges = OffsetRanges(OffsetRange("orders", i, at, at + numbers.randrange(at)) for i, at in enumerate(starts, 1))
    plan = ReplayPlan("source", "target", Target("copy"), ranges)
    context = task_context()

    def work() -> int:
        RunStateStore(context, "copy").submitting(RunState("1" * 16), plan, 0, "exactly_once")
        return max(len(json.dumps(value)) for value in context["task_state_store"].values.values())

    return work


def bytes_of_entry(count: int) -> Work:
    """What the ledger has of a copy, as a task stores it while it runs."""
    entry = {**_entry(1, topic_map={}), "planned_ranges": _ranges(count).format()}
    return lambda: len(json.dumps(short_entry(entry)))


def overlapping_copies(count: int) -> Work:
    """Copies of which each begins within the last half of them."""
    copies = _copies(count)
    return lambda: uncovered(coverage(copies))


def coverage_json(count: int) -> Work:
    """What the command prints of such copies, in bytes."""
    copies = _copies(count)
    return lambda: len(json.dumps(stretches_of(coverage(copies), copies), indent=2))


def _ranges(count: int) -> OffsetRanges:
    """Ranges of one partition, with gaps between them."""
    return OffsetRanges(OffsetRange("orders", 0, i * 20, i * 20 + 10) for i in range(count))


def _copies(count: int) -> list[Delivery]:
    return [
        Delivery(
            run_id=f"{i:016x}",
            state=EntryState.COMPLETE,
            ranges=OffsetRanges([OffsetRange("orders", 0, i * 10, (i + count // 2) * 10 + 5)]),
            target_topics=("copy",),
            source="source:9092",
            target="target:9092",
        )
        for i in range(count)
    ]


def events_by_expression(count: int) -> Work:
    """The asset events of one copy of as many topics to as many targets, by an expression."""
    return _events(_entry(count, topic_map={}))


def events_by_map(count: int) -> Work:
    """The same by a map of topics."""
    return _events(_entry(count, topic_map={f"source-{i}": f"target-{i}" for i in range(count)}))


def _events(entry: dict[str, Any]) -> Work:
    return lambda: sum(len(json.dumps(own)) for _, own in parts_by_topic(entry))


def _entry(count: int, topic_map: dict[str, str]) -> dict[str, Any]:
    return {
        "version": 1,
        "state": "complete",
        "run_id": "1" * 16,
        "offset_ranges": [f"source-{i}:0:0:100" for i in range(count)],
        "missing_ranges": [],
        "target_topics": [f"target-{i}" for i in range(count)],
        "target_ranges": [OffsetRange(f"target-{i}", 0, 0, 100).to_dict() for i in range(count)],
        "source": "source:9092",
        "target": "target:9092",
        "source_topic_ids": {f"source-{i}": "pvoo7QRrQUqQbTSaHJYXVg" for i in range(count)},
        "target_topic_ids": {f"target-{i}": "pvoo7QRrQUqQbTSaHJYXVg" for i in range(count)},
        **({"topic_map": topic_map} if topic_map else {}),
    }


#: By the name of the curve.
RULES: Mapping[str, Callable[[int], Work]] = {
    "plan of many partitions": plan_of_partitions,
    "plan of many topics, `topic_map`": plan_of_topics,
    "check of a report": check_of_report,
    "ranges less others": ranges_less_others,
    "bytes of the events of a copy, `target_topic_expr`": events_by_expression,
    "bytes of the events of a copy, `topic_map`": events_by_map,
    "bytes of a result": bytes_of_result,
    "bytes of an entry of the ledger": bytes_of_entry,
    "bytes of the largest value of a task's state": largest_state,
    "coverage of copies that overlap": overlapping_copies,
    "bytes of `coverage --json`": coverage_json,
}
