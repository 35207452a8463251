"""Half-open ranges of Kafka offsets, and the algebra on sets of them. No I/O.

The names are Spark's (``org.apache.spark.streaming.kafka010.OffsetRange``): a range holds the offsets from
``from_offset`` up to, but not including, ``until_offset``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from airflow_provider_kafka_spark.core.errors import OffsetRangeError
from airflow_provider_kafka_spark.core.offsets.compact_rows import LEAST, compacted, rows_in

#: What Kafka accepts as a topic name (``org.apache.kafka.common.internals.Topic``): at most 249 of these characters.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Python refuses to convert texts of thousands of digits.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,99}")
MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1
#: Keys that only the ranges of a plan or a result have.
COUNT_KEYS = frozenset({"planned_records", "records_read", "records_written", "records_rejected", "reason"})
#: All keys that a range may have that is replayed as a task returned it; ``core.topics.known_topics`` reads the ids.
_RESULT_KEYS = COUNT_KEYS | {"topic_id", "cluster_id"}
_ORDER = attrgetter("topic", "partition", "from_offset", "until_offset")
_PARTITION = attrgetter("topic", "partition")
_EXAMPLE = "'orders:0:100:200' or {'topic': 'orders', 'partition': 0, 'from_offset': 100, 'until_offset': 200}"


# A plan has the same names in tens of thousands of ranges.
@lru_cache(maxsize=1 << 14)
def is_topic_name(name: str) -> bool:
    """Whether a topic can have this name.

    >>> is_topic_name("orders.eu-1"), is_topic_name(".."), is_topic_name("a b")
    (True, False, False)
    """
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


class _Place(NamedTuple):
    topic: str
    partition: int


class TopicPartition(_Place):
    """One partition of one topic. A tuple, which costs little as a key: a plan of many partitions looks up each often.

    :raises OffsetRangeError: if the topic is no legal Kafka name, or the partition is no integer >= 0.
    """

    __slots__ = ()

    def __new__(cls, topic: str, partition: int) -> TopicPartition:
        if not _is_partition(topic, partition):
            _check_partition(topic, partition)
        return tuple.__new__(cls, (topic, partition))

    @classmethod
    def of(cls, place: tuple[str, int]) -> TopicPartition:
        """:param place: of a range or of a broker, which is not checked again."""
        return tuple.__new__(cls, place)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, order=True, slots=True)
class OffsetRange:
    """The offsets ``from_offset <= offset < until_offset`` of one partition; empty when the two are equal.

    >>> OffsetRange.parse("orders.eu-1:0:100:200").size
    100

    :param topic: name of the topic.
    :param partition: number of the partition, from 0.
    :param from_offset: the first offset, inclusive.
    :param until_offset: the end, exclusive.
    :raises OffsetRangeError: if any of them is malformed, negative, or the range is reversed.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        start, end = self.from_offset, self.until_offset
        are_offsets = type(start) is type(end) is int and 0 <= start <= end <= MAX_OFFSET
        if are_offsets and _is_partition(self.topic, self.partition):
            return
        where = str(TopicPartition(self.topic, self.partition))
        _check_integer("from_offset", self.from_offset, MAX_OFFSET, where)
        _check_integer("until_offset", self.until_offset, MAX_OFFSET, where)
        if self.from_offset > self.until_offset:
            raise OffsetRangeError(
                f"An offset range must not be reversed: from_offset <= until_offset. Got from_offset="
                f"{self.from_offset}, until_offset={self.until_offset} at {where}. Swap the two if they were mixed up."
            )

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition.of((self.topic, self.partition))

    @property
    def size(self) -> int:
        """How many offsets it spans: an upper bound of its records, since compaction and transactions leave gaps."""
        return self.until_offset - self.from_offset

    @property
    def is_empty(self) -> bool:
        return self.from_offset == self.until_offset

    @classmethod
    def parse(cls, value: object) -> OffsetRange:
        """Read a range from ``"topic:partition:from:until"`` or a mapping with exactly the four field names.

        Counts and ids in the ranges of a plan or result are ignored.

        :raises OffsetRangeError: if it is neither, or any part of it is malformed.
        """
        if isinstance(value, OffsetRange):
            return value
        if isinstance(value, str):
            return cls._parse_text(value)
        if isinstance(value, Mapping):
            return cls._parse_mapping(value)
        raise OffsetRangeError(f"An offset range must be {_EXAMPLE}; got {value!r} of type {type(value).__name__}.")

    @classmethod
    def _parse_text(cls, text: str) -> OffsetRange:
        parts = text.rsplit(":", 3)
        if len(parts) != 4 or not all(_NUMBER.fullmatch(part) for part in parts[1:]):
            raise OffsetRangeError(
                f"An offset range in text must be 'topic:partition:from:until' with three plain numbers >= 0, "
                f"such as 'orders:0:100:200'; got {text!r}."
            )
        return cls(parts[0], int(parts[1]), int(parts[2]), int(parts[3]))

    @classmethod
    def _parse_mapping(cls, mapping: Mapping[Any, Any]) -> OffsetRange:
        expected = {"topic", "partition", "from_offset", "until_offset"}
        if mapping.keys() == expected:
            return cls(**mapping)
        mapping = {key: value for key, value in mapping.items() if key not in _RESULT_KEYS}
        if set(mapping) != expected:
            missing, unknown = sorted(expected - set(mapping)), sorted(map(str, set(mapping) - expected))
            raise OffsetRangeError(
                f"An offset range must have exactly the keys {sorted(expected)}, as in {_EXAMPLE}; "
                f"got {dict(mapping)!r}: missing {missing}, unknown {unknown}."
            )
        return cls(**{str(key): value for key, value in mapping.items()})

    def format(self) -> str:
        """The text form; ``OffsetRange.parse`` reads it back."""
        return f"{self.topic}:{self.partition}:{self.from_offset}:{self.until_offset}"

    def to_dict(self) -> dict[str, Any]:
        """The plain JSON form; ``OffsetRange.parse`` reads it back."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from_offset": self.from_offset,
            "until_offset": self.until_offset,
        }

    def split(self, max_size: int) -> tuple[OffsetRange, ...]:
        """Cut into consecutive ranges of at most ``max_size`` offsets; an empty range stays one.

        :raises OffsetRangeError: if ``max_size`` is no integer >= 1.
        """
        _check_integer("max_size", max_size, MAX_OFFSET, where=self.format())
        if max_size < 1:
            raise OffsetRangeError(f"The largest size of a piece must be at least 1 offset; got {max_size!r}.")
        if self.size <= max_size:
            return (self,)
        starts = range(self.from_offset, self.until_offset, max_size)
        return tuple(
            replace(self, from_offset=start, until_offset=min(start + max_size, self.until_offset)) for start in starts
        )

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] {self.from_offset:,} to {self.until_offset:,}"


class OffsetRanges(tuple[OffsetRange, ...]):
    """A sorted tuple of ranges, no two of which share an offset.

    Adjacent ranges stay apart until :meth:`merge`: a replay runs one Spark partition per range that was asked for.
    Empty ranges are kept, so that an idle partition stays visible in a plan; the algebra drops them.

    >>> OffsetRanges.parse(["orders:0:0:10", "orders:0:20:30"]).subtract(OffsetRanges.parse(["orders:0:5:25"]))
    OffsetRanges('orders:0:0:5', 'orders:0:25:30')

    :raises OffsetRangeError: if a range occurs twice, or two overlap.
    """

    __slots__ = ()

    def __new__(cls, ranges: Iterable[OffsetRange] = ()) -> OffsetRanges:
        ordered = sorted(ranges, key=_ORDER)
        for place, next_place in pairwise(map(_ORDER, ordered)):
            if place == next_place:
                raise OffsetRangeError(
                    f"The range {OffsetRange(*place).format()!r} is given twice. Name each range once."
                )
        for earlier, later in pairwise(_not_empty(ordered)):
            if later.from_offset < earlier.until_offset and _PARTITION(earlier) == _PARTITION(later):
                raise OffsetRangeError(
                    f"The ranges {earlier.format()!r} and {later.format()!r} overlap: their common records would be "
                    f"written twice. Correct them, or pass merge_overlaps=True to write each record once."
                )
        return super().__new__(cls, ordered)

    @classmethod
    def _of(cls, ranges: Iterable[OffsetRange]) -> OffsetRanges:
        """Of ranges that are sorted and share no offset, as all that the algebra makes of sorted ranges are."""
        return super().__new__(cls, ranges)

    @classmethod
    def parse(cls, values: object, *, merge_overlaps: bool = False) -> OffsetRanges:
        """Read a list of ranges, each as :meth:`OffsetRange.parse` takes it, in any order.

        :param values: the ranges; any iterable but a string or a mapping, or the compact form of a result.
        :param merge_overlaps: unite ranges that overlap or repeat, in place of refusing them. Ranges that only touch
            stay apart.
        :raises OffsetRangeError: if a range is malformed, or two overlap and ``merge_overlaps`` is false.
        """
        values = rows_in(values)
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise OffsetRangeError(f"Offset ranges must be a list, each item {_EXAMPLE}; got {values!r}.")
        values = list(values)
        if any(isinstance(value, list) or (isinstance(value, Mapping) and "ranges" in value) for value in values):
            raise OffsetRangeError(
                f"Offset ranges must be those of one task, a list with each item {_EXAMPLE}; got a list of "
                f"{len(values)} lists or results, as a mapped task returns it. Map over it: "
                ".expand(offset_ranges=mapped.output)."
            )
        ranges = [OffsetRange.parse(value) for value in values]
        if merge_overlaps:
            # Empty ranges overlap with nothing, and stay visible.
            ranges = [*_unite(ranges, touching=False), *{r for r in ranges if r.is_empty}]
        return cls(ranges)

    def format(self) -> list[str]:
        return [r.format() for r in self]

    def to_json(self) -> list[str] | dict[str, Any]:
        """Plain JSON, compact if they are many; ``OffsetRanges.parse`` reads it back."""
        found = compacted([r.to_dict() for r in self]) if len(self) >= LEAST else None
        return found if isinstance(found, dict) else self.format()

    @property
    def total(self) -> int:
        """The number of offsets in all ranges together."""
        return sum(r.size for r in self)

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.of(partition) for partition, _ in groupby(self, key=_PARTITION))

    def by_topic(self) -> dict[str, OffsetRanges]:
        return {topic: self._of(group) for topic, group in groupby(self, key=attrgetter("topic"))}

    def by_partition(self) -> Iterator[tuple[TopicPartition, tuple[OffsetRange, ...]]]:
        for partition, group in groupby(self, key=_PARTITION):
            yield TopicPartition.of(partition), tuple(group)

    def index_of_range_holding(self, piece: OffsetRange) -> int:
        """The index of the range that holds all of ``piece``.

        :raises LookupError: if none does.
        """
        # The probe sorts after every range that starts at or before the piece.
        probe = (piece.topic, piece.partition, piece.from_offset, MAX_OFFSET)
        i = bisect_right(self, probe, key=_ORDER) - 1
        while i >= 0 and _PARTITION(self[i]) == _PARTITION(piece):
            if piece.until_offset <= self[i].until_offset:
                return i
            if not self[i].is_empty:
                break
            # An empty range may lie within the one that is searched.
            i -= 1
        raise LookupError(f"No range holds {piece}.")

    def without_empty(self) -> OffsetRanges:
        return self._of(_not_empty(self))

    def merge(self, other: Iterable[OffsetRange] = ()) -> OffsetRanges:
        """The union, with ranges that overlap or touch made one."""
        return self._of(_unite([*self, *other], touching=True))

    def subtract(self, other: Iterable[OffsetRange]) -> OffsetRanges:
        """What is in these ranges and not in ``other``. Boundaries between these ranges are kept."""
        return self._of(_cut_out(_not_empty(self), _unite(other, touching=True)))

    def intersect(self, other: Iterable[OffsetRange]) -> OffsetRanges:
        """What is both in these ranges and in ``other``. Boundaries between these ranges are kept."""
        return self.subtract(self.subtract(other))

    def split(self, max_size: int) -> OffsetRanges:
        """Cut every range into pieces of at most ``max_size`` offsets."""
        return OffsetRanges(piece for r in self for piece in r.split(max_size))

    def __repr__(self) -> str:
        return f"OffsetRanges({', '.join(map(repr, self.format()))})"


def by_topic(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Values by partition as Spark has offsets in JSON, sorted.

    >>> by_topic({TopicPartition("orders", 0): 23})
    {'orders': {'0': 23}}
    """
    found: dict[str, dict[str, int]] = {}
    for p, value in sorted(values.items()):
        found.setdefault(p.topic, {})[str(p.partition)] = value
    return found


