"""Orders of a shop: JSON with random fields, a key and two headers.

Fields that are random in real data are random here. Repeated payloads would compress too well and favour tools that
compress.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from airflow_provider_kafka_spark.testing.kafka_broker import Record

_STATUSES = ("placed", "paid", "packed", "shipped", "returned", "cancelled")
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK")
_CHANNELS = (b"web", b"app", b"store", b"phone")
_CITIES = ("Berlin", "Lyon", "Porto", "Ghent", "Turin", "Malmo", "Graz", "Delft", "Basel", "Cork")
_LOW_128 = (1 << 128) - 1
#: Orders in the text of :func:`cut_orders`.
_IN_TEXT = 20_000


def orders(count: int, partitions: int, seed: int = 1) -> Iterator[Record]:
    """Yield ``count`` orders in turn over the partitions; the same ones for the same seed."""
    # Seeded on purpose, so that every round and every run copies the same bytes.
    bits = random.Random(seed).getrandbits  # noqa: S311
    for i in range(count):
        # Two draws for each record: drawing each field by itself takes longer than all of the rest.
        a, b = bits(192), bits(64)
        value = (
            f'{{"order_id":"{a & _LOW_128:032x}","customer":{b & 0xFFFFFF},"status":"{_STATUSES[(b >> 24) % 6]}",'
            f'"items":[{{"sku":"{(b >> 28) & 0xFFFFFFF:07X}","qty":{(b >> 55) % 9 + 1}}}],'
            f'"total":{(b >> 36) % 99999 / 100},'
            f'"currency":"{_CURRENCIES[(b >> 53) % 5]}","city":"{_CITIES[(b >> 57) % 10]}",'
            f'"placed_at":"2026-11-20T{(b >> 40) % 24:02}:{(b >> 45) % 60:02}:{(b >> 51) % 60:02}.{a % 1000:03}Z"}}'
        )
        yield Record(
            key=b"%08x" % (b & 0xFFFFFF),
            value=value.encode(),
            headers=(("trace-id", b"%016x" % (a >> 128)), ("channel", _CHANNELS[b & 3])),
            partition=i % partitions,
        )


def cut_orders(count: int, partitions: int, size: int) -> Iterator[Record]:
    """Yield ``count`` records with values of ``size`` bytes, which are pieces of a long text of orders.

    The text and the keys repeat after 4 MB, which is more than any batch holds.
    """
    templates = list(orders(_IN_TEXT, partitions))
    text = b",".join(order.value or b"" for order in templates)
    starts = len(text) - size
    for i in range(count):
        start, template = i * size % starts, templates[i % _IN_TEXT]
        yield template._replace(value=text[start : start + size], partition=i % partitions)


def mean_value_size(sample: int = 1_000) -> float:
    """Bytes of an order's value, on average."""
    return sum(len(order.value or b"") for order in orders(sample, 1)) / sample
