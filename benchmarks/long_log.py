"""A log of many offsets in seconds: one batch of a real producer, repeated in the broker's file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record

#: Places in a batch (KIP-98); what the checksum covers begins at its attributes.
_LENGTH, _CRC, _ATTRIBUTES, _FIRST_TIME, _AFTER_TIMES = 8, 17, 21, 27, 43
_POLYNOMIAL = 0x82F63B78


def extend(broker: KafkaBroker, topic: str, log_folder: Path, batches: int, batch_ms: int) -> None:
    """Repeat the last batch of a topic's only partition, each repetition with the next offsets and a later time.

    :param broker: is killed and started again.
    :param log_folder: where it has its topics.
    :param batches: how many are added.
    :param batch_ms: how much later each is than the one before.
    """
    folder = log_folder / f"{topic}-0"
    log = folder / f"{0:020}.log"
    broker.kill()
    *_, last = _batches(log.read_bytes())
    with log.open("ab") as file:
        for batch in _repeated(last, batches, batch_ms):
            file.write(batch)
    # The broker makes them anew.
    for index in folder.glob("*.*index"):
        index.unlink()
    (log_folder / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    broker.restart()


def batch_of(records: int, first_ms: int, batch_ms: int) -> Iterator[Record]:
    """Records at even distances of time.

    :param first_ms: the time of the first, in ms since 1970.
    :param batch_ms: from there to the first one of the next batch.
    """
    for i in range(records):
        yield Record(key=b"%d" % i, value=b"order %d" % i, timestamp=first_ms + i * batch_ms // records)


def _batches(log: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(log):
        (length,) = struct.unpack_from(">i", log, at + _LENGTH)
        yield log[at : at + 12 + length]
        at += 12 + length


def _repeated(batch: bytes, count: int, batch_ms: int) -> Iterator[bytes]:
    data = bytearray(batch)
    (base,) = struct.unpack_from(">q", data)
    (delta,) = struct.unpack_from(">i", data, _ATTRIBUTES + 2)
    first, last = struct.unpack_from(">qq", data, _FIRST_TIME)
    # CRC-32C is linear, so what follows the times counts only once.
    advance = [_crc(bytes(len(data) - _AFTER_TIMES), 1 << bit) for bit in range(32)]
    rest = _crc(bytes(data[_AFTER_TIMES:]), 0)
    for i in range(1, count + 1):
        struct.pack_into(">q", data, 0, base + i * (delta + 1))
        struct.pack_into(">qq", data, _FIRST_TIME, first + i * batch_ms, last + i * batch_ms)
        head, crc = _crc(bytes(data[_ATTRIBUTES:_AFTER_TIMES]), 0xFFFFFFFF), rest
        for bit in range(32):
            crc ^= advance[bit] * (head >> bit & 1)
        struct.pack_into(">I", data, _CRC, crc ^ 0xFFFFFFFF)
        yield bytes(data)


def _crc(data: bytes, state: int) -> int:
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ _POLYNOMIAL * (state & 1)
    return state
