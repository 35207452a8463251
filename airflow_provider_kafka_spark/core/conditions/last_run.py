"""``since="last_run"``: what the runs of a sensor have found, so that each record is in the ranges of one run. No I/O.

One value is stored for all runs of a task, and replaced as a whole: the position, and what the newest runs found. So a
try that died after it was stored, and a clear of one of these runs, find the same ranges again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.checks import read_json
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.since import SinceOffsets, parse_since
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import BoundError, ConcurrentRunsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, Bound, Earliest
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.known_topics import TOPIC_ID, KnownTopics, offsets_in
from airflow_provider_kafka_spark.core.wire.codec import decode, encode

_VERSION = 3
#: How many runs, and how many ranges of them, are remembered at most; those of the newest run always are.
MAX_RUNS, MAX_RANGES = 50, 1_000
LAST_RUN, LATEST = "last_run", "latest"


@dataclass(frozen=True, slots=True)
class FoundByRun:
    """What one run found, and the end of every partition then.

    :param topic_ids: of the topics that have the ranges, as far as known.
    """

    run_id: str
    ranges: OffsetRanges
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the runs of one task have found.

    :param offsets: of the first record of each partition that no run has found.
    :param topic_ids: of the topics that the offsets belong to, as far as known.
    :param runs: the newest ones, in order.
    :param epochs: of the leaders of the partitions at these offsets, as far as known.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[FoundByRun, ...] = ()
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object, name: str) -> LastRun:
        """:raises ProtocolError: if it is none of this version."""
        remedy = f"Correct or delete the variable {name}; without it the next run begins anew."
        return decode(cls, value, version=_VERSION, name=f"The variable {name}", remedy=remedy)

    def to_json(self) -> dict[str, Any]:
        return encode(self, _VERSION)

    def since(self, first: object, selection: Selection) -> object:
        """As :func:`~airflow_provider_kafka_spark.core.conditions.since.parse_since` takes it.

        :param first: where the first run begins.
        :param selection: the topics that this run waits for.
        """
        topics = selection.matching({p.topic for p in self.offsets})
        if not topics:
            return first
        offsets = {p: offset for p, offset in self.offsets.items() if p.topic in topics}
        topic_ids = {name: topic_id for name, topic_id in self.topic_ids.items() if name in topics}
        epochs = {p: epoch for p, epoch in self.epochs.items() if p in offsets}
        return SinceOffsets(
            Bound(Earliest(), {p: AtOffset(at) for p, at in offsets.items()}), topic_ids, epochs
        ).to_json()

    def at_end(self, snapshot: BrokerSnapshot, scope: TopicScope) -> LastRun:
        """At the end of the topics, as if a run had found all that is there. What does not exist yet is new later.

        :raises KafkaSparkError: if a topic cannot be read: its records from before would be new later.
        """
        scope.present_topics(snapshot)
        topics = scope.selection.matching(snapshot.asked_or_listed)
        ends = {p: scope.rules.end_of(state) for p, state in snapshot.partitions(topics).items()}
        return replace(self, offsets=ends, topic_ids=snapshot.known(topics).topic_ids, epochs=snapshot.epochs(topics))

    def found_by(self, run_id: str) -> ConditionResult | None:
        """What this run has found before; None if it has found nothing yet."""
        found = next((run for run in self.runs if run.run_id == run_id), None)
        if found is None:
            return None
        known = KnownTopics(found.topic_ids)
        return ConditionResult(
            True,
            f"This run has found {found.ranges.total:,} new records before, and returns the same ranges",
            value=known.dicts(found.ranges),
            xcoms={"offsets": known.offsets(found.offsets)},
        )

    def after(self, run_id: str, result: ConditionResult) -> LastRun:
        """This, with what a run has found.

        :raises ConcurrentRunsError: if another run has found some of it meanwhile.
        """
        ranges = OffsetRanges.parse(result.value)
        ends = offsets_in(result.xcoms["offsets"])
        topic_ids = {name: str(of[TOPIC_ID]) for name, of in result.xcoms["offsets"].items() if TOPIC_ID in of}
        twice = [
            r
            for r in ranges
            if r.from_offset < (at := self.offsets.get(r.topic_partition, 0))
            and result.cut_from.get(r.topic_partition) != at
            and not self._is_other(r.topic, topic_ids)
        ]
        if twice:
            raise _concurrent(f"another one has found records of {twice[0]} meanwhile")
        runs = (*self.runs, FoundByRun(run_id, ranges, ends, topic_ids))[-MAX_RUNS:]
        while len(runs) > 1 and sum(len(run.ranges) + len(run.offsets) for run in runs) > MAX_RANGES:
            runs = runs[1:]
        # One that was recreated may have fewer partitions.
        kept = {p: offset for p, offset in self.offsets.items() if not self._is_other(p.topic, topic_ids)}
        epochs = {p: epoch for p, epoch in self.epochs.items() if p in kept and p not in ends}
        return replace(
            self,
            offsets={**kept, **ends},
            topic_ids={**self.topic_ids, **topic_ids},
            runs=runs,
            epochs={**epochs, **result.epochs},
        )

    def check_has(self, run_id: str) -> None:
        """:raises ConcurrentRunsError: if what a run has just stored is not there: another one has replaced it."""
        if self.found_by(run_id) is None:
            raise _concurrent("another one has stored what it has found in the same moment")

    def _is_other(self, topic: str, topic_ids: Mapping[str, str]) -> bool:
        """Whether a topic is known to be another one than at the position."""
        return topic in topic_ids and self.topic_ids.get(topic, topic_ids[topic]) != topic_ids[topic]


def _concurrent(what: str) -> ConcurrentRunsError:
    return ConcurrentRunsError(
        f"With since='last_run' one run at a time may look for new records; {what}. Set max_active_runs=1 for the DAG. "
        "A retry finds what is new since then."
    )


def first_of(since: object) -> object | None:
    """Where the first run begins, if ``since`` is ``"last_run"`` or ``{"last_run": START}``; otherwise None.

    >>> first_of("last_run"), first_of({"last_run": "group:billing"}), first_of("earliest")
    ('earliest', 'group:billing', None)

    ``"latest"`` is the end of the topics when the first run looks for the first time.

    :raises BoundError: if it is nowhere.
    """
    if isinstance(since, str):
        if since.strip() == LAST_RUN:
            return "earliest"
        with suppress(ValueError, RecursionError):
            since = read_json(since, "since")
    if not isinstance(since, Mapping) or set(since) != {LAST_RUN}:
        return None
    first: object = since[LAST_RUN]
    if isinstance(first, Mapping) and first and all(str(key).isdecimal() or key == TOPIC_ID for key in first):
        # Offsets of a topic of this name.
        return None
    if first_of(first) is not None:
        raise BoundError(
            f"last_run in since must say where the first run begins, such as {{'last_run': 'earliest'}}; got {since!r}."
        )
    if first != LATEST:
        parse_since(first)
    return first
