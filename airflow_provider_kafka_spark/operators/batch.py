"""A bounded copy of topics between a start and an end that are fixed before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from airflow_provider_kafka_spark.clients.edge_timestamps import sample_timestamps
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.core.checks import text_or_none
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.declaration import BATCH, Decides, Declared, names, read, read_in_dag
from airflow_provider_kafka_spark.core.errors import BoundError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.topics.bounds import (
    AtTimestamp,
    Bound,
    Earliest,
    Latest,
    TimeWindow,
    check_samples,
    check_window,
    older_than_window,
    parse_bound,
    parse_timestamp,
)
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.resolve import ResolvedRanges, resolve_window, timestamps_in
from airflow_provider_kafka_spark.core.topics.starts import GroupStart, parse_any_start
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.operators.bounded_copy import BoundedCopyOperator
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.window_cuts import WindowCuts

Timestamp = str | int | datetime
_TIMESTAMP_TYPE = "message.timestamp.type"
_TIMESTAMPS = ("starting_timestamp", "ending_timestamp")


class KafkaToKafkaBatchOperator(BoundedCopyOperator):
    """Copy the records of topics between a start and an end.

    Windows of timestamps are half-open and cut by offset: the first offset at or after the start, up to the first at or
    after the end. So consecutive windows copy every record exactly once, even if timestamps are out of order.

    :param topics: names of topics. (templated)
    :param topic_pattern: a regular expression that matches whole names. (templated)
    :param assign: partitions by topic, ``{"orders": [0, 1]}``; exactly one of the three. (templated)
    :param starting_offsets: ``"earliest"``, offsets as ``{"orders": {"0": 23}}``, what a consumer group has committed,
        ``{"group_id": "billing"}``, or a moment. (templated)
    :param ending_offsets: ``"latest"``, or offsets; exclusive. (templated)
    :param starting_timestamp: aware datetime, ISO 8601 or epoch ms, in place of ``starting_offsets``. (templated)
    :param ending_timestamp: the same for the end, exclusive. (templated)
    :param exact_window: True also leaves out records whose own timestamp is outside of the window; out-of-order records
        may then be in no window. False copies whatever lies between the cuts. By default that is copied unless far more
        of it is outside of the window than inside, which is an error before anything is written. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.bounded_copy.BoundedCopyOperator`.
    """

    _declared: ClassVar[Sequence[Declared]] = (*BoundedCopyOperator._declared, *BATCH)
    template_fields: Sequence[str] = (*names(BATCH), *BoundedCopyOperator.template_fields)

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        topic_pattern: str | None = None,
        assign: dict[str, list[int]] | None = None,
        starting_offsets: str | int | datetime | dict[str, Any] = "earliest",
        ending_offsets: str | dict[str, Any] = "latest",
        starting_timestamp: Timestamp | None = None,
        ending_timestamp: Timestamp | None = None,
        exact_window: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.assign = assign
        self.starting_offsets = starting_offsets
        self.ending_offsets = ending_offsets
        self.starting_timestamp = starting_timestamp
        self.ending_timestamp = ending_timestamp
        self.exact_window = exact_window
        read_in_dag(BATCH, self)
        #: Those that were given; a template that renders one to nothing must not remove the bound.
        self._bounded = frozenset(name for name in _TIMESTAMPS if getattr(self, name) is not None)

    def _own_selection(self) -> dict[str, Any]:
        given = read(BATCH, self, Decides.RECORDS)
        start = parse_any_start(self.starting_offsets, "start")
        window = self._time_window(start)
        if given["exact_window"] and window == TimeWindow(None, None):
            raise BoundError("exact_window=True needs starting_timestamp, ending_timestamp, or both; got neither.")
        return {
            **Selection(given["topics"], given["topic_pattern"], given["assign"]).to_json(),
            "starting_offsets": "earliest" if _moment_of(start) is not None else start.to_json(),
            "ending_offsets": parse_bound(self.ending_offsets, "end").to_json(),
            "starting_timestamp": window.start_ms,
            "ending_timestamp": window.end_ms,
            "exact_window": given["exact_window"],
        }

    def _time_window(self, start: Bound | GroupStart) -> TimeWindow:
        starting, ending = (self._timestamp(name) for name in _TIMESTAMPS)
        moment = _moment_of(start)
        if starting is not None and start != Bound.everywhere(Earliest()):
            raise _contradiction("starting")
        return TimeWindow(starting if moment is None else moment, ending)

    def _timestamp(self, name: str) -> int | None:
        value = getattr(self, name)
        return None if value is None and name not in self._bounded else _read_timestamp(value, name)

    def _transform(self, parameters: CopyParameters) -> Transform:
        records = parameters.selection
        if not records["exact_window"]:
            return parameters.transform
        start_ms, end_ms = records["starting_timestamp"], records["ending_timestamp"]
        return replace(parameters.transform, window_start_ms=start_ms, window_end_ms=end_ms)

    def _resolve(self, task_try: TaskTry) -> tuple[ResolvedRanges, ClusterState]:
        records, hook = task_try.parameters.selection, task_try.source
        selection = Selection(records["topics"], records["topic_pattern"], records["assign"])
        window = TimeWindow(records["starting_timestamp"], records["ending_timestamp"])
        start = parse_any_start(records["starting_offsets"], "start")
        ending = parse_bound(records["ending_offsets"], "end")
        if window.end_ms is not None:
            if ending != Bound.everywhere(Latest()):
                raise _contradiction("ending")
            ending = Bound.everywhere(AtTimestamp(window.end_ms))
        existing = hook.topic_names(records["topics"] or records["assign"] or (), "READ")
        names = selection.topic_names(existing)
        check_topics(hook, names, "READ")
        starting = hook.start_of(start, names, selection) if isinstance(start, GroupStart) else start
        if window.start_ms is not None:
            starting = Bound.everywhere(AtTimestamp(window.start_ms))
        cluster = hook.state(names, timestamps_in(starting, ending), only=selection.assigned)
        check_window(window, cluster.now_ms)
        if moments := [at for at in (window.start_ms, window.end_ms) if at is not None]:
            read = [task_try.parameters.source_conn_id, selection.to_json()]
            cuts = WindowCuts(task_try.context, self.task_id, read, hook.cuts_of)
            cluster = cuts.decide(cluster, selection.partitions(cluster), moments)
        resolved = resolve_window(selection, starting, ending, cluster, task_try.rules)
        resolved = replace(resolved, window=window if moments and not records["exact_window"] else None)
        if window.start_ms is None or records["exact_window"]:
            return resolved, cluster
        kept = {name for name in names if cluster.topic(name).config.get(_TIMESTAMP_TYPE) != "LogAppendTime"}
        samples = sample_timestamps(hook, OffsetRanges(r for r in resolved.ranges if r.topic in kept))
        if records["exact_window"] is None:
            check_samples(samples, window)
        return replace(resolved, warnings=(*resolved.warnings, *older_than_window(samples, window))), cluster


def _contradiction(name: str) -> BoundError:
    return BoundError(
        f"{name}_timestamp and {name}_offsets contradict each other (Spark would silently ignore one of them); give "
        "one of the two."
    )


def _moment_of(start: Bound | GroupStart) -> int | None:
    """In ms since 1970, if it is one."""
    default = start.default if isinstance(start, Bound) else None
    return default.epoch_ms if isinstance(default, AtTimestamp) else None


def _read_timestamp(value: Timestamp | None, name: str) -> int:
    if value is None or text_or_none(value) is None:
        raise BoundError(
            f"{name} must be a moment; its template gave {value!r}. If it comes from a form, fill in the field. If it "
            "is of the data interval: this run has no data interval. Schedule the DAG with CronDataIntervalTimetable "
            "or CronTriggerTimetable(..., interval=...), or start a manual run with a logical date. For a copy without "
            f"this bound, leave {name} out of the DAG."
        )
    return parse_timestamp(value, name)
