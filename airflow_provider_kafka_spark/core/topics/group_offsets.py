"""A group's offsets on the source as offsets of the same records on the target. No I/O.

The target is read backwards, block by block, until each record that the group has not consumed was seen: then none of
them lies further back, in whatever order they were written, and the first one of each partition is the group's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.offset_set import OffsetSet
from airflow_provider_kafka_spark.core.offsets.provenance import SourcePlace
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState

#: Offsets of a target partition that are read at first, and at most.
FIRST_BLOCK, LARGEST_BLOCK = 1_000, 1_000_000
#: The place of a group that is further on the target than on the source.
AHEAD = "ahead"
#: Gaps of the source with fewer offsets between them are read in one go.
_NEAR = 5_000


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where the group is in one source partition.

    :param committed: the offset that it reads next, or None without a commit: then it has consumed nothing.
    :param log_start: the oldest offset that the source still has.
    :param end: of the source's committed records.
    """

    partition: TopicPartition
    committed: int | None
    log_start: int
    end: int

    @property
    def unconsumed(self) -> OffsetRange:
        """The offsets that the group has not consumed."""
        start = self.log_start if self.committed is None else self.committed
        return OffsetRange(self.partition.topic, self.partition.partition, min(start, self.end), self.end)


@dataclass(frozen=True, slots=True)
class TargetPosition:
    """The group's place in one target partition.

    :param offset: what is committed.
    :param at: ``record`` that the group has not consumed; ``end``: after the last record of the copies; ``start`` of a
        partition to which nothing was copied; :data:`AHEAD`: where the target's group is already.
    :param seen_again: records at or after ``offset`` that the group has consumed on the source.
    :param passed_over: records of others, as far as they were read, before ``offset``.
    """

    partition: TopicPartition
    offset: int
    at: str
    seen_again: int
    passed_over: int

    def at_least(self, own: int | None, state: PartitionState) -> TargetPosition:
        """This place, or the group's own offset there, if that is ahead and not beyond the end.

        Consumers of the target have moved the group on, which the source's group does not know.
        """
        if own is None or not self.offset < own <= state.high_watermark:
            return self
        return TargetPosition(self.partition, own, AHEAD, 0, 0)


@dataclass
class _Partition:
    """What was read of one target partition. Blocks are read backwards, and each of them forwards."""

    start: int
    end: int
    read_from: int
    block_size: int
    #: The first unconsumed record, and the last one of ours.
    first: int | None = None
    last: int | None = None
    #: Consumed records of ours that were read, and those of them after ``first``.
    consumed: int = 0
    seen_again: int = 0
    #: Records of others before ``first``, or without it before ``last``.
    passed_over: int = 0
    #: Of each source: whether a consumed record of it was read here.
    sources: dict[TopicPartition, bool] = field(default_factory=dict)


