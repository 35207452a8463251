"""Entries of the ledger: what a run says of the offsets that it was to copy. No I/O.

An entry is plain JSON in the ``extra`` of an asset event, or in the state of a task whose run has not ended well. Any
user of Airflow may have written it, and any version of this package: what is malformed is no entry.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeGuard

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.pieces import MAX_RANGES

ENTRY_VERSION = 1
#: The asset among the outlets of every copy, whose events are the ledger.
ASSET_NAME = "kafka_spark_copies"
#: Where an entry in an event has the entries of other operators that the same function has called.
MORE = "more"
#: Where the event of a topic names the asset whose events have the offsets of the source, if it has not.
SOURCES_IN = "sources_in"
#: Where a task's state has its entry.
STATE_KEY = "ledger"


class EntryState(str, enum.Enum):
    """How far the run of an entry is."""

    #: Planned, and about to be written. If its task no longer runs, nothing is known of what was written.
    RUNNING = "running"
    #: The task failed. What it is known to have delivered is in the entry.
    PARTIAL = "partial"
    #: Everything planned was delivered.
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The task instance that made an entry.

    :param run_id: Airflow's, of the DAG run.
    :param map_index: of a mapped task, otherwise -1.
    """

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1

    @property
    def task(self) -> tuple[str, str]:
        """The task, over all runs: its DAG's id and its own."""
        return self.dag_id, self.task_id

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id} / {self.run_id} / {self.task_id}{mapped}"


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far behind a consumer group was.

    :param of_target: the topic is one of the target.
    :param behind: in offsets, of the partitions of which it has commits.
    """

    group_id: str
    topic: str
    of_target: bool
    behind: int


@dataclass(frozen=True, slots=True)
class Look:
    """What logs had when a worker looked: of each partition all offsets, from the first to the end.

    :param at: when.
    :param ranges: also empty ones.
    """

    at: datetime
    ranges: OffsetRanges

    def by_topic(self) -> Iterator[tuple[str, Look]]:
        for topic, ranges in self.ranges.by_topic().items():
            yield topic, replace(self, ranges=ranges)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry of the ledger.

    :param run_id: as in the provenance header.
    :param ranges: what of the source was read to its end and delivered.
    :param planned: what the run was to deliver; empty if it delivered everything.
    :param lost: what it could not read any more.
    :param empty: what it has looked at, and has no record.
    :param gone: what it delivered to a topic that is no longer there.
    :param target_topics: where it wrote.
    :param target_expr: of the expression that has decided where each record went; empty if none did.
    :param source: first bootstrap server of the source, as ``host:port``.
    :param source_cluster_id: empty if unknown, as the next one.
    :param topic_ids: id of each source topic, as far as it is known.
    :param target_ids: likewise of each target topic.
    :param topic_map: the only target of a source topic, where each has one of its own.
    :param source_log: all that the source's topics had when it looked, if it says so.
    :param target_log: likewise the target's topics.
    :param lags: of groups, at the time of the looks.
    :param filtered: records may have been left out on purpose.
    :param is_active: the task runs, or is going to.
    :param at: when the entry was made.
    """

    run_id: str
    state: EntryState
    ranges: OffsetRanges
    target_topics: tuple[str, ...]
    source: str
    target: str
    planned: OffsetRanges = field(default_factory=OffsetRanges)
    lost: OffsetRanges = field(default_factory=OffsetRanges)
    empty: OffsetRanges = field(default_factory=OffsetRanges)
    gone: OffsetRanges = field(default_factory=OffsetRanges)
    target_expr: str = ""
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    topic_map: Mapping[str, str] = field(default_factory=dict)
    source_log: Look | None = None
    target_log: Look | None = None
    lags: tuple[GroupLag, ...] = ()
    filtered: bool = False
    is_active: bool = True
    by: TaskRun = field(default_factory=TaskRun)
    at: datetime | None = None

    @classmethod
    def parse(
        cls, entry: object, by: TaskRun | None = None, at: datetime | None = None, *, is_active: bool = True
    ) -> Delivery | None:
        """
        :param entry: the ``extra`` of any asset event, or the value in a task's state.
        :return: None if it is no entry of this version of the ledger.
        """
        if not is_entry(entry):
            return None
        try:
            state = EntryState(entry["state"])
            planned = _ranges(entry, "planned_ranges")
            source_log, target_log = _looks(entry.get("log"))
            return cls(
                run_id=_text(entry, "run_id", required=True),
                state=state,
                ranges=_ranges(entry, "offset_ranges"),
                planned=OffsetRanges() if state is EntryState.COMPLETE else planned,
                lost=_ranges(entry, "missing_ranges"),
                empty=_ranges(entry, "empty_ranges"),
                target_topics=_texts(_items(entry["target_topics"])),
                target_expr=_text(entry, "target_expr"),
                source=_text(entry, "source", required=True),
                target=_text(entry, "target", required=True),
                source_cluster_id=_text(entry, "source_cluster_id"),
                target_cluster_id=_text(entry, "target_cluster_id"),
                topic_ids=_names(entry, "source_topic_ids"),
                target_ids=_names(entry, "target_topic_ids"),
                topic_map=_names(entry, "topic_map"),
                source_log=source_log,
                target_log=target_log,
                lags=_lags(entry.get("log")),
                filtered=_checked(entry.get("filtered", False), bool),
                is_active=is_active,
                by=by or TaskRun(),
                at=at,
            )
        except (KafkaSparkError, KeyError, TypeError, ValueError):
            return None

    def of_topic(self, topic: str) -> Delivery:
        """What it says of one topic of the source."""
        ranges, planned, lost, empty, gone = (
            OffsetRanges(r for r in all_ranges if r.topic == topic)
            for all_ranges in (self.ranges, self.planned, self.lost, self.empty, self.gone)
        )
        return replace(self, ranges=ranges, planned=planned, lost=lost, empty=empty, gone=gone)

    @property
    def topics(self) -> set[str]:
        """Of the source: those of whose offsets it says something."""
        of_all = (self.ranges, self.planned, self.lost, self.empty, self.gone)
        return {r.topic for ranges in of_all for r in ranges if not r.is_empty}

    @property
    def source_side(self) -> tuple[str, str]:
        """The server and the id of the source's cluster, as far as known."""
        return self.source, self.source_cluster_id

    @property
    def target_side(self) -> tuple[str, str]:
        return self.target, self.target_cluster_id


