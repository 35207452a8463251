"""A job that has no memory left at the same record again is not tried a third time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_kafka_spark.core.errors import JobMemoryError, RepeatedMemoryError
from airflow_provider_kafka_spark.core.spark.tuning import MOST_POLLED, POLLED
from airflow_provider_kafka_spark.state.task_state import TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_kafka_spark.core.wire.protocol import JobRequest

_Job = TypeVar("_Job", bound="JobRequest")
_KEY = "kafka_spark_memory_ended_at"


class MemoryPlace:
    """Where earlier tries of a task had no memory left.

    :param task_id: of the operator.
    """

    def __init__(self, context: Context, task_id: str) -> None:
        self._store = TaskState(context, task_id)

    def careful(self, request: _Job, given: Mapping[str, str]) -> _Job:
        """After such a try, ask the source for one record at a time: that takes less memory, and an error then names
        the record itself, and not the first one of those that were unpacked together.

        :param given: the author's own options of the source.
        """
        if POLLED in given or self._store.get(_KEY) is None:
            return request
        return replace(request, source_options={**request.source_options, POLLED: "1"})

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember where a job within has no memory left.

        :raises RepeatedMemoryError: if an earlier try had none left there.
        """
        try:
            yield
        except JobMemoryError as error:
            if (place := error.place) is not None:
                if _is_near(place, self._store.get(_KEY)):
                    raise RepeatedMemoryError(f"{error} An earlier try ended there too.") from None
                self._store.set(_KEY, place)
            raise


def _is_near(place: str, earlier: str | None) -> bool:
    """Whether a place is among the records that are read together from an earlier place on."""
    if place == earlier or "@" not in place:
        return place == earlier
    partition, _, offset = place.rpartition("@")
    earlier_partition, _, first = (earlier or "").rpartition("@")
    return partition == earlier_partition and 0 <= int(offset) - int(first) < MOST_POLLED