class GroupTranslation:
    """The translation for one target topic.

    :param topic: the target.
    :param partitions: of the target, each with its offsets.
    :param sources: the group's position in each source partition that was copied to it.
    :param block_size: offsets of the first block; :data:`FIRST_BLOCK` by default.
    """

    def __init__(
        self,
        topic: str,
        partitions: Mapping[int, PartitionState],
        sources: Iterable[SourcePosition],
        block_size: int = 0,
    ) -> None:
        self.topic = topic
        self.sources = {s.partition: s for s in sources}
        self.records_read = 0
        self._unseen = {s.partition: OffsetSet(s.unconsumed) for s in self.sources.values()}
        #: A record names its source by text and number, which anybody may have written.
        self._by_place = {(p.topic, p.partition): (p, seen.whole.from_offset, seen) for p, seen in self._unseen.items()}
        self._asked: set[TopicPartition] = set()
        self._partitions = {
            number: _Partition(state.log_start, state.last_stable, state.last_stable, block_size or FIRST_BLOCK)
            for number, state in sorted(partitions.items())
        }

    def next_blocks(self) -> list[OffsetRange]:
        """What has to be read next of the target, at most one block of each partition; none if all is known."""
        proved = not any(seen.remaining for seen in self._unseen.values())
        blocks = []
        for number, p in self._partitions.items():
            if p.read_from > p.start and not (proved and p.last is not None):
                blocks.append(OffsetRange(self.topic, number, max(p.start, p.read_from - p.block_size), p.read_from))
                p.block_size = min(p.block_size * 4, LARGEST_BLOCK)
        return blocks

    def add_block(self, block: OffsetRange, records: Iterable[tuple[int, SourcePlace | None]]) -> None:
        """What was read of a block.

        :param records: in order; offset and source of each, None for a record that no copy has written.
        """
        p = self._partitions[block.partition]
        first: int | None = None
        consumed = seen_again = others = others_before = 0
        for offset, origin in records:
            self.records_read += 1
            known = None if origin is None else self._by_place.get((origin.topic, origin.partition))
            if origin is None or known is None:
                others += 1
                continue
            source, unconsumed_from, unseen = known
            if p.last is None or offset > p.last:
                p.last = offset
                if first is None and p.first is None:
                    others_before = others
            if origin.offset < unconsumed_from:
                consumed += 1
                seen_again += first is not None
                p.sources[source] = True
                continue
            p.sources.setdefault(source, False)
            unseen.add(origin.offset)
            if first is None:
                first, others_before = offset, others
        if first is not None:
            p.first, p.seen_again, p.passed_over = first, seen_again + p.consumed, others_before
        elif p.first is not None or (p.last is not None and p.last >= block.until_offset):
            p.passed_over += others
        else:
            p.passed_over = others_before
        p.consumed += consumed
        p.read_from = block.from_offset

    def doubtful(self) -> list[OffsetRange]:
        """Offsets that may have no record on the source (compacted, aborted, markers), which is not asked yet: of
        sources whose consumed records were found wherever they are, or of all when everything was read.

        Offsets that the source has no longer are not among them.
        """
        all_read = all(p.read_from <= p.start for p in self._partitions.values())
        ranges = list[OffsetRange]()
        for source, seen in self._unseen.items():
            found = [p.sources[source] for p in self._partitions.values() if source in p.sources]
            if source in self._asked or not seen.remaining or not (all_read or (found and all(found))):
                continue
            self._asked.add(source)
            ranges += _joined(r for r in seen.missing() if r.until_offset > self.sources[source].log_start)
        starts = {p: source.log_start for p, source in self.sources.items()}
        return [replace(r, from_offset=max(r.from_offset, starts[r.topic_partition])) for r in ranges]

    def add_source(self, asked: OffsetRange, offsets: Iterable[int]) -> None:
        """What the source has in a range of :meth:`doubtful`: its other offsets need not be found.

        :param offsets: in order.
        """
        seen, expected = self._unseen[asked.topic_partition], asked.from_offset
        for offset in offsets:
            seen.add_range(expected, offset)
            expected = offset + 1
        seen.add_range(expected, asked.until_offset)

    def missing(self) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """Offsets that the group has not consumed and that were not found in the target.

        :return: those that the source has, and those that it has no longer, of which nobody knows.
        """
        there, gone = list[OffsetRange](), list[OffsetRange]()
        for source, seen in self._unseen.items():
            start = self.sources[source].log_start
            for r in OffsetRanges(seen.missing()).merge():
                if r.from_offset < start:
                    gone.append(OffsetRange(r.topic, r.partition, r.from_offset, min(start, r.until_offset)))
                if r.until_offset > start:
                    there.append(OffsetRange(r.topic, r.partition, max(start, r.from_offset), r.until_offset))
        return there, gone

    def found(self) -> frozenset[str]:
        """The source topics of which the target has a record, as far as it was read."""
        return frozenset(source.topic for p in self._partitions.values() for source in p.sources)

    def positions(self) -> list[TargetPosition]:
        """The group's place in each partition, when :meth:`next_blocks` is empty."""
        positions = []
        for number, p in self._partitions.items():
            partition = TopicPartition(self.topic, number)
            if p.first is not None:
                positions.append(TargetPosition(partition, p.first, "record", p.seen_again, p.passed_over))
            elif p.last is not None:
                positions.append(TargetPosition(partition, p.last + 1, "end", 0, p.passed_over))
            else:
                positions.append(TargetPosition(partition, p.start, "start", 0, 0))
        return positions


def _joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Ranges of one partition, in order; those that are near one another are one."""
    joined = list[OffsetRange]()
    for r in ranges:
        if joined and r.from_offset - joined[-1].until_offset <= _NEAR:
            joined[-1] = replace(joined[-1], until_offset=r.until_offset)
        else:
            joined.append(r)
    return joined
