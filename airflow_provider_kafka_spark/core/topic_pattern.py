"""Patterns of topic names. No I/O.

Python's ``re`` may need time that doubles with each letter of a name, as for ``(a+)+-orders``, and cannot be
interrupted. RE2 needs time that is linear in the name, and memory within a bound.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import re2

from airflow_provider_kafka_spark.core.errors import InvalidInputError

#: Characters of a pattern.
LONGEST = 1_000
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
# Bytes of a compiled pattern and its caches; it also bounds the time for each letter of a name.
_OPTIONS.max_mem = 1 << 16


def check_topic_pattern(pattern: Any) -> None:
    """:raises InvalidInputError: if it is not a regular expression in RE2's syntax, or too large."""
    if isinstance(pattern, str) and len(pattern) > LONGEST:
        raise InvalidInputError(
            f"topic_pattern must have at most {LONGEST:,} characters, such as 'orders\\..*'; got {len(pattern):,}. "
            "Name the topics in topics."
        )
    try:
        if not isinstance(pattern, str):
            raise TypeError("it is not text")
        re2.compile(pattern, _OPTIONS)
    except (re2.error, TypeError, UnicodeEncodeError) as error:
        (reason, *_) = error.args
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidInputError(
            f"topic_pattern must be a regular expression in RE2's syntax, such as 'orders\\..*'; got {_cut(pattern)}: "
            f"{reason[:80]}. RE2 has no look-ahead and no back references. Correct it, or name the topics in topics."
        ) from error


def matching_names(pattern: str, names: Collection[str]) -> frozenset[str]:
    """The names that a pattern matches as a whole.

    >>> sorted(matching_names("orders-.*", ["orders-eu", "orders", "old-orders-eu"]))
    ['orders-eu']
    """
    matches = re2.compile(pattern, _OPTIONS).fullmatch
    return frozenset(name for name in names if matches(name) is not None)


def _cut(pattern: object) -> str:
    shown = repr(pattern)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
