"""Parameters that sensors and watchers share, checked. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow_provider_kafka_spark.core.broker_state import Selection
from airflow_provider_kafka_spark.core.errors import InvalidInputError, OptionError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.resolve import ReadRules

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


def whole_number(value: object, name: str, *, least: int) -> int:
    """:raises OptionError: if it is no whole number of at least so much; text of digits is taken, since templates render to it."""
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise OptionError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return number


def milliseconds(value: object, name: str) -> int:
    """:raises OptionError: if it is no time span of more than 0 ms, as a number of seconds or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.001 <= seconds < 10**10:
        raise OptionError(
            f"{name} must be a number of seconds greater than 0, such as 300, or a timedelta; got {value!r}."
        )
    return round(seconds * 1000)


def select_topics(topics: Any, pattern: Any) -> Selection:
    if topics is None and pattern is None:
        raise InvalidInputError(
            "Give topics=['orders'], or topic_pattern='orders\\..*' where a sensor takes one; got none."
        )
    if topics is not None and pattern is not None:
        raise InvalidInputError(
            f"Give exactly one of topics=['orders'] and topic_pattern='orders\\..*'; got {topics!r} and {pattern!r}."
        )
    selection = Selection(topics, pattern, None)
    return selection if topics is None else Selection(tuple(sorted(topics)), None, None)


def topic_names(selection: Selection) -> tuple[tuple[str, ...] | None, str | None]:
    return (None if selection.topics is None else tuple(selection.topics)), selection.pattern


def selection_json(selection: Selection) -> dict[str, Any]:
    return {
        "topics": None if selection.topics is None else list(selection.topics),
        "topic_pattern": selection.pattern,
    }


def is_read_committed(value: object) -> bool:
    if value not in ISOLATION_LEVELS:
        raise OptionError(f"isolation_level must be one of {ISOLATION_LEVELS}; got {value!r}.")
    return value == "read_committed"


def isolation_level_of(rules: ReadRules) -> str:
    return "read_committed" if rules.read_committed else "read_uncommitted"


def by_topic(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As Spark has offsets in JSON."""
    found: dict[str, dict[str, int]] = {}
    for p, value in sorted(values.items()):
        found.setdefault(p.topic, {})[str(p.partition)] = value
    return found
