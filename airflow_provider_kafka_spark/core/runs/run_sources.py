"""Which source topics a run has read, as a mark says it. No I/O.

A driver that takes over a run of which the worker knows nothing finds its records by their headers, and these have the
source's topic, partition and offset, but not the topic's id: those of a topic that was recreated look the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

#: Of more topics a mark says nothing: brokers take 4,096 bytes of metadata by default.
_MOST = 300
#: Hexadecimal digits for the name of a topic, and as many for its id.
_DIGITS = 5


def sources_of(topic_ids: Mapping[str, str], cluster_id: str, before: str = "") -> str:
    """What tells source topics from others of the same names: for each, digits of its name, and of its id.

    :param topic_ids: by name; an empty one is not known.
    :param before: of the same run's earlier plans, which stay in it.
    :return: empty if a mark has no room for all.

    >>> sources_of({"orders": "id"}, "cluster"), sources_of({"orders": "other"}, "cluster")
    ('33f7b931a3', '33f7bf19c9')
    """
    found = _by_name(before)
    for name, topic_id in topic_ids.items():
        found[_digits([name])] = _digits([cluster_id, name, topic_id])
    return "".join(f"{name}{of}" for name, of in sorted(found.items())) if len(found) <= _MOST else ""


def are_other_sources(then: str, now: str) -> bool:
    """Whether a topic that a run has read is another one by now: deleted and recreated, or of another cluster.

    >>> first, second = (sources_of({"orders": topic_id}, "cluster") for topic_id in ("id", "other"))
    >>> are_other_sources(first, second), are_other_sources(first, first), are_other_sources("", second)
    (True, False, False)
    """
    ids = _by_name(then)
    return any(ids.get(name, now_id) != now_id for name, now_id in _by_name(now).items())


def _by_name(sources: str) -> dict[str, str]:
    entries = (sources[i : i + 2 * _DIGITS] for i in range(0, len(sources), 2 * _DIGITS))
    return {entry[:_DIGITS]: entry[_DIGITS:] for entry in entries}


def _digits(content: list[str]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:_DIGITS]
