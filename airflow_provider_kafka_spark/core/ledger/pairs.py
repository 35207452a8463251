"""The pairs of a source topic and a target topic in the ledger: each is judged by itself. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, Stretch, coverage, spans
from airflow_provider_kafka_spark.core.ledger.entry import Delivery, GroupLag, Look
from airflow_provider_kafka_spark.core.ledger.waiting import WaitingTask, with_waiting
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import one_line
from airflow_provider_kafka_spark.core.topics.broker_state import did_you_mean

#: Names that a message lists.
_MOST_NAMED = 5
#: A cluster, by its id, or a server if that is not known; and the name of a topic.
Place = tuple[str, str]


@dataclass(slots=True)
class Pair:
    """What went from one topic to another.

    :param source: first bootstrap server of the source, as the earliest entry names it; empty if none does.
    :param topic: of the source.
    :param target: likewise of the target.
    :param target_topic: empty if it is not known yet.
    :param sources: all names of the source's cluster: its id, and servers that connections name.
    :param targets: likewise of the target's cluster.
    :param topic_id: of the source's topic as it is now, as far as it is known.
    :param deliveries: what each entry says of this pair alone, in the order of their time.
    :param source_log: what the source's topic had at the last look; None if no entry says it.
    :param target_log: likewise of the target's topic.
    :param waiting: runs of its tasks that have not begun.
    :param lags: of groups of its source's or its target's topic, and when a run last looked.
    """

    source: str
    topic: str
    target: str
    target_topic: str
    sources: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    topic_id: str = ""
    deliveries: list[Delivery] = field(default_factory=list)
    source_log: Look | None = None
    target_log: Look | None = None
    waiting: list[WaitingTask] = field(default_factory=list)
    lags: list[tuple[GroupLag, datetime]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.source}/{self.topic} -> {self.target}/{self.target_topic}"

    def stretches(self, window: Iterable[OffsetRange] | None = None) -> list[Stretch]:
        """What is known of each offset, sorted.

        :param window: what to look at. If None, from the lowest to the highest offset that an entry names; and what the
            log has before and after them, which is unseen.
        """
        if window is not None:
            return with_waiting(coverage(self.deliveries, window), self.waiting)
        named = spans(self.deliveries)
        log = () if self.source_log is None else self.source_log.ranges
        ends = {r.topic_partition: r for r in named}
        unseen = [Stretch(part, Coverage.UNSEEN) for r in log for part in _around(r, ends.get(r.topic_partition))]
        known = sorted([*coverage(self.deliveries, named), *unseen], key=lambda s: s.offsets)
        return with_waiting(known, self.waiting)


def pairs_of(
    deliveries: Iterable[Delivery],
    topic: str | None = None,
    *,
    topic_id: str | None = None,
    target_ids: Mapping[Place, str | None] | None = None,
    waiting: Iterable[WaitingTask] = (),
) -> tuple[list[Pair], int]:
    """All pairs, sorted by name; and of how many entries something does not count any more, since a topic was deleted.

    :param deliveries: in any order.
    :param topic: of the source; None for all.
    :param topic_id: of this topic as it is now; None for that of the latest entry.
    :param target_ids: of topics of targets as they are now; one without has that of the latest entry. None as an id is
        of a topic that does not exist.
    :param waiting: tasks that have not begun, of any DAG.
    """
    ledger = _Ledger(deliveries, topic_id, target_ids or {})
    outdated = sum(ledger.add(delivery, topic) for delivery in ledger.entries)
    tasks = list(waiting)
    for pair in ledger.pairs.values() if tasks else ():
        own = {delivery.by.task for delivery in pair.deliveries}
        pair.waiting = [task for task in tasks if task.by.task in own]
    return sorted(ledger.pairs.values(), key=str), outdated


@dataclass(frozen=True, slots=True)
class Choice:
    """Which pairs are looked at.

    :param topic: of the source.
    :param source: a server of the source's cluster, as ``host:port``, or its id; None for any.
    :param target: likewise of the target.
    :param target_topic: None for any.
    :param is_option: names are those of a command's options.
    :param may_be_new: nothing need have been copied to this target yet.
    """

    topic: str
    source: str | None = None
    target: str | None = None
    target_topic: str | None = None
    is_option: bool = False
    may_be_new: bool = False

    def of(self, pairs: Sequence[Pair]) -> list[Pair]:
        """
        :param pairs: of the topic.
        :raises InvalidInputError: if there are pairs, and none of them has what is chosen.
        """
        found = list(pairs)
        for name, wanted, names_of in (
            ("source", self.source, lambda pair: pair.sources),
            ("target", self.target, lambda pair: pair.targets),
            ("target_topic", self.target_topic, lambda pair: {pair.target_topic}),
        ):
            left = [pair for pair in found if wanted is None or wanted in names_of(pair)]
            if found and not left and self.may_be_new and name != "source":
                return []
            if found and not left:
                names = set().union(*map(names_of, found)) - {""}
                raise InvalidInputError(
                    f"{self._name(name)} must be one of the recorded copies of {self.topic!r}: {_listed(names)}; got "
                    f"{one_line(str(wanted))!r}.{did_you_mean(str(wanted), names)}"
                )
            found = left
        return found

    def one_of(self, pairs: Sequence[Pair]) -> Pair | None:
        """The only pair.

        :return: None if there is none at all.
        :raises InvalidInputError: as :meth:`of`, and if there are several.
        """
        found = self.of(pairs)
        if len(found) > 1:
            raise InvalidInputError(
                f"{self._name('target_topic')} must be given where copies of {self.topic!r} are several pairs of "
                f"topics, each with an answer of its own: {_listed(map(str, found))}. Name a target topic, and "
                "target or source where that leaves several clusters."
            )
        return found[0] if found else None

    def unknown(self, topics: Iterable[str], when: str = "") -> InvalidInputError:
        """The error if nothing is recorded of the topic.

        :param topics: of which something is.
        :param when: the time that was looked at, in words.
        """
        known = set(topics)
        return InvalidInputError(
            f"{self._name('topic')} must be one that a recorded copy has read{when}: {_listed(known)}; got "
            f"{self.topic!r}.{did_you_mean(self.topic, known)}"
        )

    def _name(self, name: str) -> str:
        if not self.is_option:
            return name
        return "TOPIC" if name == "topic" else f"--{name.replace('_', '-')}"


class _Ledger:
    """What all entries say together: names of clusters, ids of topics, and looks at logs.

    :param deliveries: as for :func:`pairs_of`, as the next ones.
    """

    def __init__(
        self, deliveries: Iterable[Delivery], topic_id: str | None, target_ids: Mapping[Place, str | None]
    ) -> None:
        self.entries = sorted(deliveries, key=lambda d: d.at.timestamp() if d.at else 0.0)
        self.pairs: dict[tuple[Place, Place], Pair] = {}
        sides = [side for d in self.entries for side in (d.source_side, d.target_side)]
        self._ids = {server: cluster_id for server, cluster_id in sides if server and cluster_id}
        self._names: dict[str, set[str]] = defaultdict(set)
        for side in sides:
            self._names[self._cluster(side)] |= {*side} - {""}
        self._topic_id = topic_id
        self._topic_ids, self._target_ids = dict[Place, str](), dict[Place, str | None]()
        self._families: dict[tuple[Place, str, str], set[str]] = defaultdict(set)
        for d in self.entries:
            source, target = self._cluster(d.source_side), self._cluster(d.target_side)
            self._topic_ids |= {(source, name): of for name, of in d.topic_ids.items() if of}
            self._target_ids |= {(target, name): of for name, of in d.target_ids.items() if of}
            for topic in d.topics if d.target_expr else ():
                self._families[(source, topic), target, d.target_expr] |= {*d.target_topics}
        self._target_ids |= target_ids
        self._logs = self._last_looks()
        self._lags = self._last_lags()

    def add(self, delivery: Delivery, only: str | None) -> bool:
        """Add an entry to its pairs.

        :param only: a topic of the source; None for all.
        :return: whether something of it does not count any more.
        """
        outdated = False
        for topic in delivery.topics if only is None else {only} & delivery.topics:
            source = (self._cluster(delivery.source_side), topic)
            if _is_another(delivery.topic_ids.get(topic), self._topic_id or self._topic_ids.get(source)):
                outdated = True
                continue
            for name in self._targets(delivery, source):
                target = (self._cluster(delivery.target_side), name)
                own = replace(delivery.of_topic(topic), target_topics=(name,))
                if own.ranges.total and self._is_gone(own, target):
                    own, outdated = replace(own, ranges=OffsetRanges(), gone=own.gone.merge(own.ranges)), True
                self._pair(source, target, own).deliveries.append(own)
        return outdated

    def _pair(self, source: Place, target: Place, delivery: Delivery) -> Pair:
        pair = self.pairs.get((source, target))
        if pair is None:
            pair = self.pairs[source, target] = Pair(delivery.source, source[1], delivery.target, target[1])
            pair.sources, pair.targets = (frozenset(self._names[cluster]) for cluster, _ in (source, target))
            pair.topic_id = self._topic_id or self._topic_ids.get(source, "")
            pair.source_log, pair.target_log = self._logs.get(("source", source)), self._logs.get(("target", target))
            pair.lags = [*self._lags.get((False, source), {}).values(), *self._lags.get((True, target), {}).values()]
        pair.source, pair.target = pair.source or delivery.source, pair.target or delivery.target
        return pair

    def _cluster(self, side: tuple[str, str]) -> str:
        server, cluster_id = side
        return cluster_id or self._ids.get(server, server)

    def _targets(self, delivery: Delivery, source: Place) -> Iterable[str]:
        """Where the records of a topic went, or may have gone: an expression sends each where it will."""
        mapped = delivery.topic_map.get(source[1])
        if mapped is not None:
            return (mapped,)
        known = set(delivery.target_topics)
        if delivery.target_expr:
            known = self._families[source, self._cluster(delivery.target_side), delivery.target_expr]
        return sorted(known) or ("",)

    def _is_gone(self, delivery: Delivery, target: Place) -> bool:
        if target not in self._target_ids:
            return False
        now = self._target_ids[target]
        return now is None or _is_another(delivery.target_ids.get(target[1]), now)

    def _last_looks(self) -> dict[tuple[str, Place], Look]:
        """The last look at each partition of the topics of now, of a source and of a target."""
        found: dict[tuple[str, Place], dict[int, tuple[datetime, OffsetRange]]] = defaultdict(dict)
        for d in self.entries:
            for kind, place, look in self._looks(d):
                known = found[kind, place]
                for r in look.ranges:
                    if r.partition not in known or known[r.partition][0] <= look.at:
                        known[r.partition] = (look.at, r)
        return {
            place: Look(max(at for at, _ in of.values()), OffsetRanges(r for _, r in of.values()))
            for place, of in found.items()
        }

    def _last_lags(self) -> dict[tuple[bool, Place], dict[str, tuple[GroupLag, datetime]]]:
        """By the topic and the group, sorted."""
        found: dict[tuple[bool, Place], dict[str, tuple[GroupLag, datetime]]] = defaultdict(dict)
        for d in self.entries:
            look = d.source_log or d.target_log
            for lag in d.lags if look else ():
                place = (self._cluster(d.target_side if lag.of_target else d.source_side), lag.topic)
                known = found[lag.of_target, place].get(lag.group_id)
                if look and (known is None or known[1] <= look.at):
                    found[lag.of_target, place][lag.group_id] = (lag, look.at)
        return {place: dict(sorted(of.items())) for place, of in found.items()}

    def _looks(self, d: Delivery) -> Iterator[tuple[str, Place, Look]]:
        of_source, of_target = self._cluster(d.source_side), self._cluster(d.target_side)
        for topic, look in d.source_log.by_topic() if d.source_log else ():
            place = (of_source, topic)
            if not _is_another(d.topic_ids.get(topic), self._topic_id or self._topic_ids.get(place)):
                yield "source", place, look
        for topic, look in d.target_log.by_topic() if d.target_log else ():
            if not self._is_gone(d, (of_target, topic)):
                yield "target", (of_target, topic), look


def _is_another(then: str | None, now: str | None) -> bool:
    return bool(then and now) and then != now


def _around(log: OffsetRange, named: OffsetRange | None) -> tuple[OffsetRange, ...]:
    """What a log has before and after the offsets that entries name."""
    if named is None:
        return () if log.is_empty else (log,)
    before = (log.from_offset, min(named.from_offset, log.until_offset))
    after = (max(named.until_offset, log.from_offset), log.until_offset)
    return tuple(replace(log, from_offset=a, until_offset=b) for a, b in (before, after) if a < b)


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return (one_line(", ".join(found[:_MOST_NAMED])) + more) or "none"
