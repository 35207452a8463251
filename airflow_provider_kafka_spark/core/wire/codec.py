"""Dataclasses as plain JSON, and back by their annotations: the rule for what crosses a process border. No I/O.

An object has exactly the fields of its class, and at the top perhaps a version. Nothing is guessed: whatever else is
found is an error that names the place, and shows no text of what was read, which may be secret.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from airflow_provider_kafka_spark.core.errors import KafkaSparkError, ProtocolError
from airflow_provider_kafka_spark.core.offsets.compact_rows import LEAST, compacted, rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import MAX_OFFSET, OffsetRanges, TopicPartition, by_topic

#: Metadata of a field whose numbers begin at -1; those of others begin at 0.
FROM_MINUS_ONE = {"minimum": -1}
_DESCRIBED = {bool: "a boolean", dict: "an object", float: "a number", int: "an integer", list: "a list", str: "text"}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")

T = TypeVar("T")


def encode(value: object, version: int | None = None) -> dict[str, Any]:
    """A dataclass as plain JSON; :func:`decode` reads it back. Offsets by partition have Spark's form, and a compact
    one if they are a thousand or more.

    >>> encode({TopicPartition("orders", 0): 23})
    {'orders': {'0': 23}}
    """
    plain: dict[str, Any] = _encode(value)
    return plain if version is None else {"version": version, **plain}


def decode(kind: type[T], value: object, *, version: int | None = None, name: str = "", remedy: str = "") -> T:
    """Read what :func:`encode` gave.

    :param kind: a dataclass, or what its fields may have: numbers, text, enums, ``X | None``, ``tuple[X, ...]``,
        mappings, :class:`OffsetRanges` and ``Any``.
    :param version: what the object must have; None for an object without a version.
    :param name: what the message calls it.
    :param remedy: the end of the message.
    :raises ProtocolError: naming the field, what it must be, and what was got.
    """
    name = name or kind.__name__
    try:
        if version is not None:
            found = value.get("version") if isinstance(value, dict) else type(value).__name__
            if not isinstance(value, dict) or type(found) is not int or found != version:
                raise ProtocolError(f"{name} must be of version {version}; got {reprlib.repr(found)}.")
            value = {key: item for key, item in value.items() if key != "version"}
        read: T = _decode(kind, value, name)
        return read
    except ProtocolError as error:
        raise ProtocolError(f"{error} {remedy}".strip()) from None


def decode_text(kind: type[T], text: str, *, version: int | None = None, name: str = "", remedy: str = "") -> T:
    """As :func:`decode`, of JSON text."""
    name = name or kind.__name__
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise ProtocolError(
            f"{name} must be JSON; reading it failed{place} of {len(text)}: it may be cut off. {remedy}".strip()
        ) from None
    return decode(kind, value, version=version, name=name, remedy=remedy)


def _encode(value: Any) -> Any:
    if isinstance(value, OffsetRanges):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TopicPartition):
        return value._asdict()
    if is_dataclass(value):
        return {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        first = next(iter(value), None)
        if len(value) >= LEAST and isinstance(first, (int, TopicPartition)):
            short = _compact(value)
            if isinstance(short, dict):
                return short
        if isinstance(first, TopicPartition):
            return by_topic(value)
        return {str(key): _encode(item) for key, item in value.items()}
    return [_encode(item) for item in value] if isinstance(value, (list, tuple)) else value


def _compact(offsets: Mapping[Any, Any]) -> list[Any] | dict[str, Any]:
    """Thousands of offsets by partition, each as the range in front of it; a list where some are none."""
    if any(type(offset) is not int or offset < 0 for offset in offsets.values()):
        return []
    places = ((("", at) if type(at) is int else (at.topic, at.partition), offset) for at, offset in offsets.items())
    return compacted(
        [{"topic": topic, "partition": p, "from_offset": 0, "until_offset": offset} for (topic, p), offset in places]
    )


def _decode(kind: Any, value: Any, name: str, minimum: int = 0) -> Any:
    if kind is Any:
        return value
    if kind is OffsetRanges:
        ranges = value if isinstance(value, dict) else _decode(tuple[str, ...], value, name)
        return _made(name, OffsetRanges.parse, ranges)
    if is_dataclass(kind) or kind is TopicPartition:
        return _decode_object(kind, value, name)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(kind, value, name)
    inner = get_args(kind)
    if not inner:
        return _checked(kind, value, name, minimum)
    if isinstance(kind, UnionType):
        return None if value is None and NoneType in inner else _decode(inner[0], value, name, minimum)
    if get_origin(kind) is tuple:
        return tuple(_decode(inner[0], item, f"{name}[{i}]") for i, item in enumerate(_checked(list, value, name)))
    is_of_offsets = inner[0] in (int, TopicPartition) and inner[1] is int
    if is_of_offsets and isinstance(value, dict) and type(value.get("compact")) is int:
        # No topic has a number for its partitions.
        rows = _made(name, rows_in, value)
        places = ((row["topic"], row["partition"], row["until_offset"]) for row in rows)
        return {p if inner[0] is int else TopicPartition(topic, p): offset for topic, p, offset in places}
    if inner[0] is TopicPartition:
        return {
            _made(name, TopicPartition, topic, number): item
            for topic, by_number in _decode(dict[str, dict[int, int]], value, name).items()
            for number, item in by_number.items()
        }
    return {
        _key(inner[0], key, name): _decode(inner[1], item, f"{name}[{reprlib.repr(key)}]")
        for key, item in _checked(dict, value, name).items()
    }


def _choice(kind: type[Enum], value: Any, name: str) -> Any:
    found = [choice for choice in kind if choice.value == value]
    if not found:
        raise ProtocolError(
            f"{name} must be one of {', '.join(repr(choice.value) for choice in kind)}; got another value."
        )
    return found[0]


def _decode_object(kind: Any, value: Any, name: str) -> Any:
    types = _types_of(kind)
    value = _checked(dict, value, name)
    if value.keys() != types.keys():
        unknown, missing = sorted(value.keys() - types.keys()), sorted(types.keys() - value.keys())
        raise ProtocolError(
            f"{name} must have the fields of a {kind.__name__}; it has unknown keys {reprlib.repr(unknown)} and lacks "
            f"{reprlib.repr(missing)}."
        )
    read = {field: _decode(of, value[field], f"{name}.{field}", minimum) for field, (of, minimum) in types.items()}
    return _made(name, lambda: kind(**read))


@cache
def _types_of(kind: Any) -> dict[str, tuple[Any, int]]:
    hints = get_type_hints(kind)
    if kind is TopicPartition:
        return {name: (of, 0) for name, of in hints.items()}
    return {f.name: (hints[f.name], f.metadata.get("minimum", 0)) for f in fields(kind)}


def _checked(kind: Any, value: Any, name: str, minimum: int = 0) -> Any:
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ProtocolError(f"{name} must be {_DESCRIBED[kind]}; got {type(value).__name__}.")
    # NaN is in no range.
    if kind in (int, float) and not minimum <= value <= MAX_OFFSET:
        raise ProtocolError(
            f"{name} must be {_DESCRIBED[kind]} from {minimum} to {MAX_OFFSET}; got {reprlib.repr(value)}."
        )
    return value


def _key(kind: Any, key: str, name: str) -> Any:
    # int() takes more: leading zeros, signs, blanks and other digits.
    if kind is int and not _NUMBER.fullmatch(key):
        raise ProtocolError(f"{name} must have plain numbers as keys, such as '0'; got {reprlib.repr(key)}.")
    return kind(key)


def _made(name: str, make: Any, *arguments: Any) -> Any:
    """What a class makes of its checked fields."""
    try:
        return make(*arguments)
    except KafkaSparkError as error:
        raise ProtocolError(f"{name} is malformed: {str(error)[:150]}") from None
