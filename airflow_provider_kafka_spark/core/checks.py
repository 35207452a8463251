"""Checks of the parameters that operators, sensors and watchers share. No I/O."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

from airflow_provider_kafka_spark.core.errors import BoundError, InvalidInputError, OptionError

#: What a clear after a success does.
MISSING_ONLY, COPY_AGAIN, FAIL_ON_RERUN = ON_RERUN = ("missing_only", "copy_again", "fail")
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")

#: Who reads the records of a copy.
SOURCE, BATCHES = "source", "batches"
EXACTLY_ONCE = "exactly_once"
DELIVERIES = (EXACTLY_ONCE, "at_least_once")
#: What a template or a form may give for a flag, in any case.
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LONGEST_NUMBER = 20
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,9})?")


def unknown_parameters(given: Iterable[str], known: Collection[str]) -> str | None:
    """What to say of parameters that do not exist; None if all do.

    >>> unknown_parameters(["topic"], ["topics", "target_topic"])
    "There is no parameter 'topic'. Did you mean 'topics'?"
    """
    texts = []
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            texts.append(f"There is no parameter {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
    return " ".join(texts) or None


def is_template(value: object) -> bool:
    """Whether a parameter is known only when it has been rendered: it has Jinja in it, or comes from another task."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return hasattr(value, "resolve")


def flag(value: object, name: str) -> bool:
    """A flag as it was given, or as a template rendered it.

    >>> flag("false", "plan_only"), flag("Yes", "plan_only"), flag(True, "plan_only")
    (False, True, True)

    :raises OptionError: if it is neither a boolean nor the text of one.
    """
    given = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    if isinstance(value, int) and value in (0, 1):
        given = bool(value)
    if given is None:
        raise OptionError(
            f"{name} must be True or False, or one of the texts true, false, yes, no, 1 and 0; got {value!r}. If it is "
            "a template, check what it rendered to."
        )
    return given


def given_flag(value: Any, name: str) -> Any:
    """Check a flag of a DAG when the DAG is read; a template is checked when it has been rendered."""
    return value if is_template(value) else flag(value, name)


def optional_integer(value: object, name: str) -> int | None:
    """An integer of at least 1 as it was given, or as a template rendered it; None for None and for blank text.

    :raises OptionError: if it is anything else.
    """
    value = text_or_none(value)
    return None if value is None else whole_number(value, name, minimum=1)


def text_or_none(value: Any) -> Any:
    """None for blank text, and for the text of None, which a template makes of an empty field of a form."""
    return None if isinstance(value, str) and value.strip() in ("", "None") else value


def list_of(value: Any, name: str) -> Any:
    """A list as it was given, or as a form gives it: JSON, or names with commas between them.

    >>> list_of("orders, payments", "topics")
    ['orders', 'payments']

    :raises InvalidInputError: if text looks like JSON and is none.
    """
    value = text_or_none(value)
    if not isinstance(value, str):
        return value
    return _json_of(value, name) if value.lstrip()[0] in "[{" else [item.strip() for item in value.split(",")]


def mapping_of(value: Any, name: str) -> Any:
    """A mapping as it was given, or as the JSON text that a form gives.

    :raises InvalidInputError: if it is text and no JSON.
    """
    value = text_or_none(value)
    if not isinstance(value, str):
        return value
    mapping = _json_of(value, name)
    if not isinstance(mapping, dict):
        raise InvalidInputError(f"{name} must be a mapping; got {reprlib.repr(value)}.")
    return mapping


def _json_of(text: str, name: str) -> Any:
    try:
        return read_json(text, name)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{name} must be JSON where it is text; got {reprlib.repr(text)}: {error}. In a template, use the filter "
            "tojson."
        ) from error


def parse_reader(value: object) -> str | None:
    """Who reads the records of a copy: ``source``, ``batches`` or None, which may be text.

    :raises OptionError: if it is none of these.
    """
    found = text_or_none(value)
    if found not in (SOURCE, BATCHES, None):
        raise OptionError(f"reader must be {SOURCE!r}, {BATCHES!r} or None; got {value!r}.")
    return None if found is None else str(found)


def one_of(value: object, name: str, *choices: str) -> str:
    """:raises OptionError: if it is none of the choices, with the closest match."""
    if value not in choices:
        close = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"{name} must be {' or '.join(map(repr, choices))}; got {value!r}.{hint}")
    return str(value)


def check_connection_id(value: object, name: str) -> None:
    """:raises InvalidInputError: if it is no text, or blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(
            f"{name} must be the id of a Kafka connection; got {value!r}. If it is a template, check what it rendered "
            "to."
        )


def _number_of(value: object) -> object:
    """A template gives text."""
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) else value


def check_seconds(value: object, name: str) -> float:
    """A number of seconds as it was given, or as a template rendered it.

    :raises OptionError: if it is no number greater than 0, or has no end.
    """
    value = _number_of(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be a number of seconds greater than 0, such as 30; got {value!r}.")
    return float(value)


def milliseconds(value: object, name: str) -> int:
    """:raises OptionError: if it is no time span of more than 0 ms, as a number of seconds or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else _number_of(value)
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
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < _LONGEST_NUMBER:
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
    return one_of(isolation_level, "isolation_level", *ISOLATION_LEVELS) == "read_committed"


def read_json(text: str, name: str) -> object:
    """Read JSON in which no object names a key twice.

    :raises BoundError: if one does.
    :raises ValueError: if it is not JSON; or a :class:`RecursionError`.
    """

    def raise_if_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Both Python and Spark would silently take the last one.
        repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        if repeated:
            raise BoundError(f"{name} names {repeated} twice in {text!r}. Name each once.")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=raise_if_repeated)