def is_by_api(extra: object) -> bool:
    """Whether the event was made through Airflow's REST API, which says so in it, whatever else was given."""
    return isinstance(extra, Mapping) and bool(extra.get("from_rest_api"))


def is_entry(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it may be an entry of this version of the ledger."""
    version = value.get("version") if isinstance(value, Mapping) else None
    return version == ENTRY_VERSION and not isinstance(version, bool) and "offset_ranges" in value  # type: ignore[operator]


def entries_in(extra: object) -> list[object]:
    """All entries of an asset event: of a function that called several operators it has several. One that somebody has
    made through Airflow's API has none, since no task has made it.
    """
    if is_by_api(extra):
        return []
    more = extra.get(MORE) if isinstance(extra, Mapping) else None
    return [extra, *more] if isinstance(more, list) else [extra]


def deliveries_of_event(
    extra: object, by: TaskRun | None = None, at: datetime | None = None
) -> tuple[list[Delivery], int]:
    """What an asset event says that a task has made: its run has delivered everything.

    :return: and how many entries were not read.
    """
    found = [Delivery.parse(entry, by, at) for entry in (entries_in(extra) if extra else ())]
    read = [replace(delivery, planned=OffsetRanges()) for delivery in found if delivery is not None]
    return read, len(found) - len(read)


def _ranges(entry: Mapping[str, Any], name: str) -> OffsetRanges:
    given = entry.get(name, [])
    rows = rows_in(given, MAX_RANGES)
    items = _items(rows)
    if len(items) > MAX_RANGES:
        raise ValueError(f"{len(items)} ranges")
    return OffsetRanges.parse(_texts(items) if rows is given else items, merge_overlaps=True)


def _looks(value: object) -> tuple[Look | None, Look | None]:
    """Those of source and target."""
    if value is None:
        return None, None
    log = _checked(value, dict)
    at = datetime.fromisoformat(_text(log, "at", required=True).replace("Z", "+00:00"))
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return Look(at, _ranges(log, "source")), Look(at, _ranges(log, "target"))


def _lags(log: object) -> tuple[GroupLag, ...]:
    given = log.get("groups", []) if isinstance(log, Mapping) else []
    rows = [_checked(row, dict) for row in _checked(given, list)]
    if len(rows) > MAX_RANGES:
        raise ValueError(f"{len(rows)} groups")
    found = []
    for row in rows:
        side, behind = _text(row, "side", required=True), row["behind"]
        if side not in ("source", "target") or type(behind) is not int or not 0 <= behind < 2**63:
            raise ValueError(f"{side} {behind}")
        names = _text(row, "group_id", required=True), _text(row, "topic", required=True)
        found.append(GroupLag(*names, side == "target", behind))
    return tuple(found)


def _text(entry: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    return str(_checked(entry[name] if required else entry.get(name, ""), str))


def _names(entry: Mapping[str, Any], name: str) -> dict[str, str]:
    names: dict[str, str] = _checked(entry.get(name, {}), dict)
    _texts(list(names.values()))
    return names


def _texts(items: list[Any]) -> tuple[str, ...]:
    return tuple(_checked(item, str) for item in items)


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, tuple) else list(_checked(value, list))


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(type(value).__name__)
    return value
