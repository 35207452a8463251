"""How a driver knows that the writer's classes on its class path were compiled from its own sources. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def sources_digest(sources: Mapping[str, str]) -> str:
    """A digest of Java sources.

    :param sources: the texts, by their path on a class path.
    """
    digest = hashlib.sha256()
    for name, text in sorted(sources.items()):
        digest.update(f"{name}\0{len(text)}\0{text}".encode())
    return digest.hexdigest()[:32]


def marker(sources: Mapping[str, str]) -> str:
    """The name of an entry that only a jar with the classes of these sources has."""
    return f"META-INF/kafka-spark-writer/{sources_digest(sources)}"
