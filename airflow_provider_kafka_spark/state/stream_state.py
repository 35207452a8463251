"""The state that a task of a stream keeps between its tries; the checkpoint has only where the stream stands now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.offsets.compact_result import short_result, whole_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.runs.run_protocol import next_number
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.wire.protocol import StreamRequest
from airflow_provider_kafka_spark.state.task_state import STREAM_KEY, TaskState, TryNumbers

_DEFERRED_KEY = "kafka_spark_deferred_stream"


@dataclass(frozen=True, slots=True)
class _StoredStream:
    """Where a task instance began.

    :param ranges: of the first try, one for each partition.
    :param first_batch: number of the first batch that it could finish.
    :param rejected: a report of it did not prove the delivery.
    """

    try_numbers: TryNumbers
    stream_id: str
    ranges: OffsetRanges
    first_batch: int
    submission: int = 0
    untrusted_until: int = 0
    result: dict[str, Any] | None = None
    succeeded: bool = False
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class DeferredStream:
    """The job of a stream that a trigger follows: what was planned, for the worker that collects its report.

    :param submission: its number.
    :param run_id: of what it finishes first; as ``PlannedCopy`` has it.
    """

    remote: RemoteJob
    submission: int
    run_id: str
    stream_plan: StreamPlan
    plan: ReplayPlan
    stream: StreamRequest


class StreamRunStore:
    """Where this task instance began in a stream; the checkpoint has only where the stream stands now.

    A try that failed may have finished batches, which the next try does not read again. The result and the asset event
    include them. Other DAG runs may have finished some too, so the notes beside the batches say which are meant.

    :param task_id: of the operator.
    """

    def __init__(self, context: Mapping[str, Any], task_id: str) -> None:
        self._store = TaskState(context, task_id)
        self._try_numbers = TryNumbers.of(context)
        stored = self._store.load(STREAM_KEY, _StoredStream)
        self._stored = None if stored is None or stored.succeeded else stored

    @property
    def result(self) -> dict[str, Any] | None:
        """Of the try that delivered all, if this one is a retry of it."""
        stored = self._stored
        if stored is None or stored.result is None or not self._try_numbers.is_retry_of(stored.try_numbers):
            return None
        return whole_result(stored.result)

    def batches_before(self, stream: StreamRequest) -> range:
        """The batches that were finished, by whichever task, since this task instance first submitted the stream or
        last succeeded.

        :param stream: of this try.
        """
        stored = self._of_stream(stream.stream_id)
        return range(0) if stored is None else range(stored.first_batch, stream.first_batch)

    def passed_before(self, stream: StreamRequest) -> OffsetRanges:
        """Where the stream has gone in the meantime."""
        stored = self._of_stream(stream.stream_id)
        first = {} if stored is None else {r.topic_partition: r.from_offset for r in stored.ranges}
        starts = ((r, first.get(r.topic_partition, r.from_offset)) for r in stream.planned)
        return OffsetRanges(OffsetRange(r.topic, r.partition, f, r.from_offset) for r, f in starts if f < r.from_offset)

    def submitting(self, stream: StreamRequest, now_ms: int, delivery: str, known_number: int) -> tuple[int, int]:
        """Remember where the stream stands, and the number of the submission, before anything is written.

        :param known_number: the highest one that is known, apart from that of the state.
        :return: the number, and up to which one committed progress does not count.
        """
        stored = self._of_stream(stream.stream_id) or _StoredStream(
            self._try_numbers, stream.stream_id, stream.planned, stream.first_batch
        )
        number = next_number(max(stored.submission, known_number), now_ms)
        untrusted = stored.untrusted_until if delivery == EXACTLY_ONCE else number
        self._save(replace(stored, submission=number, untrusted_until=untrusted))
        return number, stored.untrusted_until

    def distrusted(self) -> None:
        """Remember that the report did not prove the delivery, so that the next try looks at the target itself."""
        if self._stored is not None:
            self._save(replace(self._stored, untrusted_until=self._stored.submission, rejected=True))

    def is_rejected(self, stream: StreamRequest) -> bool:
        """Whether a report of this task did not prove the delivery since the task last succeeded."""
        stored = self._of_stream(stream.stream_id)
        return stored is not None and stored.rejected

    @property
    def deferred(self) -> DeferredStream | None:
        """What :meth:`deferring` stored."""
        return self._store.load(_DEFERRED_KEY, DeferredStream)

    def deferring(self, job: DeferredStream) -> None:
        """Remember a job that is about to be submitted, and that a trigger will follow."""
        self._store.save(_DEFERRED_KEY, job)

    def finished(self, result: dict[str, Any]) -> None:
        """Remember that all was delivered, and the result for a retry that has nothing else to do."""
        if self._stored is not None:
            self._save(replace(self._stored, try_numbers=self._try_numbers, result=short_result(result)))

    def _of_stream(self, stream_id: str) -> _StoredStream | None:
        return self._stored if self._stored is not None and self._stored.stream_id == stream_id else None

    def _save(self, stored: _StoredStream) -> None:
        self._stored = stored
        self._store.save(STREAM_KEY, stored)
