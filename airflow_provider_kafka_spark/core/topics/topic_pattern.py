"""Patterns of topic names. No I/O.

Python's ``re`` may need time that doubles with each letter of a name, as for ``(a+)+-orders``, and cannot be
interrupted. RE2 needs time that is linear in the name, and memory within a bound.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError

#: Characters of a pattern.
LONGEST = 1_000
#: Bytes of a compiled pattern and its caches. It also bounds the time for each letter of a name.
_MAX_MEMORY = 1 << 16


def check_topic_pattern(pattern: Any) -> None:
    """:raises InvalidInputError: if it is not a regular expression in RE2's syntax, or too large."""
    if isinstance(pattern, str) and len(pattern) > LONGEST:
        raise InvalidInputError(
            f"topic_pattern must have at most {LONGEST:,} characters, such as 'orders\\..*'; got {len(pattern):,}. "
            "Name the topics in topics."
        )
    try:
        _compile(pattern)
    except ValueError as error:
        raise InvalidInputError(
            f"topic_pattern must be a regular expression in RE2's syntax, such as 'orders\\..*'; got {_cut(pattern)}: "
            f"{str(error)[:80]}. RE2 has no look-ahead and no back references. Correct it, or pass topics."
        ) from error


def matching_names(pattern: str, names: Collection[str]) -> frozenset[str]:
    """The names that a pattern matches as a whole.

    >>> sorted(matching_names("orders-.*", ["orders-eu", "orders", "old-orders-eu"]))
    ['orders-eu']
    """
    matches = _compile(pattern).fullmatch
    return frozenset(name for name in names if matches(name) is not None)


def _compile(pattern: Any) -> Any:
    # Not above: a Spark driver, which imports this module with all others of the rules, has no RE2.
    import re2

    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _MAX_MEMORY
    if not isinstance(pattern, str):
        raise ValueError("it is not text")
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from error


def _cut(pattern: object) -> str:
    shown = repr(pattern)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
