"""The conditions of sensors, as rules over a broker snapshot: the same on a worker and in the triggerer. No I/O, no
clock.

No state is kept between two evaluations: each uses a new snapshot, so that poking, rescheduling and deferring give the
same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_kafka_spark.core.conditions.group_lag import GroupLag
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.timestamp_reached import TimestampReached
from airflow_provider_kafka_spark.core.errors import ProtocolError

Condition = NewRecords | TimestampReached | GroupLag

_KINDS: Mapping[str, Callable[..., Condition]] = {
    "new_records": NewRecords.parse,
    "timestamp_reached": TimestampReached.parse,
    "group_lag": GroupLag.parse,
}


def parse_condition(value: Mapping[str, Any]) -> Condition:
    """Read back what ``to_json`` gave.

    :raises ProtocolError: if its kind is unknown.
    """
    parameters = dict(value)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ProtocolError(
            f"A condition must be of one of the kinds {', '.join(_KINDS)}; got {kind!r}. Were worker and triggerer "
            "upgraded together?"
        )
    try:
        return _KINDS[kind](**parameters)
    except TypeError as error:
        raise ProtocolError(
            f"A condition of kind {kind!r} has other parameters: {error}. Were worker and triggerer upgraded together?"
        ) from error
