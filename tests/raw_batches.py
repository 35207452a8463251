"""Record batches as a broker has them on its disk, byte by byte (KIP-98)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

_LENGTH, _CRC, _ATTRIBUTES, _DELTA, _FIRST_TIME, _PRODUCER, _COUNT = 8, 17, 21, 23, 27, 43, 57
#: Before what the length counts.
_HEAD = 12
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True)
class RawBatch:
    """A batch of a log.

    :param attributes: without the bit of transactions.
    :param times: the first and the last timestamp, and how many offsets it has, as its header says.
    :param payload: the number of records, and all of them as they are, compressed or not.
    """

    base_offset: int
    attributes: int
    times: bytes
    payload: bytes

    @property
    def content(self) -> tuple[int, bytes, bytes]:
        """All that nobody may change on its way."""
        return self.attributes, self.times, self.payload

    @property
    def count(self) -> int:
        """How many records it has."""
        return int.from_bytes(self.payload[:4], "big")


def log_of(broker: KafkaBroker, topic: str) -> Path:
    """The first file of a topic's first partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return Path(future.result(30)["log.dirs"].value, f"{topic}-0", f"{0:020}.log")


def raw_batches(broker: KafkaBroker, topic: str) -> list[RawBatch]:
    """Those with records, of the first partition, in order."""
    return list(_parsed(log_of(broker, topic).read_bytes()))


def cut_at(broker: KafkaBroker, offsets: Mapping[str, int]) -> None:
    """Leave what is before an offset of each topic's first partition, as an unclean election does: the next leader has
    another epoch.

    :param broker: it is killed and started again.
    :param offsets: at each of which a batch begins. How many are before it, is the matter of the client that wrote.
    """
    logs = {topic: log_of(broker, topic) for topic in offsets}
    broker.kill()
    for topic, log in logs.items():
        data = log.read_bytes()
        sizes = {struct.unpack_from(">q", batch)[0]: len(batch) for batch in _batches(data)}
        assert offsets[topic] in sizes, f"{topic} has batches at {sorted(sizes)}"
        with log.open("r+b") as file:
            file.truncate(sum(size for offset, size in sizes.items() if offset < offsets[topic]))
        # The broker makes them anew. By those below it knows how far it has written, and how far that was replicated.
        for other in (*log.parent.glob("*.*index"), *log.parent.glob("*.snapshot")):
            other.unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (log.parent.parent / name).unlink(missing_ok=True)
    broker.restart()


def make_strange(log: Path, *, first_time: int | None = None, names: dict[bytes, bytes]) -> None:
    """Change what no Kafka client would write, in a log whose batches are not compressed.

    :param first_time: of its first record, if that changes; the others keep their distance.
    :param names: what is replaced by something of the same length.
    """
    assert all(len(old) == len(new) for old, new in names.items())
    data = log.read_bytes()
    (before,) = struct.unpack_from(">q", data, _FIRST_TIME)
    later = 0 if first_time is None else first_time - before
    strange = [_strange(batch, later, names) for batch in _batches(data)]
    with log.open("r+b") as file:
        file.write(b"".join(strange))


def _strange(batch: bytes, later: int, names: dict[bytes, bytes]) -> bytes:
    data = bytearray(batch)
    first, last = struct.unpack_from(">qq", data, _FIRST_TIME)
    struct.pack_into(">qq", data, _FIRST_TIME, first + later, last + later)
    for old, new in names.items():
        data[_COUNT:] = data[_COUNT:].replace(old, new)
    struct.pack_into(">I", data, _CRC, crc32c(bytes(data[_ATTRIBUTES:])))
    return bytes(data)


def crc32c(data: bytes) -> int:
    """The checksum of a batch."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def _parsed(log: bytes) -> Iterator[RawBatch]:
    for batch in _batches(log):
        (base_offset,) = struct.unpack_from(">q", batch)
        (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES)
        if not attributes & _CONTROL:
            yield RawBatch(base_offset, attributes & ~_TRANSACTIONAL, batch[_DELTA:_PRODUCER], batch[_COUNT:])


def _batches(log: bytes) -> Iterator[bytes]:
    """All bytes of each."""
    at = 0
    while at < len(log):
        (length,) = struct.unpack_from(">i", log, at + _LENGTH)
        yield log[at : at + _HEAD + length]
        at += _HEAD + length
