"""Requested bounds: where a copy starts and ends, before a broker resolves them. No I/O, no clock.

A requested offset is one of :class:`Earliest`, :class:`Latest`, :class:`AtOffset` and :class:`AtTimestamp`;
``core.topics.resolve`` turns each into an offset. Spark's numbers for the words, -2 and -1, are accepted in offsets
JSON only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from airflow_provider_kafka_spark.core.checks import read_json
from airflow_provider_kafka_spark.core.errors import BoundError, PlanError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition, by_topic

#: A smaller number, read as milliseconds since 1970, lies before 1973-03-03 and is most likely in seconds.
SMALLEST_EPOCH_MS = 10**11
#: Beyond this (the year 5138) it is most likely microseconds.
_LARGEST_EPOCH_MS = 10**14

#: Producers' clocks and sending times differ by this much, in ms.
_OUT_OF_ORDER_MS = 1_000
#: Of sampled records: at least so many outside of the window, and so many times those inside, are an error.
_FEWEST_OUTSIDE, _FAR_MORE = 20, 10

_EPOCH_TEXT = re.compile(r"-?[0-9]{1,30}")

#: Beside the partitions of a topic.
_TOPIC_ID = "topic_id"

Side = Literal["start", "end", "stream start"]


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that is still there."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log at planning time; under ``read_committed`` the last stable offset."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """Exactly this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first offset whose timestamp is at or after ``epoch_ms``, as Kafka's ListOffsets has it."""

    epoch_ms: int


RequestedOffset = Earliest | Latest | AtOffset | AtTimestamp


@dataclass(frozen=True, slots=True)
class Bound:
    """One requested offset for all partitions, or one for each.

    :param default: what holds for every partition that is not named.
    :param by_partition: requested offsets of single partitions; without a default, every selected partition must be
        named.
    :param topic_ids: of the topics that the offsets are of, as far as they are said.
    """

    default: RequestedOffset | None
    by_partition: Mapping[TopicPartition, RequestedOffset]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def everywhere(cls, requested: RequestedOffset) -> Bound:
        return cls(requested, {})

    def requested_for(self, topic_partition: TopicPartition) -> RequestedOffset:
        """:raises BoundError: if there is no default and the partition is not named."""
        requested = self.by_partition.get(topic_partition, self.default) if self.by_partition else self.default
        if requested is None:
            raise BoundError(
                f"Offsets given by partition must name every partition that is read, as Spark asks; {topic_partition} "
                f"is missing (named: {', '.join(map(str, sorted(self.by_partition)))}). Add it, with -2 for its "
                "earliest or -1 for its latest offset."
            )
        return requested

    def to_json(self) -> str | int | dict[str, dict[str, Any]]:
        """One form for each meaning, as plain JSON; ``core.topics.starts.parse_any_start`` reads it back.

        >>> Bound.everywhere(AtTimestamp(1795168800000)).to_json()
        1795168800000
        >>> parse_bound('{"orders": {"1": -2, "0": 23}}', "start").to_json()
        {'orders': {'0': 23, '1': -2}}
        """
        if isinstance(self.default, AtTimestamp):
            return self.default.epoch_ms
        if self.default is not None:
            return "latest" if isinstance(self.default, Latest) else "earliest"
        offsets = by_topic({p: _number_of(bound) for p, bound in self.by_partition.items()})
        ids = {name: {_TOPIC_ID: topic_id} for name, topic_id in self.topic_ids.items()}
        return {name: {**of_topic, **ids.get(name, {})} for name, of_topic in offsets.items()}


def parse_bound(value: object, side: Side, name: str | None = None) -> Bound:
    """Read ``starting_offsets`` or ``ending_offsets``: Spark's words, or Spark's offsets by topic and partition.

    >>> parse_bound("earliest", "start").default
    Earliest()
    >>> parse_bound({"orders": {"0": 23, "1": -2}}, "start").requested_for(TopicPartition("orders", 0))
    AtOffset(offset=23)

    :param value: ``"earliest"``, ``"latest"``, ``{"orders": {"0": 23}}``, or that as JSON text. A topic may have a
        ``topic_id`` beside its partitions, as a sensor returns it.
    :param side: which end of the range it is; a batch cannot start at the latest offset or end at the earliest, a
        stream can start anywhere.
    :param name: what the message should call it, where it is neither ``starting_offsets`` nor ``ending_offsets``.
    :raises BoundError: if it is anything else, names an offset that is no integer, or a key twice.
    """
    name = name or ("ending_offsets" if side == "end" else "starting_offsets")
    if isinstance(value, Bound):
        return value
    if isinstance(value, str) and (word := value.strip().lower()) in ("earliest", "latest"):
        return _parse_word(word, side, name)
    allowed = "'latest'" if side == "end" else "'earliest'"
    if isinstance(value, str):
        try:
            value = read_json(value, name)
        except (ValueError, RecursionError) as error:
            raise BoundError(
                f'{name} must be {allowed} or offsets such as \'{{"orders": {{"0": 23}}}}\'; got {value!r}, which is '
                f"not JSON: {error}."
            ) from error
    if not isinstance(value, Mapping) or not value:
        raise BoundError(f"{name} must be {allowed} or offsets such as {{'orders': {{'0': 23}}}}; got {value!r}.")
    return _parse_offsets(value, side, name)


