"""The headers of a record that confluent-kafka has read."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Where a name is no UTF-8, confluent-kafka returns a list with holes, and leaves its error for whatever Python does
#: next. By this way Python looks for an error at once; by ``message.headers()`` it may not.
_READ_HEADERS = methodcaller("headers")


def headers_of(message: Message) -> list[tuple[str, bytes | None]] | None:
    """None where a name is no UTF-8, which confluent-kafka cannot read."""
    try:
        return cast("list[tuple[str, bytes | None]] | None", _READ_HEADERS(message)) or []
    except (UnicodeDecodeError, SystemError):
        return None
