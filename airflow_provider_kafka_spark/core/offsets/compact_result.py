"""Results, asset events and entries of the ledger with thousands of ranges: short to store, whole to read. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.offsets.compact_rows import LEAST, compacted, rows_in

#: Of a result.
_LISTS = ("ranges", "target_ranges", "segments", "missing_ranges")
#: Of an entry of the ledger, as texts.
_TEXTS = ("offset_ranges", "planned_ranges", "missing_ranges", "empty_ranges", "source", "target")
#: Of an entry, where it has what logs had.
_LOG = "log"


def short_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a task returns: lists of a thousand ranges or more are compact."""
    return {name: compacted(value) if name in _LISTS else value for name, value in result.items()}


def whole_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result, or the extra of an asset event, with plain lists, whether they were compact or not.

    :raises OffsetRangeError: if they are malformed.
    """
    return {name: rows_in(value) if name in _LISTS else value for name, value in result.items()}


def short_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the ledger likewise."""

    def short(name: str, value: Any) -> Any:
        if name == _LOG and isinstance(value, Mapping):
            return short_entry(value)
        if name in _TEXTS and isinstance(value, list) and len(value) >= LEAST:
            return compacted(list(map(_row, value)))
        return compacted(value) if name in ("target_ranges", "segments") and isinstance(value, list) else value

    return {name: short(name, value) for name, value in entry.items()}


def _row(text: str) -> dict[str, Any]:
    """A range of an entry, which was checked when it was made."""
    topic, partition, start, end = text.rsplit(":", 3)
    return {"topic": topic, "partition": int(partition), "from_offset": int(start), "until_offset": int(end)}
