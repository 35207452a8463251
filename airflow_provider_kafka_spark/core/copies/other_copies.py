"""What other runs have copied to the same target since a run was due. No I/O.

The ledger says where to look, and the target what is there: docs/explanation/run-protocol.md, "Runs that waited".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from airflow_provider_kafka_spark.core.copies.identity import digest_of
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.ledger.entry import Delivery, TaskRun, entries_in
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.pieces import MAX_RANGES
from airflow_provider_kafka_spark.core.topics.known_topics import standard_id
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.protocol import Transform

#: Of an entry, the form of its records.
FORM = "form"


def form_of(transform: Transform) -> str:
    """Identifies how records are changed: two copies with one form write the same for a record."""
    values = encode(transform)
    return digest_of({name: values[name] for name in Transform.form()})


@dataclass(frozen=True, slots=True)
class OtherCopy:
    """What an entry of another DAG run says of the offsets of a plan.

    :param by: its task.
    :param run_id: in the provenance headers of its records.
    :param ranges: the offsets of the plan.
    :param written: where the target has them, among others.
    """

    by: TaskRun
    run_id: str
    ranges: OffsetRanges
    written: OffsetRanges


def other_copies(events: Iterable[Any], plan: ReplayPlan, transform: Transform, own: TaskRun) -> list[OtherCopy]:
    """The entries of other tasks, in other DAG runs, that have copied offsets of a plan to where it copies them.

    Runs of one task copy what their parameters say, be it one more time. What is not said counts as not copied: an id
    that brokers do not return, an entry of another version, of a run with a filter, or of records of another form.

    :param events: asset events of the ledger.
    :param own: the task that has the plan.
    """
    if not plan.source_cluster_id or not plan.target_cluster_id or transform.reject_when is not None:
        return []
    routes, form, planned = plan.target.routes(r.topic for r in plan.ranges), form_of(transform), plan.ranges.by_topic()
    found = list[OtherCopy]()
    for event in events:
        by = TaskRun(event.source_dag_id or "", event.source_run_id or "", event.source_task_id or "")
        is_own_run = (by.dag_id, by.run_id) == (own.dag_id, own.run_id)
        is_own_task = (by.dag_id, by.task_id) == (own.dag_id, own.task_id)
        if not by.task_id or is_own_run or is_own_task:
            continue
        for entry in entries_in(event.extra):
            delivery = Delivery.parse(entry, by)
            if delivery is None or not isinstance(entry, Mapping) or entry.get(FORM) != form:
                continue
            copied = delivery.ranges.by_topic()
            both = {t: both for t in planned.keys() & copied.keys() if (both := planned[t].intersect(copied[t]))}
            if both:
                found += _copies(delivery, entry, plan, routes, both)
    return found


def _copies(
    delivery: Delivery,
    entry: Mapping[str, Any],
    plan: ReplayPlan,
    routes: Mapping[str, Iterable[str]],
    both: Mapping[str, OffsetRanges],
) -> Iterator[OtherCopy]:
    """What an entry says of each target.

    :param routes: the source topics of each target.
    :param both: what plan and entry have, by source topic.
    """
    same_clusters = (plan.source_cluster_id, plan.target_cluster_id) == (
        delivery.source_cluster_id,
        delivery.target_cluster_id,
    )
    if delivery.filtered or not same_clusters:
        return
    try:
        written = OffsetRanges.parse(rows_in(entry.get("target_ranges", []), MAX_RANGES), merge_overlaps=True)
    except KafkaSparkError:
        return
    by_target = written.without_empty().by_topic()
    for target in routes.keys() & by_target.keys():
        now, then = (standard_id(ids.get(target, "")) for ids in (plan.target_ids, delivery.target_ids))
        topics = [topic for topic in routes[target] if topic in both and _is_same(topic, target, delivery, plan)]
        if now and then == now and topics:
            yield OtherCopy(
                delivery.by, delivery.run_id, OffsetRanges(r for t in topics for r in both[t]), by_target[target]
            )


def _is_same(topic: str, target: str, delivery: Delivery, plan: ReplayPlan) -> bool:
    topic_id = plan.topic_ids.get(topic)
    return bool(topic_id) and (delivery.topic_ids.get(topic), delivery.topic_map.get(topic, target)) == (
        topic_id,
        target,
    )


def ranges_of_offsets(found: Mapping[TopicPartition, Iterable[int]]) -> OffsetRanges:
    """
    >>> ranges_of_offsets({TopicPartition("a", 0): [2, 7, 1]}).format()
    ['a:0:1:3', 'a:0:7:8']
    """
    return OffsetRanges(r for p, offsets in found.items() for r in _ranges_of(p, sorted(offsets)))


def left_of(planned: OffsetRanges, there: OffsetRanges) -> OffsetRanges:
    """What is to copy of planned ranges. A partition of which nothing is left stays, with an empty range.

    >>> left_of(OffsetRanges.parse(["a:0:0:9", "a:1:4:6"]), OffsetRanges.parse(["a:0:1:3", "a:1:4:6"])).format()
    ['a:0:0:1', 'a:0:3:9', 'a:1:4:4']
    """
    left = planned.subtract(there)
    empty = {r.topic_partition: OffsetRange(r.topic, r.partition, r.from_offset, r.from_offset) for r in planned}
    return OffsetRanges([*left, *(r for p, r in empty.items() if p not in left.topic_partitions)])


def _ranges_of(p: TopicPartition, offsets: list[int]) -> Iterator[OffsetRange]:
    for _, group in groupby(enumerate(offsets), key=lambda item: item[1] - item[0]):
        numbers = [offset for _, offset in group]
        yield OffsetRange(p.topic, p.partition, numbers[0], numbers[-1] + 1)
