"""Other names for copied topics: source topic to target topic. No I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import is_topic_name
from airflow_provider_kafka_spark.core.shown_text import shortened

MAX_TOPICS = 10_000


def check_topic_map(value: object) -> dict[str, str]:
    """A map of topics, sorted.

    :raises TargetError: if it is no mapping of 1 to 10,000 names of topics to names of topics.
    """
    example = "topic_map must map source topics to target topics, such as {'orders': 'orders_v2'}"
    if not isinstance(value, Mapping) or not value:
        raise TargetError(f"{example}; got {reprlib.repr(value)}.")
    wrong = [n for pair in value.items() for n in pair if not isinstance(n, str) or not is_topic_name(n)]
    if wrong:
        raise TargetError(
            f"{example}, names of 1 to 249 letters, digits, dots, dashes and underscores; got {wrong[0]!r}."
        )
    if len(value) > MAX_TOPICS:
        raise TargetError(f"topic_map must have at most {MAX_TOPICS:,} topics; it has {len(value):,}.")
    return dict(sorted(value.items()))


def mapped(topics: Iterable[str], topic_map: Mapping[str, str]) -> dict[str, str]:
    """The target of each topic.

    >>> mapped(["orders"], {"orders": "orders_v2", "payments": "payments_v2"})
    {'orders': 'orders_v2'}

    :raises TargetError: naming the topics that the map does not have.
    """
    names = sorted(set(topics))
    if unmapped := [name for name in names if name not in topic_map]:
        raise TargetError(
            f"topic_map must have a target for each source topic; it has none for {shortened(map(repr, unmapped))}. "
            "Add it, or leave the topic out of what is read."
        )
    return {name: topic_map[name] for name in names}
