"""Filters by a record's key and headers, which need no SQL. No I/O.

Each wanted key or header value has one plain form: text, ``{"hex": "00ff"}`` for bytes that are no text, None for null.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError

MAX_KEYS, MAX_HEADERS = 10_000, 100
_FORMS = "text, bytes, {'hex': '00ff'}, or None for null"


def check_keys(value: object) -> tuple[Any, ...] | None:
    """The keys of the records that are copied, each in its plain form; None for no filter.

    >>> check_keys(["a", b"b", b"\\xff", None])
    ('a', 'b', None, {'hex': 'ff'})

    :raises InvalidInputError: if it is no list of 1 to 10,000 keys.
    """
    if value is None:
        return None
    return _checked(value, "keys", "keys=['customer-7']", MAX_KEYS)


def check_headers(value: object) -> dict[str, tuple[Any, ...]]:
    """The headers of the records that are copied: name to wanted values; empty for no filter.

    >>> check_headers({"tenant": "acme", "type": ["created", b"changed"]})
    {'tenant': ('acme',), 'type': ('changed', 'created')}

    :raises InvalidInputError: if it is no mapping of 1 to 100 names to values, or to lists of values.
    """
    if value is None or value == {}:
        return {}
    example = "headers={'tenant': ['acme']}"
    if not isinstance(value, Mapping) or not 0 < len(value) <= MAX_HEADERS:
        raise InvalidInputError(
            f"headers must map 1 to {MAX_HEADERS} names of headers to their values, such as {example}; got "
            f"{reprlib.repr(value)}."
        )
    if wrong := [name for name in value if not isinstance(name, str) or not _is_unicode(name)]:
        raise InvalidInputError(f"Names in headers must be text, such as {example}; got {wrong[0]!r}.")
    lists = {name: wanted if isinstance(wanted, (list, tuple)) else [wanted] for name, wanted in value.items()}
    return {name: _checked(lists[name], f"headers[{name!r}]", example, MAX_KEYS) for name in sorted(lists)}


def bytes_of(item: Any) -> bytes | None:
    """The bytes of a plain form.

    >>> bytes_of({"hex": "00ff"})
    b'\\x00\\xff'
    """
    if item is None:
        return None
    return item.encode() if isinstance(item, str) else bytes.fromhex(item["hex"])


def _checked(value: object, name: str, example: str, limit: int) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not 0 < len(value) <= limit:
        raise InvalidInputError(
            f"{name} must be a list of 1 to {limit:,} values, such as {example}; got {reprlib.repr(value)}. To copy "
            "all records, leave it out."
        )
    # In one order, and each once: what is selected is the same, and so is the run.
    found = {json.dumps(plain := _plain(item, name)): plain for item in value}
    return tuple(found[text] for text in sorted(found))


def _plain(item: object, name: str) -> Any:
    if isinstance(item, Mapping) and item.keys() == {"hex"} and isinstance(item["hex"], str):
        try:
            item = bytes.fromhex(item["hex"])
        except ValueError:
            raise InvalidInputError(
                f"{name} must have pairs of hexadecimal digits in {{'hex': '00ff'}}; got {reprlib.repr(item)}."
            ) from None
    if isinstance(item, bytes):
        try:
            return item.decode()
        except UnicodeDecodeError:
            return {"hex": item.hex()}
    if item is not None and (not isinstance(item, str) or not _is_unicode(item)):
        raise InvalidInputError(f"Each value in {name} must be {_FORMS}; got {reprlib.repr(item)}.")
    return item


def _is_unicode(text: str) -> bool:
    """Whether it can be encoded."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
