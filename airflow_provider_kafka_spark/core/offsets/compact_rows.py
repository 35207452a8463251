"""Thousands of ranges in few bytes: what results, events and the ledger have from a thousand ranges on. No I/O.

It is plain JSON, which the page's ``compact.js`` reads too. The offsets of each topic are numbers of seven bits a byte,
the lowest first and the eighth bit set in all but the last one (LEB128), in Base64: how far the partition's number is
after the one before it, how many ranges it has, and of each how far it begins after the end of the one before it, and
its size. Every other key of the ranges is a column: a value, how many ranges in a row have it, the next value. Counts
are those that a range has fewer than offsets.

>>> row = {"topic": "a", "partition": 3, "records_read": 4}
>>> rows = [{**row, "from_offset": n, "until_offset": n + 5} for n in (7, 300)]
>>> compacted(rows, least=2)
{'compact': 1, 'offsets': {'a': 'AwIHBaACBQ=='}, 'columns': {'records_read': [1, 2]}}
>>> rows_in(compacted(rows, least=2)) == rows
True
"""

from __future__ import annotations

import base64
import binascii
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from airflow_provider_kafka_spark.core.errors import OffsetRangeError

VERSION = 1
#: Fewer ranges are listed as they are.
LEAST = 1_000
#: More are listed, and are not read from the compact form.
MOST = 1_000_000
_MOST_COLUMNS = 20
_MARK, _OFFSETS, _COLUMNS = "compact", "offsets", "columns"
_PLACE = ("topic", "partition", "from_offset", "until_offset")
#: Counts of records, which are mostly the size of the range.
_COUNTS = frozenset({"planned_records", "records_read", "records_written"})
#: Where a range begins elsewhere: mostly where the one before it ends.
_FOLLOWS = "target_from_offset"
_MAX_OFFSET, _MAX_PARTITION = 2**63 - 1, 2**31 - 1


def compacted(rows: Sequence[Mapping[str, Any]], least: int = LEAST) -> list[Any] | dict[str, Any]:
    """The same ranges, sorted and compact; or the list as it is, if it is short or its ranges overlap.

    :param rows: of plain JSON, each with topic, partition, from_offset and until_offset.
    """
    if not least <= len(rows) <= MOST:
        return list(rows)
    ordered = sorted(rows, key=itemgetter(*_PLACE))
    offsets: dict[str, str] = {}
    for topic, of_topic in groupby(ordered, key=itemgetter("topic")):
        if (numbers := _numbers(of_topic)) is None:
            return list(rows)
        offsets[topic] = base64.b64encode(_bytes(numbers)).decode()
    names = sorted({name for row in ordered for name in row} - {*_PLACE})
    columns = {name: _runs(_coded(name, ordered)) for name in names}
    return {_MARK: VERSION, _OFFSETS: offsets, _COLUMNS: columns}


def rows_in(value: Any, most: int = MOST) -> Any:
    """The ranges of what :func:`compacted` gave; anything else as it is.

    :param most: ranges that it may have.
    :raises OffsetRangeError: if it is compact, and malformed.
    """
    if not isinstance(value, Mapping) or _MARK not in value:
        return value
    if value.keys() != {_MARK, _OFFSETS, _COLUMNS} or type(value[_MARK]) is not int or value[_MARK] != VERSION:
        raise _malformed(
            f"the version {reprlib.repr(value[_MARK])} and the keys {reprlib.repr(sorted(map(str, value)))}"
        )
    rows = list(_rows(value[_OFFSETS], most))
    columns = value[_COLUMNS]
    if not isinstance(columns, Mapping) or len(columns) > _MOST_COLUMNS or columns.keys() & {*_PLACE}:
        raise _malformed("other columns")
    for name, runs in columns.items():
        _add_column(rows, str(name), runs)
    return rows


def _coded(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """The values of a column; null where a range has none."""
    follows = 0
    for row in rows:
        value, size = row.get(name), row["until_offset"] - row["from_offset"]
        if type(value) is not int or name not in {*_COUNTS, _FOLLOWS}:
            yield value
        elif name in _COUNTS:
            yield size - value
        else:
            yield value - follows
            follows = value + size


def _runs(values: Iterable[Any]) -> list[Any]:
    runs: list[Any] = []
    for value in values:
        if runs and runs[-2] == value and type(runs[-2]) is type(value):
            runs[-1] += 1
        else:
            runs += (value, 1)
    return runs


def _numbers(of_topic: Iterable[Mapping[str, Any]]) -> list[int] | None:
    """Of the ranges of one topic, sorted; None if they overlap."""
    numbers: list[int] = []
    before = 0
    for partition, group in groupby(of_topic, key=lambda row: int(row["partition"])):
        ranges, end = list(group), 0
        numbers += (partition - before, len(ranges))
        before = partition
        for row in ranges:
            if row["from_offset"] < end:
                return None
            numbers += (row["from_offset"] - end, row["until_offset"] - row["from_offset"])
            end = row["until_offset"]
    return numbers


def _bytes(numbers: Iterable[int]) -> bytes:
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _numbers_in(text: object, where: str) -> list[int]:
    try:
        data = base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise _malformed(where) from None
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        elif shift > 63:
            raise _malformed(where)
    if shift:
        raise _malformed(where)
    return numbers


def _rows(offsets: object, most: int) -> Iterator[dict[str, Any]]:
    if not isinstance(offsets, Mapping):
        raise _malformed("no offsets")
    made = 0
    for topic, text in offsets.items():
        where = f"the offsets of {reprlib.repr(topic)}"
        numbers = _numbers_in(text, where)
        at = partition = 0
        while at < len(numbers):
            step, count = numbers[at : at + 2] if at + 1 < len(numbers) else (0, 0)
            pairs = numbers[at + 2 : at + 2 + 2 * count]
            partition, made = partition + step, made + count
            is_next = at == 0 or step > 0
            if not is_next or not count or len(pairs) < 2 * count or made > most or partition > _MAX_PARTITION:
                raise _malformed(where)
            at += 2 + 2 * count
            until = 0
            for gap, size in zip(pairs[::2], pairs[1::2], strict=True):
                start, until = until + gap, until + gap + size
                if until > _MAX_OFFSET:
                    raise _malformed(where)
                yield {"topic": str(topic), "partition": partition, "from_offset": start, "until_offset": until}


def _add_column(rows: Sequence[dict[str, Any]], name: str, runs: object) -> None:
    """Add the values to the rows, from the first to the last one."""
    if not isinstance(runs, list) or len(runs) % 2:
        raise _malformed(f"the column {reprlib.repr(name)}")
    i = follows = 0
    for value, times in zip(runs[::2], runs[1::2], strict=True):
        if type(times) is not int or not 0 < times <= len(rows) - i:
            raise _malformed(f"the column {reprlib.repr(name)}")
        for row in rows[i : i + times]:
            size, found = row["until_offset"] - row["from_offset"], value
            if type(value) is int and name in _COUNTS:
                found = size - value
            elif type(value) is int and name == _FOLLOWS:
                found = follows + value
                follows = found + size
            if found is not None:
                row[name] = found
        i += times
    if i != len(rows):
        raise _malformed(f"the column {reprlib.repr(name)}")


def _malformed(what: str) -> OffsetRangeError:
    return OffsetRangeError(
        f"Compact ranges must be as a task or an asset event of this version of the package has them; got {what}. Pass "
        "them on as they are, or a list of ranges."
    )
