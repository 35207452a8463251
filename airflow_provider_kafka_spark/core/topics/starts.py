"""Where a copy starts, in the forms that ``since`` of sensors takes too. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.checks import check_group_id, read_json
from airflow_provider_kafka_spark.core.errors import BoundError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import (
    AtOffset,
    AtTimestamp,
    Bound,
    Earliest,
    Side,
    parse_bound,
    parse_timestamp,
)

_PREFIX = "group:"


@dataclass(frozen=True, slots=True)
class GroupStart:
    """At what a consumer group has committed, when the copy is planned."""

    group_id: str

    def to_json(self) -> dict[str, str]:
        return {"group_id": self.group_id}

    def bound(self, committed: Mapping[TopicPartition, int], name: str = "starting_offsets") -> Bound:
        """:param committed: by the group, of the partitions that are read; others start at their beginning.
        :param name: what a message calls it.
        :raises BoundError: if there is none.
        """
        if not committed:
            raise BoundError(
                f"{name} must name a consumer group that has committed offsets of what is read; "
                f"{self.group_id!r} has not. Correct the name, or start somewhere else, such as at 'earliest'."
            )
        return Bound(Earliest(), {p: AtOffset(offset) for p, offset in committed.items()})


def group_named(text: str) -> str | None:
    """The consumer group that ``"group:NAME"`` names; None for other text.

    :raises InvalidInputError: if it is no name of a group.
    """
    return check_group_id(text.removeprefix(_PREFIX), "group_id") if text.startswith(_PREFIX) else None


def named_form(value: Mapping[Any, Any]) -> tuple[Any, Any] | None:
    """The key and the value of a mapping that has one form by its name; None if it is offsets by topic.

    >>> named_form({"group_id": "billing"}), named_form({"offsets": {"orders": {"0": 23}}})
    (('group_id', 'billing'), ('offsets', {'orders': {'0': 23}}))
    >>> named_form({"offsets": {"0": 23}})
    """
    if len(value) != 1:
        return None
    ((key, inner),) = value.items()
    # A topic may have one of these names; its value is a mapping of partitions.
    if not isinstance(inner, Mapping) or (key == "offsets" and all(isinstance(v, Mapping) for v in inner.values())):
        return key, inner
    return None


def parse_any_start(value: object, side: Side = "stream start", name: str = "starting_offsets") -> Bound | GroupStart:
    """Read a start in any of its forms; ``to_json`` of what is returned is read back.

    >>> parse_any_start("group:billing", "start")
    GroupStart(group_id='billing')
    >>> parse_any_start({"timestamp": "2026-11-20T10:00:00Z"}, "start").to_json()
    1795168800000
    >>> parse_any_start("latest").default
    Latest()

    :param value: ``"earliest"``; ``"latest"``, for a stream; offsets as Spark has them; a moment; ``{"offsets": ...}``,
        ``{"timestamp": ...}``, ``{"group_id": ...}``; ``"group:NAME"``; a mapping as JSON text.
    :param side: ``start`` of a batch, or ``stream start``.
    :param name: what a message calls it.
    :raises BoundError: if it is none of them.
    """
    if isinstance(value, str):
        text = value.strip()
        if text == "last_run":
            raise BoundError(
                f"{name} must not be 'last_run': KafkaToKafkaAvailableNowOperator goes on where its last run ended, by "
                "its checkpoint, and KafkaNewRecordsSensor(since='last_run') finds what is new for a replay."
            )
        if (group := group_named(text)) is not None:
            return GroupStart(group)
        if text[:1] == "{":
            value = _json_of(text, name)
    if isinstance(value, Mapping) and (form := named_form(value)) is not None:
        return _named(*form, side, name)
    if isinstance(value, (Mapping, Bound)) or _is_word(value):
        return parse_bound(value, side, name)
    try:
        return Bound.everywhere(AtTimestamp(parse_timestamp(value, name)))
    except BoundError as error:
        words = "'earliest'" if side == "start" else "'earliest', 'latest'"
        raise BoundError(
            f"{name} must be {words}, offsets such as {{'orders': {{'0': 23}}}}, {{'group_id': 'billing'}}, or a "
            f"moment such as '2026-11-20T10:00:00Z'; got {value!r}. As a moment: {error}"
        ) from error


def _named(key: Any, inner: object, side: Side, name: str) -> Bound | GroupStart:
    if key == "group_id":
        return GroupStart(check_group_id(inner, f"{name}['group_id']"))
    if key == "timestamp":
        return Bound.everywhere(AtTimestamp(parse_timestamp(inner, f"{name}['timestamp']")))
    if key == "offsets" and isinstance(inner, Mapping):
        return parse_bound(inner, side, name)
    if key == "offsets" and _is_word(inner):
        return parse_any_start(inner, side, name)
    return parse_bound({key: inner}, side, name)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() in ("earliest", "latest")


def _json_of(text: str, name: str) -> object:
    try:
        return read_json(text, name)
    except (ValueError, RecursionError) as error:
        raise BoundError(
            f'{name} must be JSON where it begins with a bracket, such as \'{{"orders": {{"0": 23}}}}\'; got '
            f"{text!r}: {error}."
        ) from error
