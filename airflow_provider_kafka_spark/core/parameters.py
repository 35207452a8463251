"""Checks of the parameters that operators, sensors and watchers share. No I/O."""

from __future__ import annotations

import difflib
from datetime import timedelta

from airflow_provider_kafka_spark.core.errors import InvalidInputError, OptionError

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


EXACTLY_ONCE, AT_LEAST_ONCE = DELIVERIES = ("exactly_once", "at_least_once")


def check_delivery_mode(delivery: object) -> None:
    """:raises OptionError: if it is neither of the two, with the closest match."""
    if delivery not in DELIVERIES:
        close = difflib.get_close_matches(str(delivery), DELIVERIES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"delivery must be 'exactly_once' or 'at_least_once'; got {delivery!r}.{hint}")


def check_connection_id(value: object, name: str) -> None:
    """:raises InvalidInputError: if it is no text, or blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(
            f"{name} must be the id of a Kafka connection; got {value!r}. If it is a template, check what it rendered "
            "to."
        )


def check_seconds(value: object, name: str) -> None:
    """:raises OptionError: if it is no number greater than 0, or has no end."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be a number of seconds greater than 0, such as 30; got {value!r}.")


def milliseconds(value: object, name: str) -> int:
    """:raises OptionError: if it is no time span of more than 0 ms, as a number of seconds or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.001 <= seconds < 10**10:
        raise OptionError(
            f"{name} must be a number of seconds greater than 0, such as 300, or a timedelta; got {value!r}."
        )
    return round(seconds * 1000)


def check_integer(value: object, name: str, *, minimum: int) -> int:
    """:raises OptionError: if it is no integer of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise OptionError(f"{name} must be an integer of at least {minimum}; got {value!r}.")
    return value


def whole_number(value: object, name: str, *, minimum: int) -> int:
    """As :func:`check_integer`, but text of digits is taken, since templates render to it."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    return check_integer(value, name, minimum=minimum)


def check_group_id(value: object, name: str) -> str:
    """:return: it, without blanks around it.
    :raises InvalidInputError: if it is no text, or blank.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{name} must be the name of a consumer group; got {value!r}.")
    return value.strip()


def is_read_committed(isolation_level: object) -> bool:
    """:raises OptionError: if it is neither of the two levels."""
    if isolation_level not in ISOLATION_LEVELS:
        raise OptionError(f"isolation_level must be one of {ISOLATION_LEVELS}; got {isolation_level!r}.")
    return isolation_level == "read_committed"
