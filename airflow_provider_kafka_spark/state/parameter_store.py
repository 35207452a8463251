"""The parameters of a task's first try, which its retries carry out.

Earlier deliveries belong to these parameters. Otherwise a list made from a set, or a template with the current time,
would make each try a different run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError
from airflow_provider_kafka_spark.state.task_state import TaskState, TryNumbers

_KEY = "kafka_spark_requested"
#: Maximum length of a parameter's value in a log line that compares two of them.
_MAX_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class _Request:
    try_numbers: TryNumbers
    requested: Mapping[str, Any]
    #: The MAC of the item of a mapped task, which may have secrets; None if the item is not known.
    item: str | None


class ParameterStore:
    """The parameters of the first try of this task instance that has submitted a job, as they were rendered then.

    :param task_id: of the operator.
    """

    def __init__(self, context: Mapping[str, Any], task_id: str) -> None:
        self._store = TaskState(context, task_id)
        self._task_id = task_id
        self._try_numbers = TryNumbers.of(context)
        #: What this try resumes.
        self._first: _Request | None = None
        #: The same, or what was submitted before the task was cleared.
        self._earlier: _Request | None = None

    def save(self, requested: Mapping[str, Any], item: Callable[[], str | None]) -> None:
        """Remember them, before anything is submitted.

        :param requested: plain JSON.
        :param item: gives the item of a mapped task, and is asked only by a first try; see :meth:`is_of`.
        """
        if self._first is None:
            given = item()
            mac = None if given is None else self._store.mac(given)
        else:
            mac = self._first.item
        self._store.save(_KEY, _Request(self._try_numbers, requested, mac))

    def is_of(self, item: str | None) -> bool:
        """Whether the try before this one, also before a clear, had this item of the mapped task. No if one of the two
        is not known.

        :param item: as the DAG gives it, before its templates are rendered.
        """
        return item is not None and self._earlier is not None and self._earlier.item == self._store.mac(item)

    def resume(
        self, requested: Callable[[], Mapping[str, Any]], log: Any, *, as_stored: bool = False
    ) -> dict[str, Any]:
        """Parameters by name; empty if nothing was submitted before, or the task was cleared since. Those that have
        changed since then are logged.

        :param requested: gives the parameters of this try.
        :param log: a logger of :mod:`logging`, or Airflow's.
        :param as_stored: this try itself has stored them, before a trigger followed its job.
        :raises InvalidInputError: if this try has called another operator with the same ``task_id``.
        """
        first = self._earlier = self._store.load(_KEY, _Request)
        if first is not None and as_stored:
            # Templates are rendered anew, and a clear of another task counts for the whole DAG run.
            self._first = first
            return dict(first.requested)
        if first is None or self._try_numbers.is_cleared_since(first.try_numbers):
            return {}
        self._first = first
        try:
            now = requested()
            changed = [
                f"{name} was {_shortened(value)}, is now {_shortened(now.get(name))}"
                for name, value in first.requested.items()
                if now.get(name) != value
            ]
        except (KafkaSparkError, AttributeError, TypeError, ValueError) as error:
            changed = [f"they are now malformed ({type(error).__name__}: {error})"]
        if changed and first.try_numbers == self._try_numbers and self._try_numbers.try_number is not None:
            raise InvalidInputError(
                "task_id must be another for each operator that a task calls, such as 'copy_1' and 'copy_2'; got "
                f"{self._task_id!r} a second time in this try, with other parameters. The state for a retry is stored "
                "by task_id. Give each its own."
            )
        if changed:
            log.warning(
                "This retry uses the parameters of the first try of this run, although they have changed since: %s. "
                "Clear the task to make a new plan with the current parameters.",
                "; ".join(changed),
            )
        return dict(first.requested)


def _shortened(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."
