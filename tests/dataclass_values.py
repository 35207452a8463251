"""Values of what crosses a process border, made from its dataclasses: a field that is added is in the tests too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors
from airflow_provider_kafka_spark.core.offsets.offset_range import MAX_OFFSET, OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark, MarkState
from airflow_provider_kafka_spark.core.streams.checkpoint import StreamManifest
from airflow_provider_kafka_spark.core.topics.bounds import TimeWindow
from airflow_provider_kafka_spark.core.wire.fault import Fault

T = TypeVar("T")

_MAX_ITEMS = 3
_TOPICS = st.text("aZ9._-", min_size=1, max_size=9).filter(lambda name: name not in (".", ".."))
_PARTITIONS = st.integers(0, 2**31 - 1)
_BOUNDS = st.tuples(st.integers(0, MAX_OFFSET), st.integers(0, MAX_OFFSET)).map(sorted)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=_MAX_ITEMS) | st.dictionaries(st.text(), inner, max_size=_MAX_ITEMS),
    max_leaves=5,
)
_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    Any: _JSON,
    bool: st.booleans(),
    float: st.floats(0, 1e9) | st.integers(0, MAX_OFFSET),
    str: st.text(),
    TopicPartition: st.builds(TopicPartition, _TOPICS, _PARTITIONS),
    OffsetRange: st.builds(lambda topic, n, bounds: OffsetRange(topic, n, *bounds), _TOPICS, _PARTITIONS, _BOUNDS),
    OffsetRanges: st.lists(st.tuples(_TOPICS, _BOUNDS), max_size=_MAX_ITEMS).map(
        lambda drawn: OffsetRanges(OffsetRange(topic, n, *bounds) for n, (topic, bounds) in enumerate(drawn))
    ),
}
#: What classes require of their fields, where the types do not say it.
_FIELDS: Mapping[tuple[type, str], st.SearchStrategy[Any]] = {
    (Fault, "code"): st.sampled_from([error.code for error in all_errors()]),
    (Mark, "state"): st.sampled_from([state.value for state in MarkState]),
    (StreamManifest, "stream_id"): st.text("0123456789abcdef", min_size=16, max_size=16),
}
_RULES: Mapping[type, Callable[[Mapping[str, Any]], bool]] = {
    TimeWindow: lambda drawn: None in drawn.values() or drawn["start_ms"] < drawn["end_ms"],
    Target: lambda drawn: (drawn["topic"], drawn["topic_expr"], drawn["topic_map"] or None).count(None) == 2,
}


def values_of(kind: type[T], **of_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Any value of a dataclass, or of another type that ``core.wire.codec`` reads.

    :param of_fields: for fields that are to have something special.
    """
    made: st.SearchStrategy[T] = _dataclass(kind, of_fields) if of_fields else _values(kind)
    return made


def _values(kind: Any, least: int = 0) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is int:
        return st.integers(least, MAX_OFFSET)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if is_dataclass(kind):
        return _dataclass(kind, {})
    inner = get_args(kind)
    if isinstance(kind, UnionType):
        return st.none() | _values(*(part for part in inner if part is not NoneType), least)
    if get_origin(kind) is tuple:
        return st.lists(_values(inner[0]), max_size=_MAX_ITEMS).map(tuple)
    return st.dictionaries(_values(inner[0]), _values(inner[1]), max_size=_MAX_ITEMS)


def _dataclass(kind: Any, of_fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    given = {**{name: of for (of_kind, name), of in _FIELDS.items() if of_kind is kind}, **of_fields}
    drawn = st.fixed_dictionaries(
        {
            f.name: given[f.name] if f.name in given else _values(hints[f.name], f.metadata.get("minimum", 0))
            for f in fields(kind)
        }
    )
    return drawn.filter(_RULES.get(kind, lambda _: True)).map(lambda values: kind(**values))
