"""Which offsets of a range were seen, in whatever order. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange


class OffsetSet:
    """Offsets of one range. Where all of a stretch were seen it costs no memory, otherwise a byte for each offset.

    >>> seen = OffsetSet(OffsetRange("orders", 0, 10, 15))
    >>> seen.add(12), seen.add(12), seen.remaining
    (True, False, 4)
    >>> [r.format() for r in seen.missing()]
    ['orders:0:10:12', 'orders:0:13:15']

    :param whole: the range.
    :param chunk: offsets that are stored together.
    """

    def __init__(self, whole: OffsetRange, chunk: int = 1 << 16) -> None:
        self._chunk = chunk
        self.whole = whole
        self.remaining = whole.size
        self._chunks: dict[int, bytearray] = {}
        self._left: dict[int, int] = {}
        self._full: set[int] = set()

    def add(self, offset: int) -> bool:
        """:return: whether the offset is of the range and was not seen before."""
        number, place = divmod(offset - self.whole.from_offset, self._chunk)
        chunk = self._chunks.get(number)
        if chunk is not None and place < len(chunk) and self._left[number] > 1:
            # The usual case: called once for each record.
            if chunk[place]:
                return False
            chunk[place] = 1
            self.remaining -= 1
            self._left[number] -= 1
            return True
        remaining = self.remaining
        self.add_range(offset, offset + 1)
        return self.remaining < remaining

    def add_range(self, from_offset: int, until_offset: int) -> None:
        """Add all offsets of a stretch; those outside of the range are ignored."""
        start = max(from_offset, self.whole.from_offset) - self.whole.from_offset
        end = min(until_offset, self.whole.until_offset) - self.whole.from_offset
        while start < end:
            number, place = divmod(start, self._chunk)
            stop = min(end - number * self._chunk, self._chunk)
            self._add_to_chunk(number, place, stop)
            start = number * self._chunk + stop

    def _add_to_chunk(self, number: int, start: int, stop: int) -> None:
        if number in self._full:
            return
        size = min(self._chunk, self.whole.size - number * self._chunk)
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = bytearray(size)
            self._left[number] = size
        new = chunk.count(0, start, stop)
        chunk[start:stop] = bytes([1]) * (stop - start)
        self.remaining -= new
        self._left[number] -= new
        if not self._left[number]:
            self._full.add(number)
            del self._chunks[number], self._left[number]

    def missing(self) -> Iterator[OffsetRange]:
        """The stretches that were not seen, in order; two that touch may be apart."""
        for number in range(-(-self.whole.size // self._chunk)):
            if number in self._full:
                continue
            first = self.whole.from_offset + number * self._chunk
            size = min(self._chunk, self.whole.until_offset - first)
            chunk = self._chunks.get(number) or bytes(size)
            start = chunk.find(0)
            while start >= 0:
                end = chunk.find(1, start)
                end = size if end < 0 else end
                yield OffsetRange(self.whole.topic, self.whole.partition, first + start, first + end)
                start = chunk.find(0, end)