def _parse_word(word: str, side: Side, name: str) -> Bound:
    if word == "latest" and side == "start":
        raise BoundError(
            f"{name}='latest' would copy nothing: a bounded copy that starts at the latest offset is empty, and "
            "Spark refuses it. Use 'earliest', offsets, or starting_timestamp."
        )
    if word == "earliest" and side == "end":
        raise BoundError(f"{name}='earliest' would copy nothing. Use 'latest', offsets, or ending_timestamp.")
    return Bound.everywhere(Earliest() if word == "earliest" else Latest())


def _parse_offsets(value: Mapping[Any, Any], side: Side, name: str) -> Bound:
    by_partition: dict[TopicPartition, RequestedOffset] = {}
    ids: dict[str, str] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise BoundError(
                f"{name} must map each topic to offsets by partition, such as {{'orders': {{'0': 23}}}}; "
                f"got {partitions!r} for topic {topic!r}."
            )
        for partition, offset in partitions.items():
            if partition == _TOPIC_ID and isinstance(offset, str):
                ids[topic] = offset
                continue
            topic_partition = TopicPartition(topic, _parse_partition(partition, name, topic))
            if topic_partition in by_partition:
                raise BoundError(f"{name} names {topic_partition} twice. Name each partition once.")
            by_partition[topic_partition] = _parse_offset(offset, side, name, topic_partition)
    return Bound(None, by_partition, ids)


