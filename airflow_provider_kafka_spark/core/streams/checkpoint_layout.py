"""Names and forms that worker and driver share in a checkpoint's folder, besides Spark's own. No I/O."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

GENERATION_PREFIX = "generation-"
#: Our record, in the folder of each generation.
RECORD_NAME = "stream.json"
LOCK_NAME = "lock.json"
#: Between two beats of a lock, in seconds.
BEAT_SECONDS = 2.0
#: A driver that could not renew its lock for so long ends itself: in time before others take the lock over, as a JVM needs some seconds to end.
LEASE_SECONDS = 20.0
#: A lock that did not change for so long has no living owner.
STALE_SECONDS = 30.0


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
        """The lock, or None where the text is none, or half of one: a reader may meet a writer."""
        try:
            lock = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None
        return lock if isinstance(lock.owner, str) and isinstance(lock.application_id, str) else None

    def __str__(self) -> str:
        return f"{self.owner} (application {self.application_id})"
