"""The errors of a client that are about one record."""

from __future__ import annotations

from confluent_kafka import KafkaError

#: What a client finds wrong with a record: damage, an unknown codec, or that it unpacks to more than 100 MB.
UNREADABLE = frozenset(
    {
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNDERFLOW,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)
