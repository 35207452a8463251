"""What sensors wait for, as rules over facts of the broker: the same in a worker and in the triggerer. No I/O, no clock.

A condition is one of :class:`NewRecords`, :class:`TimestampReached`, :class:`GroupLag`. Nothing is kept between two looks: each judges by what the broker tells then, so that poking,
rescheduling and deferring give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_provider_kafka_spark.core.bounds import AtOffset, AtTimestamp, Earliest, Wish, iso, parse_timestamp
from airflow_provider_kafka_spark.core.broker_state import PartitionState, Selection
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    InvalidInputError,
    OptionError,
    PlanError,
    ProtocolError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.facts import Facts, Needs, check_missing_topic, present_topics
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.resolve import MissingRange, ReadRules, permit, resolve_start
from airflow_provider_kafka_spark.core.since import (
    Since,
    SinceCheckpoint,
    SinceGroup,
    SinceOffsets,
    SinceTimestamp,
    parse_since,
)

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one look at a condition gave.

    :param met: whether it holds.
    :param text: what was seen, for the log.
    :param value: what the task returns.
    :param xcoms: what else it pushes, by key.
    :param warnings: what the author should know.
    """

    met: bool
    text: str
    value: Any = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewRecords:
    """There are records that are new since some point.

    Records are counted by offsets: markers of transactions, aborted and compacted records count.

    :param max_wait_ms: so long after the timestamp of the first new record fewer than ``min_records`` are enough. By the record's own timestamp, which the broker knows, so that nothing needs to be
        kept between two looks.
    """

    selection: Selection
    since: Since
    min_records: int = 1
    max_wait_ms: int | None = None
    rules: ReadRules = field(default_factory=ReadRules)
    missing_topic: str = "fail"

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        topic_pattern: Any = None,
        since: Any = None,
        min_records: Any = 1,
        max_wait_for_min: Any = None,
        isolation_level: Any = "read_committed",
        fail_on_data_loss: bool = True,
        missing_topic: Any = "fail",
    ) -> NewRecords:
        """:raises InvalidInputError: naming the parameter that cannot be right."""
        condition = cls(
            _selection(topics, topic_pattern),
            parse_since(since),
            whole_number(min_records, "min_records", least=1),
            None if max_wait_for_min is None else milliseconds(max_wait_for_min, "max_wait_for_min"),
            ReadRules(_read_committed(isolation_level), fail_on_data_loss),
            check_missing_topic(missing_topic),
        )
        if isinstance(condition.since, SinceOffsets) and condition.selection.topics is not None:
            unread = sorted({p.topic for p in condition.since.bound.by_partition} - set(condition.selection.topics))
            if unread:
                raise BoundError(
                    f"since must name only topics that are waited for; {', '.join(unread)} is not among {', '.join(condition.selection.topics)}. Correct it, or add it to topics."
                )
        return condition

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "new_records",
            **_selection_json(self.selection),
            "since": self.since.to_json(),
            "min_records": self.min_records,
            "max_wait_for_min": None if self.max_wait_ms is None else self.max_wait_ms / 1000,
            "isolation_level": _isolation_level(self.rules),
            "fail_on_data_loss": self.rules.fail_on_data_loss,
            "missing_topic": self.missing_topic,
        }

    def needs(self, now_ms: int) -> Needs:
        since = self.since
        timestamps = {since.epoch_ms, 0} if isinstance(since, SinceTimestamp) else set()
        cutoff = self._cutoff(now_ms)
        return Needs(
            *_names(self.selection),
            timestamps=frozenset(timestamps if cutoff is None else timestamps | {cutoff}),
            retention=isinstance(since, SinceTimestamp),
            group_id=since.group_id if isinstance(since, SinceGroup) else None,
            checkpoint_location=since.location if isinstance(since, SinceCheckpoint) else None,
        )

    def check(self, facts: Facts, now_ms: int) -> Verdict:
        """:param now_ms: the time that the needs were told for.
        :raises DataLossError: if records since then have aged out, and that is not permitted.
        :raises PlanError: if since lies beyond the end, or names what does not exist.
        """
        topics = present_topics(self.selection, facts, self.missing_topic)
        if isinstance(topics, str):
            return Verdict(False, f"Waiting for a topic: {topics}")
        partitions = facts.partitions(topics)
        starts = self._starts(facts, partitions)
        fresh: list[OffsetRange] = []
        missing: list[MissingRange] = []
        ends: dict[TopicPartition, int] = {}
        for p, state in partitions.items():
            start, lost = self._start(starts[p], p, state, facts)
            missing += lost
            ends[p] = max(start, self.rules.end_of(state))
            if start < ends[p]:
                fresh.append(OffsetRange(p.topic, p.partition, start, ends[p]))
        permit(missing, self.rules)
        count, enough = sum(r.size for r in fresh), ""
        if count < self.min_records and not self._waited_long(fresh, facts, now_ms):
            return Verdict(False, f"{count:,} new records of {self.min_records:,} in {len(partitions)} partitions")
        if count < self.min_records:
            enough = (
                f", fewer than {self.min_records:,}, and the first is older than {(self.max_wait_ms or 0) / 1000:g} s"
            )
        return Verdict(
            True,
            f"{count:,} new records in {len(fresh)} of {len(partitions)} partitions{enough}",
            value=[r.to_dict() for r in fresh],
            xcoms={"offsets": _by_topic(ends)},
            warnings=tuple(f"{m.offset_range} is missing: {m.reason}" for m in missing),
        )

    def _cutoff(self, now_ms: int) -> int | None:
        # Whole seconds, so that sensors with the same wait ask the same.
        return None if self.max_wait_ms is None else max(0, now_ms // 1000 * 1000 - self.max_wait_ms)

    def _waited_long(self, fresh: list[OffsetRange], facts: Facts, now_ms: int) -> bool:
        """Whether a first new record is older than the longest wait: then the first one that is younger comes behind it."""
        cutoff = self._cutoff(now_ms)
        if cutoff is None:
            return False
        firsts = [(r, facts.cluster.first_at[(r.topic_partition, cutoff)]) for r in fresh]
        return any(first is None or first > r.from_offset for r, first in firsts)

    def _starts(self, facts: Facts, partitions: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, Wish]:
        since = self.since
        if isinstance(since, SinceTimestamp):
            return dict.fromkeys(partitions, AtTimestamp(since.epoch_ms))
        if isinstance(since, SinceOffsets):
            unknown = sorted(set(since.bound.by_partition) - set(partitions))
            if unknown:
                raise UnknownTopicError(
                    f"since must name only partitions that exist and are waited for; {', '.join(map(str, unknown[:8]))} is not among the {len(partitions)} partitions of "
                    f"{', '.join(sorted({p.topic for p in partitions}))} (connection {facts.cluster.conn_id!r}). Correct it. If there were more partitions before, the topic was deleted and created again."
                )
            return {p: since.bound.wish_for(p) for p in partitions}
        known = facts.group(since.group_id) if isinstance(since, SinceGroup) else facts.checkpoint(since.location)
        return {p: AtOffset(known[p]) if p in known else Earliest() for p in partitions}

    def _start(
        self, wish: Wish, p: TopicPartition, state: PartitionState, facts: Facts
    ) -> tuple[int, list[MissingRange]]:
        end = self.rules.end_of(state)
        if isinstance(wish, AtTimestamp):
            return resolve_start(wish, p, state, facts.cluster, self.rules, end)
        if not isinstance(wish, AtOffset):
            return min(state.log_start, end), []
        if wish.offset > state.high_watermark:
            raise PlanError(
                f"since must not lie beyond the end of the log; {_where(self.since)} says {wish.offset} for {p}, which ends at {state.high_watermark} (connection {facts.cluster.conn_id!r}). Correct it. If the "
                f"log was longer before, the topic was deleted and created again, and what was read of the old one says nothing about the new one."
            )
        start = max(wish.offset, min(state.log_start, end))
        if start == wish.offset:
            return start, []
        gone = OffsetRange(p.topic, p.partition, wish.offset, start)
        return start, [MissingRange(gone, f"aged out: the log now starts at {state.log_start}")]


@dataclass(frozen=True, slots=True)
class TimestampReached:
    """Every partition has a record at or after a moment, so that what lies before it is complete.

    A partition where no record came for so long counts as complete: its newest record, by timestamp, and the moment itself are both older than ``idle_ms``. An empty partition counts from
    the moment. Under ``read_committed`` no open transaction may lie before the moment's record, or anywhere in an idle partition.
    """

    selection: Selection
    epoch_ms: int
    idle_ms: int | None = None
    rules: ReadRules = field(default_factory=ReadRules)
    missing_topic: str = "fail"

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        timestamp: Any = None,
        idle_after: Any = None,
        isolation_level: Any = "read_committed",
        missing_topic: Any = "fail",
    ) -> TimestampReached:
        """:raises InvalidInputError: naming the parameter that cannot be right."""
        return cls(
            _selection(topics, None),
            parse_timestamp(timestamp, "timestamp"),
            None if idle_after is None else milliseconds(idle_after, "idle_after"),
            ReadRules(_read_committed(isolation_level)),
            check_missing_topic(missing_topic),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "timestamp_reached",
            "topics": list(self.selection.topics or ()),
            "timestamp": self.epoch_ms,
            "idle_after": None if self.idle_ms is None else self.idle_ms / 1000,
            "isolation_level": _isolation_level(self.rules),
            "missing_topic": self.missing_topic,
        }

    def needs(self, now_ms: int) -> Needs:  # noqa: ARG002 - as the others
        return Needs(*_names(self.selection), timestamps=frozenset({self.epoch_ms}), newest=self.idle_ms is not None)

    def check(self, facts: Facts, now_ms: int) -> Verdict:  # noqa: ARG002 - as the others
        """:raises UnknownTopicError: if a topic does not exist and is not to be waited for."""
        topics = present_topics(self.selection, facts, self.missing_topic)
        if isinstance(topics, str):
            return Verdict(False, f"Waiting for a topic: {topics}")
        ends: dict[TopicPartition, int] = {}
        idle: list[str] = []
        waiting: list[str] = []
        for p, state in facts.partitions(topics).items():
            first, stable = facts.cluster.first_at[(p, self.epoch_ms)], self.rules.end_of(state)
            if first is not None and (not self.rules.read_committed or first <= state.last_stable):
                ends[p] = first
            elif first is None and stable >= state.high_watermark and self._is_idle(p, facts):
                ends[p] = stable
                newest = facts.newest[p]
                idle.append(
                    f"{p} ({'empty' if newest is None else f'newest record {iso(newest)}'}, ends at {stable:,})"
                )
            else:
                hidden = "" if stable >= state.high_watermark else f", behind an open transaction at {stable:,}"
                waiting.append(f"{p}{hidden}")
        if waiting:
            shown = ", ".join(waiting[:8]) + (f" and {len(waiting) - 8} more" if len(waiting) > 8 else "")
            return Verdict(False, f"{len(waiting)} partitions have not reached {iso(self.epoch_ms)}: {shown}")
        return Verdict(
            True,
            f"All {len(ends)} partitions have reached {iso(self.epoch_ms)}",
            value=_by_topic(ends),
            warnings=tuple(
                f"{text} is idle for {(self.idle_ms or 0) / 1000:g} s and counts as complete; a record before {iso(self.epoch_ms)} that arrives there later is late."
                for text in idle
            ),
        )

    def _is_idle(self, p: TopicPartition, facts: Facts) -> bool:
        if self.idle_ms is None:
            return False
        newest = facts.newest[p]
        last = self.epoch_ms if newest is None else max(newest, self.epoch_ms)
        return facts.now_ms - last >= self.idle_ms


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A consumer group is at most so many offsets behind the end.

    A partition without a commit counts from the start of its log, as does one whose commit has aged out.

    :param per_partition: every partition, in place of all of them together.
    """

    selection: Selection
    group_id: str
    max_lag: int
    per_partition: bool = False
    rules: ReadRules = field(default_factory=ReadRules)
    missing_topic: str = "fail"

    @classmethod
    def parse(
        cls,
        *,
        topics: Any = None,
        group_id: Any = None,
        max_lag: Any = None,
        per_partition: bool = False,
        isolation_level: Any = "read_committed",
        missing_topic: Any = "fail",
    ) -> GroupLag:
        """:raises InvalidInputError: naming the parameter that cannot be right."""
        if not isinstance(group_id, str) or not group_id.strip():
            raise InvalidInputError(f"group_id must be the name of a consumer group; got {group_id!r}.")
        return cls(
            _selection(topics, None),
            group_id.strip(),
            whole_number(max_lag, "max_lag", least=0),
            per_partition,
            ReadRules(_read_committed(isolation_level)),
            check_missing_topic(missing_topic),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "group_lag",
            "topics": list(self.selection.topics or ()),
            "group_id": self.group_id,
            "max_lag": self.max_lag,
            "per_partition": self.per_partition,
            "isolation_level": _isolation_level(self.rules),
            "missing_topic": self.missing_topic,
        }

    def needs(self, now_ms: int) -> Needs:  # noqa: ARG002 - as the others
        return Needs(*_names(self.selection), group_id=self.group_id)

    def check(self, facts: Facts, now_ms: int) -> Verdict:  # noqa: ARG002 - as the others
        """:raises UnknownTopicError: if a topic does not exist and is not to be waited for.
        :raises PlanError: if a commit lies beyond the end: its topic was created again.
        """
        topics = present_topics(self.selection, facts, self.missing_topic)
        if isinstance(topics, str):
            return Verdict(False, f"Waiting for a topic: {topics}")
        committed = facts.group(self.group_id)
        lags: dict[TopicPartition, int] = {}
        for p, state in facts.partitions(topics).items():
            at = committed.get(p, state.log_start)
            if at > state.high_watermark:
                raise PlanError(
                    f"The commits of group {self.group_id!r} must not lie beyond the log; it has committed {at} of {p}, which ends at {state.high_watermark} (connection {facts.cluster.conn_id!r}). The topic was deleted and "
                    f"created again: reset the group's offsets."
                )
            lags[p] = max(0, self.rules.end_of(state) - max(at, state.log_start))
        total, largest = sum(lags.values()), max(lags.values(), default=0)
        judged, words = (largest, "in one partition") if self.per_partition else (total, "in all")
        return Verdict(
            judged <= self.max_lag,
            f"Group {self.group_id!r} is {judged:,} behind {words}, at most {self.max_lag:,} are wanted",
            value=_by_topic(lags),
        )


Condition = NewRecords | TimestampReached | GroupLag

_KINDS: Mapping[str, Callable[..., Condition]] = {
    "new_records": NewRecords.parse,
    "timestamp_reached": TimestampReached.parse,
    "group_lag": GroupLag.parse,
}


def parse_condition(value: Mapping[str, Any]) -> Condition:
    """Read back what ``to_json`` gave.

    :raises ProtocolError: if it is of no kind that is known here.
    """
    parameters = dict(value)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ProtocolError(
            f"A condition must be of one of the kinds {', '.join(_KINDS)}; got {kind!r}. Were worker and triggerer upgraded together?"
        )
    try:
        return _KINDS[kind](**parameters)
    except TypeError as error:
        raise ProtocolError(
            f"A condition of kind {kind!r} has other parameters: {error}. Were worker and triggerer upgraded together?"
        ) from error


def whole_number(value: object, name: str, *, least: int) -> int:
    """:raises OptionError: if it is no whole number of at least so much; text of digits is taken, since templates render to it."""
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise OptionError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return number


def milliseconds(value: object, name: str) -> int:
    """:raises OptionError: if it is no time span of more than 0 ms, as a number of seconds or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.001 <= seconds < 10**10:
        raise OptionError(
            f"{name} must be a number of seconds greater than 0, such as 300, or a timedelta; got {value!r}."
        )
    return round(seconds * 1000)


