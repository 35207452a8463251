"""The progress of an earlier plan of a run as the progress of its next plan. No I/O.

Where no header says what the target has, a plan that is cut into other pieces goes on from what was committed for the
pieces before: a piece of the new plan begins after what was delivered of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, split_name
from airflow_provider_kafka_spark.core.offsets.segments import Segment

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
#: As in ``CommittedProgress.java``.
_MAX_METADATA = 3500
_SEGMENTS, _UNKNOWN, _END = "=", "?", "\0"
_WHOLE = "!"

#: First offset and end in the source, and first offset in the target's partition of the same number.
Run = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SlotProgress:
    """What the slot of a piece says.

    :param name: of the piece.
    :param position: everything before this source offset is done.
    :param is_whole: the piece copies everything between its first offset and its end.
    :param runs: where the records are; None if that is not known.
    """

    name: str
    position: int
    is_whole: bool = True
    runs: tuple[Run, ...] | None = ()

    @classmethod
    def parse(cls, offset: int, metadata: str) -> SlotProgress:
        """Read a committed offset, as ``CommittedProgress.java`` writes it.

        >>> SlotProgress.parse(15, "orders-0-0-20\\ncopy 0 5 e\\n=!0 f 5\\0")
        SlotProgress(name='orders-0-0-20', position=15, is_whole=True, runs=((0, 15, 5),))
        """
        text = metadata.split(_END)[0]
        name, _, written = text.partition("\n")
        _, found, runs = written.partition(_SEGMENTS)
        is_whole = runs.startswith(_WHOLE)
        runs = runs.removeprefix(_WHOLE)
        return cls(name, offset, is_whole, _parse_runs(runs) if found else None)

    def format(self, topic: str, partition: int) -> str:
        """The metadata of the committed offset.

        :param topic: of the target.
        :param partition: of source and target.
        """
        targets, mapped = _UNKNOWN, _UNKNOWN
        if self.runs is not None:
            spans = [(start, start + end - begin) for begin, end, start in self.runs]
            first, last = min((s[0] for s in spans), default=0), max((s[1] for s in spans), default=0)
            targets = f"{topic} {_base36(partition)} {_base36(first)} {_base36(last - 1 - first)}\n" if spans else ""
            mapped = _format_runs(self.runs)
        head, whole = f"{self.name}\n{targets}{_SEGMENTS}", _WHOLE if self.is_whole else ""
        mapped = mapped if len(head) + len(whole) + len(mapped) <= _MAX_METADATA else _UNKNOWN
        return f"{head}{whole}{mapped}{_END}"


def last_targets(metadata: str) -> dict[tuple[str, int], int]:
    """The last offset that a slot's piece has in each partition of the targets, as far as it is known.

    >>> last_targets("orders-0-0-20\\ncopy 0 5 e 1 0 0\\n=!0 f 5\\0")
    {('copy', 0): 19, ('copy', 1): 0}
    """
    _, _, written = metadata.split(_END)[0].partition("\n")
    found: dict[tuple[str, int], int] = {}
    for line in written.partition(_SEGMENTS)[0].splitlines():
        topic, *numbers = line.split(" ")
        if topic == _UNKNOWN:
            continue
        fields = [int(number, 36) for number in numbers]
        found |= {(topic, n): first + more for n, first, more in zip(*(fields[i::3] for i in range(3)), strict=True)}
    return found


@dataclass(frozen=True, slots=True)
class ProvedDelivery:
    """What the worker has proved before the task was cleared.

    :param ranges: of the source, all of whose records were delivered.
    :param segments: where they are; None if that is not known.
    """

    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    segments: tuple[Segment, ...] | None = ()


def carried(
    pieces: Sequence[Piece], slots: Iterable[SlotProgress], proved: ProvedDelivery | None = None
) -> tuple[SlotProgress, ...] | None:
    """Where the pieces of a new plan stand, by what was committed for those of the plan before.

    :param slots: all of the plan before.
    :param proved: what else was delivered.
    :return: None if it is not known of a piece: what was delivered of it does not end at one offset, or a piece before
        has not copied all that lies between its ends, or something that it has delivered after the new plan's start is
        not in the new plan, which would be forgotten.
    """
    known = proved or ProvedDelivery()
    planned: list[OffsetRange] = []
    firsts: dict[str, OffsetRange] = {}
    for piece in pieces:
        of_partition, _, _ = split_name(piece.name) or ("", 0, 0)
        parts = [OffsetRange(piece.topic, piece.partition, p.from_offset, p.until_offset) for p in piece.parts]
        planned += parts
        for part in parts:
            if part.from_offset <= firsts.setdefault(of_partition, part).from_offset:
                firsts[of_partition] = part
    delivered: dict[str, list[SlotProgress]] = {}
    after: list[OffsetRange] = []
    for slot in slots:
        of_partition, start, _ = split_name(slot.name) or ("", 0, 0)
        if slot.position > start:
            if not slot.is_whole or of_partition not in firsts:
                return None
            delivered.setdefault(of_partition, []).append(slot)
            start, end, first = *_extent(slot), firsts[of_partition]
            begin = first.from_offset
            after.append(replace(first, from_offset=max(start, begin), until_offset=max(end, begin)))
    if OffsetRanges().merge(after).without_empty().subtract(OffsetRanges(planned).merge(known.ranges)):
        # Neither the new plan nor the worker would know of it any more.
        return None
    found = []
    for piece in pieces:
        named = split_name(piece.name)
        before = delivered.get(named[0], []) if named is not None else []
        stands = _carried(piece, before, known)
        if stands is None:
            return None
        found.append(stands)
    return tuple(found)


def _carried(piece: Piece, before: Sequence[SlotProgress], proved: ProvedDelivery) -> SlotProgress | None:
    whole = OffsetRange(piece.topic, piece.partition, piece.from_offset, piece.until_offset)
    done = [replace(whole, from_offset=start, until_offset=end) for start, end in map(_extent, before)]
    delivered = OffsetRanges([whole]).intersect(OffsetRanges(done).merge(proved.ranges))
    planned = OffsetRanges(replace(whole, from_offset=p.from_offset, until_offset=p.until_offset) for p in piece.parts)
    rest = planned.subtract(delivered)
    position = rest[0].from_offset if rest else piece.until_offset
    if any(r.until_offset > position for r in planned.intersect(delivered)):
        return None
    is_whole = planned.total == whole.size
    mapped = [slot.runs for slot in before]
    is_proof_mapped = proved.segments is not None or not proved.ranges.intersect([whole])
    if not is_proof_mapped or None in mapped:
        return SlotProgress(piece.name, position, is_whole, None)
    of_proof = [s for s in proved.segments or () if s.source.topic_partition == whole.topic_partition]
    runs = [(s.source.from_offset, s.source.until_offset, s.target.from_offset) for s in of_proof]
    runs += [run for each in mapped for run in each or ()]
    found = [run for p in piece.parts for run in _cut(runs, p.from_offset, min(p.until_offset, position))]
    return SlotProgress(piece.name, position, is_whole, tuple(found))


def _extent(slot: SlotProgress) -> tuple[int, int]:
    _, start, end = split_name(slot.name) or ("", 0, 0)
    return start, min(slot.position, end)


def _cut(runs: Iterable[Run], start: int, end: int) -> list[Run]:
    """The part of runs that lies in a range; what several have counts once."""
    found: list[Run] = []
    for begin, until, target in sorted(runs):
        first = max(begin, start, found[-1][1] if found else 0)
        last = min(until, end)
        if first < last:
            found.append((first, last, target + first - begin))
    return found


def _format_runs(runs: Iterable[Run]) -> str:
    numbers, source, target = [], 0, 0
    for begin, end, start in runs:
        numbers += [begin - source, end - begin, start - target]
        source, target = end, start + end - begin
    return " ".join(map(_base36, numbers))


def _parse_runs(text: str) -> tuple[Run, ...] | None:
    try:
        numbers = iter([int(number, 36) for number in text.split()])
    except ValueError:
        # They were too long, or somebody else has written them.
        return None
    found, source, target = [], 0, 0
    while three := tuple(islice(numbers, 3)):
        begin, size, start = three
        begin, start = source + begin, target + start
        found.append((begin, begin + size, start))
        source, target = begin + size, start + size
    return tuple(found)


def _base36(number: int) -> str:
    digits, rest = "", abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits
