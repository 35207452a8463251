"""The header that says where a copied record came from. No I/O.

One header, added last, whose value is text: ``run_id|topic|partition|offset|timestamp``, the timestamp in ms since
the epoch. A topic's name cannot contain ``|``. The job's writer adds the header, in place of any of this name that the
source record has, and an SQL expression reads it to find what an earlier try delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

PROVENANCE_HEADER = "x-kafka-spark-source"
_SEPARATOR = "|"


class SourcePlace(NamedTuple):
    """Where a record is in the source. Somebody else may have written it, so the topic's name need not be legal."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a record came from.

    :param run_id: the run of the task that copied it; the XCom of that task has the same.
    :param topic: source topic.
    :param partition: source partition.
    :param offset: source offset.
    :param timestamp_ms: the record's timestamp in the source, in ms since 1970.
    """

    run_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @classmethod
    def parse(cls, value: bytes) -> Provenance:
        """Read a header's value.

        :raises ValueError: if this package did not write it.
        """
        run_id, topic, partition, offset, timestamp_ms = value.decode().split(_SEPARATOR)
        return cls(run_id, topic, int(partition), int(offset), int(timestamp_ms))

    @property
    def place(self) -> SourcePlace:
        return SourcePlace(self.topic, self.partition, self.offset)

    def format(self) -> bytes:
        """The header's value; :meth:`parse` reads it back."""
        return _SEPARATOR.join(
            map(str, (self.run_id, self.topic, self.partition, self.offset, self.timestamp_ms))
        ).encode()


def provenance_of(headers: Sequence[tuple[str, bytes | None]] | None) -> Provenance | None:
    """What the last header of a record says; None if this package did not write it.

    Those before it came with the source record, whose producer may have written anything there.
    """
    if not headers or headers[-1][0] != PROVENANCE_HEADER or headers[-1][1] is None:
        return None
    try:
        return Provenance.parse(headers[-1][1])
    except ValueError:
        return None


def fields_sql(run_id: str) -> str:
    """The SQL expression of the fields of this run's header as an array of text; null for a record that this run did
    not write.

    It is the last header. Those before it came with the source record, whose producer may have written anything there.
    """
    last = "get(headers, size(headers) - 1)"
    is_ours = f"{last}.key = '{PROVENANCE_HEADER}' and startswith({last}.value, cast('{run_id}{_SEPARATOR}' as binary))"
    return f"case when {is_ours} then split(cast({last}.value as string), '[{_SEPARATOR}]') end"
