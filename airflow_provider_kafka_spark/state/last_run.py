"""Where ``since="last_run"`` is kept: in an Airflow variable, which people can see, correct and delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from airflow.sdk import Variable

from airflow_provider_kafka_spark.core.conditions.last_run import LastRun
from airflow_provider_kafka_spark.core.errors import ProtocolError

#: Of a variable, in Airflow's database.
_LONGEST_NAME = 250


class LastRunStore:
    """What the runs of a sensor have found.

    :param context: of the task.
    """

    def __init__(self, context: Mapping[str, Any]) -> None:
        ti = context["ti"]
        mapped = [] if ti.map_index is None or ti.map_index < 0 else [str(ti.map_index)]
        #: Name of the variable.
        self.name = variable_name("kafka_spark_last_run", ti.dag_id, ti.task_id, *mapped)
        self.run_id: str = ti.run_id
        #: Whether nothing was stored when it was last loaded.
        self.is_new = False

    def load(self) -> LastRun:
        """:raises ProtocolError: if somebody has changed the variable to what it cannot be."""
        text = Variable.get(self.name, default=None)
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
        Variable.set(self.name, json.dumps(found.to_json()), description='Written by since="last_run".')


def variable_name(*parts: str, spare: int = 0) -> str:
    """The name of a variable of these parts; a long one is cut and ends with a digest of all of it.

    :param spare: characters that are put behind it.
    """
    # Ids may have dots, and no colon.
    name, longest = ":".join(parts), _LONGEST_NAME - spare
    digest = sha256(name.encode()).hexdigest()[:16]
    return name if len(name) <= longest else f"{name[: longest - 17]}.{digest}"
