"""What other runs have copied while this one waited: the ledger says where to look, and the target what is there."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from airflow_provider_kafka_spark.clients.record_headers import headers_of
from airflow_provider_kafka_spark.clients.record_reader import read_ranges
from airflow_provider_kafka_spark.core.checks import COPY_AGAIN, FAIL_ON_RERUN
from airflow_provider_kafka_spark.core.copies.other_copies import (
    OtherCopy,
    left_of,
    other_copies,
    ranges_of_offsets,
)
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.errors import AlreadyDeliveredError
from airflow_provider_kafka_spark.core.ledger.entry import TaskRun
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.provenance import provenance_of
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.operators.asset_events import COPIES, newest
from airflow_provider_kafka_spark.operators.task_try import TaskTry

log = logging.getLogger(__name__)

_POLICY = "cleanup.policy"
#: Offsets of the target that are read.
_MOST_OFFSETS = 1_000_000
#: How long the target is read.
_MOST_SECONDS = 600.0
#: Ranges that a plan may have more for what is left between records that are there.
_MOST_PIECES = 10_000


def left_to_copy(
    task_try: TaskTry, plan: ReplayPlan, target: ClusterState, on_rerun: str, *, is_clear: bool = False
) -> tuple[OffsetRanges, str] | None:
    """What of a plan is left to copy, and a warning that says why; None if that is all.

    :param target: of the plan.
    :param on_rerun: of the task.
    :param is_clear: the task has delivered before, and what it knows of that counts where it cannot look.
    :raises AlreadyDeliveredError: if another run says that it has copied some of it, and ``on_rerun="fail"``, or it
        cannot be looked for in the target.
    :raises BrokerError: if the target's brokers do not answer.
    """
    try:
        return _left(task_try, plan, target, on_rerun)
    except AlreadyDeliveredError:
        if is_clear:
            return None
        raise


def _left(task_try: TaskTry, plan: ReplayPlan, target: ClusterState, on_rerun: str) -> tuple[OffsetRanges, str] | None:
    due = getattr(task_try.context.get("dag_run"), "run_after", None)
    if due is None or on_rerun == COPY_AGAIN or plan.is_empty:
        return None
    ti, transform = task_try.context["ti"], task_try.parameters.transform
    copies = other_copies(_events_since(due), plan, transform, TaskRun(ti.dag_id, ti.run_id, ti.task_id))
    if not copies:
        return None
    if on_rerun == FAIL_ON_RERUN:
        raise _refused(copies, "on_rerun='fail' permits no second copy")
    if not transform.provenance.in_headers:
        raise _refused(copies, "without provenance='headers' nothing tells which records are in the target")
    if compacted := [name for name in plan.target_topics if "compact" in target.topic(name).config.get(_POLICY, "")]:
        raise _refused(copies, f"{shortened(compacted)} is compacted, so nothing tells which records were in it")
    there = _found(task_try, copies, target)
    if not there:
        log.warning("%s says that it has copied offsets of this plan; the target has none of them.", _by(copies))
        return None
    left = left_of(plan.ranges, there)
    if len(left) > len(plan.ranges) + _MOST_PIECES:
        raise _refused(copies, f"what is left would be {len(left):,} ranges")
    return left, (
        f"{there.total:,} of {plan.planned_records:,} offsets are in the target already: since this run was due, "
        f"{_by(copies)} has copied them. They are left out."
    )


def _events_since(due: Any) -> Sequence[Any]:
    from airflow.sdk.execution_time.context import InletEventsAccessors

    try:
        return list(newest(InletEventsAccessors([COPIES])[COPIES].after(due.isoformat())))
    except Exception as error:  # noqa: BLE001 - what is not known is copied
        log.warning(
            "What other runs have copied since this one was due is not known, since the ledger could not be read: %r. "
            "Nothing is left out.",
            error,
        )
        return ()


def _found(task_try: TaskTry, copies: Sequence[OtherCopy], target: ClusterState) -> OffsetRanges:
    """What of the copies is in the target: offsets of the source."""
    written = OffsetRanges().merge(part for copy in copies for r in copy.written for part in _in_log(r, target))
    if written.total > _MOST_OFFSETS:
        raise _refused(copies, f"there are {written.total:,} offsets of the target to look at, which would take long")
    by_run: dict[str, dict[tuple[str, int], set[int]]] = {copy.run_id: defaultdict(set) for copy in copies}
    unread = 0
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with closing(task_try.sink.new_consumer(**settings)) as consumer:
        until = time.monotonic() + _MOST_SECONDS
        for _, _, message in read_ranges(task_try.sink, consumer, written, "looking for what other runs have copied"):
            if time.monotonic() > until:
                raise _refused(copies, f"the target could not be read within {_MOST_SECONDS:,.0f} s")
            headers = headers_of(message)
            unread += headers is None
            found = provenance_of(headers)
            if found is not None and found.run_id in by_run:
                by_run[found.run_id][found.topic, found.partition].add(found.offset)
    there = OffsetRanges()
    for copy in copies:
        of_run = by_run[copy.run_id]
        offsets = {p: of_run[p.topic, p.partition] for p in copy.ranges.topic_partitions}
        there = there.merge(copy.ranges.intersect(ranges_of_offsets(offsets)))
    if unread and any(copy.ranges.subtract(there) for copy in copies):
        raise _refused(
            copies, f"{unread:,} records there have a header whose name is not UTF-8, and nothing tells whose they are"
        )
    return there


def _in_log(r: OffsetRange, target: ClusterState) -> Sequence[OffsetRange]:
    partitions = target.topic(r.topic).partitions
    if r.partition not in partitions:
        return ()
    state = partitions[r.partition]
    start = max(r.from_offset, state.log_start)
    until = min(r.until_offset, state.last_stable, state.high_watermark)
    return [OffsetRange(r.topic, r.partition, start, until)] if start < until else ()


def _refused(copies: Sequence[OtherCopy], why: str) -> AlreadyDeliveredError:
    count = OffsetRanges().merge(r for copy in copies for r in copy.ranges).total
    return AlreadyDeliveredError(
        f"No other run may have copied the same while this one waited; {_by(copies)} has copied {count:,} offsets of "
        f"this plan since this run was due, and {why}. Nothing was started. Mark the task as success if nothing is "
        "missing, or pass on_rerun='copy_again' to copy all."
    )


def _by(copies: Sequence[OtherCopy]) -> str:
    return shortened(sorted({str(copy.by) for copy in copies}))
