"""Ranges of results without what differs from test to test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def bare(ranges: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Ranges without the ids of their topics, which each of them must have."""
    found = [dict(r) for r in ranges]
    assert all(r.pop("topic_id") for r in found)
    return found
