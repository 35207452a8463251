"""The first record at or after a moment. No I/O: the search asks for records, and its caller reads them.

Kafka's ``ListOffsets`` finds the first batch that claims such a time (``LogSegment.findOffsetByTimestamp``). That may
be the marker of a transaction, whose time is when the transaction ended, whatever its records say; or a record whose
producer's clock is wrong. So the broker's answer is a candidate:

1. If a record of a credible time lies there, it is the answer.
2. Otherwise the records after it are read, up to :data:`MOST_WALKED`.
3. Then a search by halves goes on to the end of the log, at positions that do not depend on the moment. In a log whose
   times are in order it finds the first record, unless over :data:`MOST_PASSED` records that are not credible are
   before it. In any other one its answers still grow with the moment, as long as the log does not change.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

#: Records that are read one after the other before the search by halves: some 100 ms.
MOST_WALKED = 10_000
#: Records whose times are not credible that the search by halves passes over, one after the other, wherever it looks.
#: After these it looks on at distances that double, so that a log that is full of them is not read to its end.
MOST_PASSED = 10_000
#: How many records are read at once, and the first of these distances.
STEP = 1_000
_LIMIT_SETTING, _LONGEST_MS = "message.timestamp.after.max.ms", 366 * 86_400_000
#: How far a record's time may lie ahead of now and be credible, in ms: Kafka's own default of the setting (KIP-1030).
AHEAD_MS = 3_600_000

#: Offset and timestamp in ms of records in order.
Records = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """The answer of a search.

    :param offset: of the first record; None if there is none.
    :param is_settled: whether a log that only grows gives the same answer at any later time.
    :param ahead: offset and timestamp in ms of a record that was passed over since its time is not credible.
    """

    offset: int | None
    is_settled: bool = False
    ahead: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search wants to read.

    :param position: the offset from which to read.
    :param count: how many records are enough. A batch of the log may have ten thousand.
    """

    position: int
    count: int


T = TypeVar("T")
#: A search in one partition. It yields what it wants, and is sent records from that position on: at least one, unless
#: there is none before the end.
Search = Generator[Wanted, Records, T]


def credible_ahead_ms(config: Mapping[str, str]) -> int:
    """How far a record's time may lie ahead of now, in ms.

    :param config: of the topic. Brokers before Kafka 4.0 have no limit by default; one of over a year counts as none.
    """
    text = config.get(_LIMIT_SETTING, "")
    return int(text) if text.isdecimal() and int(text) <= _LONGEST_MS else AHEAD_MS


def find_first(epoch_ms: int, candidate: int | None, end: int, limit_ms: int) -> Search[FoundRecord]:
    """Search the first record at or after a moment.

    :param epoch_ms: the moment, in ms since 1970.
    :param candidate: the broker's answer; None if it found nothing.
    :param end: of the log; records at or after it do not count.
    :param limit_ms: the latest credible time of a record, in ms since 1970.
    """
    if candidate is None:
        return FoundRecord(None)
    position, walked, ahead = candidate, 0, None
    while walked < MOST_WALKED:
        # Mostly the broker's answer is the record, or the marker of a transaction before it.
        records = (yield Wanted(position, MOST_WALKED - walked if walked else 1)) if position < end else ()
        for offset, ms in records:
            if offset < end and epoch_ms <= ms <= limit_ms:
                return FoundRecord(offset, ahead is None, ahead)
            if offset < end and ms > limit_ms:
                ahead = ahead or (offset, ms)
        if not records or records[-1][0] >= end - 1:
            return FoundRecord(None, False, ahead)
        walked, position = walked + len(records), records[-1][0] + 1
    return FoundRecord((yield from _by_halves(epoch_ms, position, end, limit_ms)), False, ahead)


def find_newest(ms: int, start: int, end: int, limit_ms: int) -> Search[int | None]:
    """Search the largest credible time of the records at the end of a log, in ms; None if there is none.

    :param ms: the broker's answer; it is right if it is credible.
    """
    if ms <= limit_ms:
        return ms
    newest, position = None, max(start, end - MOST_WALKED)
    while position < end and (records := (yield Wanted(position, end - position))):
        newest = max([newest or 0, *(ms for _, ms in records if ms <= limit_ms)])
        position = records[-1][0] + 1
    return newest


def sample(positions: Sequence[int], count: int) -> Search[Records]:
    """Read the first so many records from each position on."""
    found: dict[int, int] = {}
    for position in positions:
        found.update((yield Wanted(position, count))[:count])
    return sorted(found.items())


def _by_halves(epoch_ms: int, low: int, end: int, limit_ms: int) -> Search[int | None]:
    """:param low: no record before it is the answer."""
    first: int | None = None
    base, size = -1, 1 << end.bit_length()
    while size > 1:
        size //= 2
        middle = base + size
        if middle < low:
            base = middle
        elif middle < (end if first is None else first):
            offset, ms = yield from _first_credible(middle, end, limit_ms)
            if ms is not None and ms < epoch_ms:
                base, low = middle, offset + 1
            elif ms is not None:
                first = offset
    return first


def _first_credible(position: int, end: int, limit_ms: int) -> Search[tuple[int, int | None]]:
    """Offset and time of the first credible record from a position on, or of a later one if over :data:`MOST_PASSED` of
    other times are before it; no time if none was found before the end.
    """
    passed, distance, count = 0, 0, 1
    while position < end and (records := (yield Wanted(position, count))):
        for offset, ms in records:
            if offset < end and ms <= limit_ms:
                return offset, ms
        passed, position, count = passed + len(records), records[-1][0] + 1, STEP
        if passed >= MOST_PASSED:
            distance = distance * 2 or STEP
            position += distance
    return end, None