def _selection(topics: Any, pattern: Any) -> Selection:
    if topics is None and pattern is None:
        raise InvalidInputError(
            "Give topics=['orders'], or topic_pattern='orders\\..*' where a sensor takes one; got none."
        )
    if topics is not None and pattern is not None:
        raise InvalidInputError(
            f"Give exactly one of topics=['orders'] and topic_pattern='orders\\..*'; got {topics!r} and {pattern!r}."
        )
    selection = Selection(topics, pattern, None)
    return selection if topics is None else Selection(tuple(sorted(topics)), None, None)


def _names(selection: Selection) -> tuple[tuple[str, ...] | None, str | None]:
    return (None if selection.topics is None else tuple(selection.topics)), selection.pattern


def _selection_json(selection: Selection) -> dict[str, Any]:
    return {
        "topics": None if selection.topics is None else list(selection.topics),
        "topic_pattern": selection.pattern,
    }


def _read_committed(value: object) -> bool:
    if value not in ISOLATION_LEVELS:
        raise OptionError(f"isolation_level must be one of {ISOLATION_LEVELS}; got {value!r}.")
    return value == "read_committed"


def _isolation_level(rules: ReadRules) -> str:
    return "read_committed" if rules.read_committed else "read_uncommitted"


def _by_topic(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As Spark has offsets in JSON."""
    found: dict[str, dict[str, int]] = {}
    for p, value in sorted(values.items()):
        found.setdefault(p.topic, {})[str(p.partition)] = value
    return found


def _where(since: Since) -> str:
    if isinstance(since, SinceGroup):
        return f"the group {since.group_id!r}"
    return f"the checkpoint {since.location!r}" if isinstance(since, SinceCheckpoint) else "it"