def _not_empty(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    return [r for r in ranges if r.from_offset != r.until_offset]


def _unite(ranges: Iterable[OffsetRange], *, touching: bool) -> list[OffsetRange]:
    """The union, sorted, with ranges that overlap made one, and those that touch if that is wanted."""
    united: list[OffsetRange] = []
    for r in sorted(_not_empty(ranges), key=_ORDER):
        last = united[-1] if united else None
        if last is None or r.from_offset >= last.until_offset + touching or _PARTITION(last) != _PARTITION(r):
            united.append(r)
        elif r.until_offset > last.until_offset:
            united[-1] = OffsetRange(r.topic, r.partition, last.from_offset, r.until_offset)
    return united


def _cut_out(ranges: Sequence[OffsetRange], holes: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
    """What remains of ranges outside of holes. Both are sorted and share no offset; none is empty."""
    passed = 0
    for r in ranges:
        partition, start = _PARTITION(r), r.from_offset
        while passed < len(holes) and (*_PARTITION(holes[passed]), holes[passed].until_offset) <= (*partition, start):
            passed += 1
        at = passed
        while at < len(holes) and holes[at].from_offset < r.until_offset and _PARTITION(holes[at]) == partition:
            if holes[at].from_offset > start:
                yield OffsetRange(r.topic, r.partition, start, holes[at].from_offset)
            start = holes[at].until_offset
            at += 1
        if start == r.from_offset:
            yield r
        elif start < r.until_offset:
            yield OffsetRange(r.topic, r.partition, start, r.until_offset)


def _is_partition(topic: object, number: object) -> bool:
    """Whether they are what nearly all are; otherwise the checks with a message decide."""
    return type(topic) is str and type(number) is int and 0 <= number <= _MAX_PARTITION and is_topic_name(topic)


def _check_partition(topic: object, number: object) -> None:
    if not isinstance(topic, str) or not is_topic_name(topic):
        raise OffsetRangeError(
            f"A topic name must be 1 to 249 letters, digits, dots, dashes and underscores, such as 'orders'; "
            f"got {topic!r}." + ("" if isinstance(topic, str) else f" That is no text but {type(topic).__name__}.")
        )
    _check_integer("partition", number, _MAX_PARTITION, where=topic)


def _check_integer(name: str, value: object, largest: int, where: str) -> None:
    # bool is an int in Python, and True would pass as partition 1.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise OffsetRangeError(
            f"{name} must be an integer from 0 to {largest}, such as 100; got {value!r} of type "
            f"{type(value).__name__} at {where}. Text, null, fractions and Spark's -1 and -2 are not offsets of a "
            "range."
        )