def parse_timestamp(value: object, name: str) -> int:
    """Read a moment as milliseconds since 1970-01-01 UTC.

    >>> parse_timestamp("2026-11-20T10:00:00+01:00", "starting_timestamp")
    1795165200000

    :param value: an aware ``datetime``, ISO 8601 text with an offset or ``Z``, or epoch milliseconds as a number or
        text.
    :param name: what the message should call it.
    :raises BoundError: if it is naive (no time zone), no moment, or a number that is not in milliseconds.
    """
    if isinstance(value, str):
        text = value.strip()
        # str.isdigit() would take '²', and int() refuses thousands of digits.
        if _EPOCH_TEXT.fullmatch(text):
            value = int(text)
        else:
            try:
                # Python 3.10 does not read the Z.
                value = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
            except ValueError as error:
                raise BoundError(
                    f"{name} must be ISO 8601 with a time zone, such as '2026-11-20T10:00:00Z', an aware datetime, or "
                    f"epoch milliseconds; got {text!r}. If it came from a template, the run may have no data "
                    "interval: see CronDataIntervalTimetable."
                ) from error
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise BoundError(
                f"{name} must have a time zone, such as '2026-11-20T10:00:00Z'; got the naive {value.isoformat()!r}, "
                "which could mean any of 26 hours. Add 'Z' for UTC or an offset such as '+01:00'."
            )
        # Integer arithmetic: a float of epoch seconds loses milliseconds.
        delta = value - datetime(1970, 1, 1, tzinfo=timezone.utc)
        epoch_ms = (delta.days * 86_400 + delta.seconds) * 1_000 + delta.microseconds // 1_000
        if not 0 <= epoch_ms <= _LARGEST_EPOCH_MS:
            # To Kafka -1 and -2 mean "latest" and "earliest".
            raise BoundError(f"{name} must lie between 1970 and 5138; got {value.isoformat()!r}.")
        return epoch_ms
    if isinstance(value, bool) or not isinstance(value, int):
        raise BoundError(
            f"{name} must be an aware datetime, ISO 8601 text with a time zone, or epoch milliseconds; got {value!r} "
            f"of type {type(value).__name__}."
        )
    if not SMALLEST_EPOCH_MS <= value <= _LARGEST_EPOCH_MS:
        unit = "seconds; multiply by 1000" if value < SMALLEST_EPOCH_MS else "microseconds; divide by 1000"
        raise BoundError(
            f"{name} must be in milliseconds since 1970, such as 1795165200000; got {value!r}: is it in {unit}?"
        )
    return value


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A half-open window of record timestamps, in ms since 1970 UTC; either end may be open.

    :raises BoundError: if it is reversed or of zero width.
    """

    start_ms: int | None
    end_ms: int | None

    def __post_init__(self) -> None:
        if self.start_ms is None or self.end_ms is None or self.start_ms < self.end_ms:
            return
        if self.start_ms == self.end_ms:
            raise BoundError(
                "The window from starting_timestamp to ending_timestamp has zero width: both are "
                f"{iso(self.start_ms)}. In Airflow 3 a cron string such as '@hourly' gives runs whose data interval "
                "is a single moment. Schedule the DAG with CronDataIntervalTimetable('0 * * * *', timezone='UTC'), or "
                "with CronTriggerTimetable(..., interval=timedelta(hours=1)), whose runs have a real data interval."
            )
        raise BoundError(
            f"The window must not be reversed: starting_timestamp {iso(self.start_ms)} lies after ending_timestamp "
            f"{iso(self.end_ms)}."
        )

    def has(self, epoch_ms: int) -> bool:
        """Whether a time lies in it."""
        return (self.start_ms is None or self.start_ms <= epoch_ms) and (self.end_ms is None or epoch_ms < self.end_ms)


def check_samples(samples: Mapping[TopicPartition, Sequence[int]], window: TimeWindow) -> None:
    """:param samples: as of :func:`older_than_window`.
    :raises PlanError: if far more of the planned records are outside of the window than inside.
    """
    times = [ms for of_partition in samples.values() for ms in of_partition]
    outside = [ms for ms in times if not window.has(ms)]
    if len(outside) >= max(_FEWEST_OUTSIDE, _FAR_MORE * (len(times) - len(outside))):
        raise PlanError(
            f"Most records of a window must have their time in it; of {len(times):,} that were read out of the planned "
            f"offsets, {len(outside):,} have not, such as one of {moment(min(outside))}. Nothing was written. "
            "exact_window=False copies them all, so that consecutive windows still take every record once; "
            "exact_window=True leaves out those outside of the window; starting_offsets and ending_offsets cut a log "
            "without order."
        )


def older_than_window(samples: Mapping[TopicPartition, Sequence[int]], window: TimeWindow) -> list[str]:
    """A warning if planned offsets hold records from before the window: timestamps are out of order there.

    :param samples: timestamps, in ms, of some planned records of each partition.
    """
    start = window.start_ms or 0
    oldest = {p: min(times) for p, times in sorted(samples.items()) if times}
    early = {p: ms for p, ms in oldest.items() if ms < start - _OUT_OF_ORDER_MS}
    if not early:
        return []
    partition, ms = min(early.items(), key=lambda item: item[1])
    return [
        (
            f"The planned offsets of {len(early):,} of the partitions have records from before the window, such as "
            f"one of {iso(ms)} in {partition}, since timestamps are out of order there. All of them are copied; "
            "exact_window=True leaves out records from outside of the window."
        )
    ]


def check_window(window: TimeWindow, now_ms: int) -> None:
    """:raises BoundError: if the window starts or ends in the future: not all of its records have arrived, and a
    successful task would claim that they have.
    """
    if window.start_ms is not None and window.start_ms > now_ms:
        raise BoundError(
            f"starting_timestamp must not lie in the future; got {iso(window.start_ms)}, and now it is {iso(now_ms)}. "
            "A number is read as milliseconds since 1970."
        )
    if window.end_ms is not None and window.end_ms > now_ms:
        raise BoundError(
            "ending_timestamp must not lie in the future, or records that arrive until then would be left out of a "
            f"finished copy; got {iso(window.end_ms)}, and now it is {iso(now_ms)}. Wait for the window to close, as "
            "a schedule with a data interval does, or leave ending_timestamp out to copy what is there."
        )


def iso(epoch_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, for messages and logs."""
    moment = datetime.fromtimestamp(epoch_ms // 1_000, tz=timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1_000:03d}Z"


def moment(epoch_ms: int) -> str:
    """As :func:`iso`, of any number."""
    # The largest that Python's datetime has is in the year 9999.
    return iso(epoch_ms) if epoch_ms < 253_402_300_800_000 else f"{epoch_ms:,} ms"


def _number_of(bound: RequestedOffset) -> int:
    if isinstance(bound, AtOffset):
        return bound.offset
    return -1 if isinstance(bound, Latest) else -2


def _parse_partition(value: object, name: str, topic: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise BoundError(f"{name} must name partitions by number, such as '0'; got {value!r} for topic {topic!r}.")


def _parse_offset(value: object, side: Side, name: str, where: TopicPartition) -> RequestedOffset:
    sentinels: dict[int, RequestedOffset] = {} if side == "end" else {-2: Earliest()}
    if side != "start":
        sentinels[-1] = Latest()
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= 0:
            return AtOffset(value)
        if value in sentinels:
            return sentinels[value]
    word = "-1 for the latest" if side == "end" else "-2 for the earliest"
    raise BoundError(
        f"{name} must give an integer offset >= 0, or {word}, for {where}; got {value!r} of type "
        f"{type(value).__name__}. Spark would read null as 0."
    )
