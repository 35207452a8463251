"""What a consumer has fetched, without a wait for more."""

from __future__ import annotations

import confluent_kafka

#: Messages that are taken from the client at once.
_BATCH = 10_000


def next_messages(
    consumer: confluent_kafka.Consumer, seconds: float, most: int = _BATCH
) -> list[confluent_kafka.Message]:
    """Whatever the client has fetched, as soon as that is anything.

    ``Consumer.consume`` returns when it has as many messages as it may return, or at its time-out: for less than that
    it always waits.

    :param seconds: to wait for the first message.
    :param most: how many are taken; the others stay with the client.
    """
    first = consumer.poll(seconds)
    if first is None or most == 1:
        return [] if first is None else [first]
    return [first, *consumer.consume(min(most - 1, _BATCH), timeout=0)]
