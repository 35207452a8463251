"""Schema ids of Confluent's wire format (a zero byte, then the id in four bytes) that a copy rewrites. No I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from airflow_provider_kafka_spark.core.checks import whole_number
from airflow_provider_kafka_spark.core.errors import OptionError

_SIDES = ("keys", "values")
MAX_IDS = 10_000
_EXAMPLE = "schema_id_map={3: 17}, or {'keys': {5: 9}, 'values': {3: 17}}"
_LARGEST = 2**31 - 1


def check_schema_id_map(value: object) -> dict[str, dict[str, int]]:
    """The new id of each id, for keys and for values; empty for no map.

    >>> check_schema_id_map({3: 17})
    {'values': {'3': 17}}

    :raises OptionError: if it is no mapping of 1 to 10,000 ids to ids.
    """
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise OptionError(f"schema_id_map must map ids to ids, such as {_EXAMPLE}; got {reprlib.repr(value)}.")
    sides = value if value.keys() <= set(_SIDES) else {"values": value}
    return {side: _checked(sides[side], side) for side in _SIDES if side in sides}


def _checked(ids: object, side: str) -> dict[str, int]:
    if not isinstance(ids, Mapping) or not 0 < len(ids) <= MAX_IDS:
        raise OptionError(
            f"schema_id_map must map 1 to {MAX_IDS:,} ids of {side} to ids, such as {_EXAMPLE}; got "
            f"{reprlib.repr(ids)}."
        )
    found = {
        whole_number(old, f"An id of {side} in schema_id_map", minimum=0): whole_number(
            new, f"schema_id_map of {side}, id {old!r},", minimum=0
        )
        for old, new in ids.items()
    }
    if too_large := [number for pair in found.items() for number in pair if number > _LARGEST]:
        raise OptionError(f"An id in schema_id_map must be at most {_LARGEST:,}; got {too_large[0]:,}.")
    return {str(old): new for old, new in sorted(found.items())}
