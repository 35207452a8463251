"""Orders of a shop over a day, for the demo and for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from airflow_provider_kafka_spark.testing.record import Record

STATUSES = ("placed", "paid", "packed", "shipped", "returned", "cancelled")
_CHANNELS = (b"web", b"app", b"store", b"phone")
_CITIES = ("Berlin", "Lyon", "Porto", "Ghent", "Turin", "Malmo", "Graz", "Delft", "Basel", "Cork")
_LOW_128 = (1 << 128) - 1
#: The interval of tombstones (a key without a value), in records.
_TOMBSTONE_EVERY = 97


def orders(count: int, partitions: int, start: datetime, length: timedelta) -> Iterator[Record]:
    """Yield ``count`` orders of about 200 bytes, round-robin over the partitions, always the same.

    Each has a key and two headers, and every 97th is a tombstone.

    :param start: time of the first one; the others follow evenly until ``start + length``, which is exclusive.
    """
    # Seeded, so that a run can be repeated byte for byte.
    bits = random.Random(1).getrandbits  # noqa: S311
    start_ms, length_ms = int(start.timestamp() * 1000), int(length.total_seconds() * 1000)
    for i in range(count):
        # Two draws for each record: drawing each field by itself takes longer than all of the rest.
        a, b = bits(192), bits(64)
        timestamp = start_ms + length_ms * i // count
        value = (
            f'{{"order_id":"{a & _LOW_128:032x}","customer":{b & 0xFFFFFF},"status":"{STATUSES[(b >> 24) % 6]}",'
            f'"items":[{{"sku":"{(b >> 28) & 0xFFFFFFF:07X}","qty":{(b >> 55) % 9 + 1}}}],'
            f'"total":{(b >> 36) % 99999 / 100},'
            f'"currency":"EUR","city":"{_CITIES[(b >> 57) % 10]}","placed_at_ms":{timestamp}}}'
        )
        yield Record(
            key=b"%08x" % (b & 0xFFFFFF),
            value=None if i % _TOMBSTONE_EVERY == _TOMBSTONE_EVERY - 1 else value.encode(),
            headers=(("trace-id", b"%016x" % (a >> 128)), ("channel", _CHANNELS[b & 3])),
            timestamp=timestamp,
            partition=i % partitions,
        )
