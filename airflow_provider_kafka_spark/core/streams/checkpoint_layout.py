"""File names and formats of this package in a checkpoint's folder, shared by worker and driver. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

GENERATION_PREFIX = "generation-"
#: The manifest, in the folder of each generation.
MANIFEST_NAME = "stream.json"
LOCK_NAME = "lock.json"
#: Maximum size of a file in bytes. Others may write to the folder, so larger files are not read.
LARGEST_FILE = 16 * 1024 * 1024
#: Seconds between two renewals of a lock.
BEAT_SECONDS = 2.0
#: A driver that cannot renew its lock for this many seconds ends itself. A JVM needs some seconds to end, before others
#: take the lock over.
LEASE_SECONDS = 20.0
#: A lock that did not change for this many seconds has no living owner.
STALE_SECONDS = 30.0
_LARGEST_BATCH = 2**63 - 1
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True)
class Lock:
    """Who uses a checkpoint.

    :param owner: the task's run, in words.
    :param application_id: of the Spark application that holds it.
    :param beat: counts up while the owner lives.
    """

    owner: str
    application_id: str
    beat: int

    def format(self) -> str:
        """One line of JSON; :meth:`parse` reads it back."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Lock | None:
        """The lock, or None if the text is not a complete lock: it may be read while it is written."""
        try:
            lock = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None
        return lock if isinstance(lock.owner, str) and isinstance(lock.application_id, str) else None

    def __str__(self) -> str:
        # Others may write the file, and this goes into logs.
        text = f"{self.owner} (application {self.application_id})"
        return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST_TEXT])


def batch_numbers(names: Iterable[str]) -> set[int]:
    """The batches whose files have these names; other names, which Spark ignores too, are left out.

    >>> sorted(batch_numbers(["0", "10", ".0.crc", "9" * 20]))
    [0, 10]
    """
    return {int(name) for name in names if name.isascii() and name.isdigit() and int(name) <= _LARGEST_BATCH}
