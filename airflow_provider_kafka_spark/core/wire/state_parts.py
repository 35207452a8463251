"""A large value of a task's state in parts, each a row of its own. No I/O.

Airflow warns of a value of more than 64 KiB, and its API takes none. In the place of such a value are the digests of
its parts, texts that make one text together. The parts are written first, and the parts of the value before it are
removed last; so whoever reads all rows at once finds all parts of what he finds. If one is absent all the same, the
value counts as malformed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

#: Characters of a part of text that has nothing which JSON writes by two characters, and of any other ASCII text.
PART, PART_OF_JSON = 60_000, 30_000
_PARTS = "parts"
#: Of a value that others read: anybody may have written it.
_MOST_PARTS = 1_000


def in_parts(key: str, text: str, size: int) -> tuple[dict[str, list[str]], dict[str, str]]:
    """What is stored in the place of a text, and its parts by their keys.

    >>> head, parts = in_parts("ledger/copy_1", "abcd", 3)
    >>> [(key[:15], part) for key, part in parts.items()]
    [('ledger.ba7816bf', 'abc'), ('ledger.18ac3e73', 'd')]
    >>> part_keys("ledger/copy_1", head) == list(parts)
    True
    """
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    head = {_PARTS: [_digest(part) for part in parts]}
    return head, dict(zip(part_keys(key, head), parts, strict=True))


def is_head(value: object) -> bool:
    return isinstance(value, Mapping) and value.keys() == {_PARTS}


def part_keys(key: str, value: Any) -> list[str]:
    """Under which the parts of what is stored by a key are; none if it is whole, or malformed."""
    digests = value[_PARTS] if is_head(value) else ()
    if not isinstance(digests, (list, tuple)) or not all(isinstance(digest, str) for digest in digests):
        return []
    name, slash, called = key.partition("/")
    return [f"{name}.{digest[:16]}{slash}{called}" for digest in digests]


def text_of(head: Mapping[str, Any], parts: Iterable[object]) -> str | None:
    """The text whose parts these are; None if one of them is not as it was."""
    texts = list(map(str, parts))
    return "".join(texts) if [_digest(text) for text in texts] == head[_PARTS] else None


def published(rows: Mapping[str, Any], key: str) -> Any:
    """What a task has published by a key, whole; None if a part of it is absent or malformed.

    :param rows: all that is stored of its task instance.
    """
    value = rows[key]
    if not is_head(value):
        return value
    parts = [rows.get(name) for name in part_keys(key, value)[: _MOST_PARTS + 1]]
    texts = [part for part in parts if isinstance(part, str) and len(part) <= PART_OF_JSON]
    if len(texts) != len(parts) or len(texts) > _MOST_PARTS:
        return None
    try:
        return json.loads("".join(texts))
    except (ValueError, RecursionError):
        return None


def _digest(part: str) -> str:
    return hashlib.sha256(part.encode(errors="replace")).hexdigest()
