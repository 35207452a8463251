"""A record of Kafka, as tests write and read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from confluent_kafka import Message


class Record(NamedTuple):
    """One record, as written or as read.

    ``key`` and ``value`` are bytes or null; ``headers`` keep their order and may repeat a key or have a null value;
    ``timestamp`` is in milliseconds since the epoch. In a record to write, None as ``timestamp`` means now, None as
    ``partition`` lets the client choose by the key, and ``offset`` is ignored. In a record that was read, all are set.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = None
    offset: int | None = None


def record_of(message: Message) -> Record:
    """Return the record of a consumed message."""
    kind, timestamp = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return Record(
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
        timestamp=timestamp if kind else None,
        partition=message.partition(),
        offset=message.offset(),
    )


def position_of(message: Message) -> tuple[int, int]:
    """Return partition and offset of a consumed message, which are optional only in the client's types."""
    return cast(int, message.partition()), cast(int, message.offset())
