"""Where ``since="last_run"`` is kept: in an Airflow variable, which people can see, correct and delete."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import ConditionResult
from airflow_provider_kafka_spark.core.conditions.last_run import LastRun
from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.state import variables

#: Of a variable, in Airflow's database.
_LONGEST_NAME = 250
_LONGEST_DESCRIPTION = 500


class LastRunStore:
    """What the runs of a sensor have found.

    :param context: of the task.
    :param watched: the topics, as plain JSON. It is by them that a mapped task is known: its map index is only a place
        in a list, which may change.
    """

    def __init__(self, context: Mapping[str, Any], watched: Mapping[str, Any]) -> None:
        ti = context["ti"]
        text = json.dumps(watched, sort_keys=True)
        mapped = [] if ti.map_index is None or ti.map_index < 0 else [_digest(text)]
        #: Name of the variable.
        self.name = variable_name("kafka_spark_last_run", ti.dag_id, ti.task_id, *mapped)
        self._description = f'Written by since="last_run", for {text}.'[:_LONGEST_DESCRIPTION]
        self.run_id: str = ti.run_id
        #: Whether nothing was stored when it was last loaded.
        self.is_new = False

    def load(self) -> LastRun:
        """:raises ProtocolError: if somebody has changed the variable to what it cannot be.
        :raises AirflowApiError: if Airflow does not say what it has.
        """
        text = variables.read(self.name)
        self.is_new = text is None
        if text is None:
            return LastRun()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ProtocolError(
                f"The variable {self.name} must be JSON. Correct or delete it; without it the next run begins anew."
            ) from None
        return LastRun.from_json(value, self.name)

    def save(self, found: LastRun) -> None:
        variables.write(self.name, json.dumps(found.to_json()), self._description)

    def add(self, result: ConditionResult) -> None:
        """What this run has found.

        :raises ConcurrentRunsError: if another run has found some of it meanwhile.
        """
        started = time.monotonic()
        self.save(self.load().after(self.run_id, result))
        # Also with max_active_runs=1: Airflow counts the runs of a backfill apart from the others.
        variables.settle(started, "A run that looked meanwhile may have found the same records: set max_active_runs=1.")
        self.load().check_has(self.run_id)


def variable_name(*parts: str, spare: int = 0) -> str:
    """The name of a variable of these parts; a long one is cut and ends with a digest of all of it.

    :param spare: characters that are put after it.
    """
    # Ids may have dots, and no colon.
    name, longest = ":".join(parts), _LONGEST_NAME - spare
    return name if len(name) <= longest else f"{name[: longest - 17]}.{_digest(name)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
