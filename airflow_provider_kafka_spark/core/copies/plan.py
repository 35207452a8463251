"""The plan: the offsets that a run reads, the target, and warnings for the author. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from airflow_provider_kafka_spark.core.copies.identity import digest_of, fingerprint_of_transform
from airflow_provider_kafka_spark.core.copies.plan_cost import cost_warnings
from airflow_provider_kafka_spark.core.copies.target import Target, check_target
from airflow_provider_kafka_spark.core.errors import DataLossError, PlanError, PlanTooLargeError, TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.pieces import MAX_PIECES, MAX_RANGES
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans, tasks_of
from airflow_provider_kafka_spark.core.shown_text import aligned, first_ten, item, markdown_item, shortened
from airflow_provider_kafka_spark.core.topics.bounds import TimeWindow
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, TopicState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics, recreated, standard_id
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.topics.resolve import PERMIT_LOSS, MissingRange, ReadRules, ResolvedRanges
from airflow_provider_kafka_spark.core.wire.codec import decode, encode

PLAN_VERSION = 3
_MAX_TABLE_ROWS = 40
_HEADINGS = ("topic[partition]", "from", "until", "records at most")


@dataclass(frozen=True)
class ReplayPlan:
    """What a run will read, frozen. A retry of a task uses the plan of its first try, although ``latest`` has moved on.

    :param ranges: what is read, sorted; empty ranges stand for partitions without requested records.
    :param missing: requested offsets that the broker no longer has.
    :param topic_ids: id of each source topic (KIP-516), if the broker returns it.
    :param reached: how far the source's logs reached at planning time, at least.
    :param partition_counts: number of partitions of each source topic at planning time.
    :param target_ends: end offset of each target partition at planning time. Earlier records are not from this run.
    :param target_ids: id of each target topic at planning time, if the broker returns it.
    :param window: of timestamps, if the ranges were cut by one.
    :param spark_partitions: number of pieces; Spark tasks may share small ones.
    :param warnings: what the author should know.
    :param leaves_out: it has not what other runs have copied of what was asked for.
    """

    source_cluster_id: str
    target_cluster_id: str
    target: Target
    ranges: OffsetRanges
    missing: tuple[MissingRange, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    reached: LogEnds = field(default_factory=LogEnds)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    target_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    window: TimeWindow | None = None
    spark_partitions: int = 0
    warnings: tuple[str, ...] = ()
    leaves_out: bool = False

    @property
    def source(self) -> KnownTopics:
        """What its ranges are of."""
        return KnownTopics(self.topic_ids, self.source_cluster_id)

    def targets(self, target_ids: Mapping[str, str]) -> KnownTopics:
        """What the ranges of the target are of.

        :param target_ids: of a job's report; those of the plan if it has none.
        """
        ids = {name: standard_id(topic_id) for name, topic_id in (target_ids or self.target_ids).items()}
        return KnownTopics(ids, self.target_cluster_id)

    @cached_property
    def planned_records(self) -> int:
        """An upper bound: compaction and transaction markers leave gaps that are no loss."""
        return self.ranges.total

    @property
    def is_empty(self) -> bool:
        return self.planned_records == 0

    @cached_property
    def digest(self) -> str:
        """Identifies what is read and where it goes, and nothing else: 16 hexadecimal digits."""
        content = {
            "ranges": self.ranges.without_empty().format(),
            "source": self.source_cluster_id,
            "topic_ids": dict(self.topic_ids),
            "target": [self.target_cluster_id, self.target.topic, self.target.topic_expr, *self._further()],
        }
        return digest_of(content)

    def _further(self) -> list[Any]:
        mapped_topics = [sorted(self.target.topic_map.items())] if self.target.topic_map else []
        return mapped_topics if self.target.dead_letters is None else [*mapped_topics, self.target.dead_letters]

    @property
    def target_topics(self) -> list[str]:
        """Every target topic; empty if ``target_topic_expr`` decides."""
        return sorted(self.target.routes(r.topic for r in self.ranges))

    def fingerprint(self, transform: Mapping[str, Any]) -> dict[str, str]:
        """What identifies the source, the transformation and the target: names, each with an id or a digest, as far as
        known.

        A record that was delivered before counts for a planned one only if all of these are equal.

        :param transform: the expressions and options by which a record is changed.
        """
        topics = {f"the topic {name!r}": topic_id for name, topic_id in self.topic_ids.items() if topic_id}
        return {**self.fingerprint_of_all(transform), **topics}

    def fingerprint_of_all(self, transform: Mapping[str, Any]) -> dict[str, str]:
        """The part of :meth:`fingerprint` that is of no single source topic."""
        known = {
            "the source cluster": self.source_cluster_id,
            "the target cluster": self.target_cluster_id,
            **fingerprint_of_transform(transform),
        }
        return {name: value for name, value in known.items() if value}

    def losses(
        self, cluster: ClusterState, rules: ReadRules, cuts: Mapping[TopicPartition, int]
    ) -> tuple[MissingRange, ...]:
        """What of this plan can no longer be read, since its topics hold other records at the same offsets now.

        How much of it was delivered is not known, so the ranges are empty.

        :param cuts: where logs were cut that reached further.
        :raises DataLossError: if there is any, and it is not permitted.
        """
        of_topics, planned = self._changes_of_source(cluster), self.ranges.without_empty()
        changes = {r: of_topics[r.topic] for r in planned if r.topic in of_topics} or {
            r: f"the log of {r.topic_partition} was cut at {cut} by an unclean leader election"
            for r in planned
            if (cut := cuts.get(r.topic_partition)) is not None and cut < r.until_offset
        }
        if changes and rules.fail_on_data_loss:
            raise DataLossError(
                f"Since this plan was made, {shortened(sorted(set(changes.values())))}: the same offsets now hold "
                "other records. Clear the task: it then makes a new plan, and copies all of it under a new run_id; "
                f"what an earlier try has written stays in the target. {PERMIT_LOSS}"
            )
        return tuple(
            MissingRange(
                OffsetRange(r.topic, r.partition, r.from_offset, r.from_offset),
                f"{reason}; what an earlier try had not copied up to offset {r.until_offset} is gone",
                self.topic_ids.get(r.topic, ""),
            )
            for r, reason in changes.items()
        )

    def after_job(self, cluster: ClusterState, rules: ReadRules, cuts: Mapping[TopicPartition, int]) -> ReplayPlan:
        """This plan when its job has ended, with the missing ranges if loss is permitted.

        :param cluster: the source after the job.
        :param cuts: where logs were cut that reached further.
        :raises DataLossError: if the job read other records than planned, as for :meth:`losses`.
        """
        # A topic that was deleted after the job had read it has no id to compare.
        known = {name: topic_id for name, topic_id in self.topic_ids.items() if name in cluster.topics}
        lost = replace(self, topic_ids=known).losses(cluster, rules, cuts)
        return replace(self, missing=(*self.missing, *lost))

    def _changes_of_source(self, cluster: ClusterState) -> dict[str, str]:
        """The topics whose offsets hold other records than when this plan was made, each with the reason."""
        if self.source_cluster_id and cluster.cluster_id and self.source_cluster_id != cluster.cluster_id:
            reason = (
                f"the connection {cluster.conn_id!r} leads to another cluster (id {self.source_cluster_id}, now "
                f"{cluster.cluster_id})"
            )
            return dict.fromkeys(sorted({r.topic for r in self.ranges}), reason)
        return recreated(self.topic_ids, {name: cluster.topic(name).topic_id for name in self.topic_ids})

    def partitions_added(self, cluster: ClusterState) -> tuple[str, ...]:
        """Descriptions of the partitions that were added after planning, which the plan does not cover."""
        grown = {name: cluster.topic(name).count for name in self.partition_counts if name in cluster.topics}
        return tuple(
            f"{name}: partitions {self.partition_counts[name]} to {count - 1} were added after planning and are not "
            "covered"
            for name, count in sorted(grown.items())
            if count > self.partition_counts[name]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_dict` reads it back."""
        return encode(self, PLAN_VERSION)

    @classmethod
    def from_dict(cls, value: object) -> ReplayPlan:
        """:raises ProtocolError: if it is not a plan of this version."""
        remedy = "Clear the task to make a new one."
        return decode(cls, value, version=PLAN_VERSION, name="A stored plan", remedy=remedy)

    def table(self) -> str:
        """The plan as a person reads it in the task's log."""
        items = [item(name, text) for name, text in self._items()]
        return "\n".join([*aligned([_HEADINGS, *self._rows()]), *items])

    def markdown(self) -> str:
        """The same for Airflow's pages."""
        lines = [f"| {' | '.join(_HEADINGS)} |", "| --- | ---: | ---: | ---: |"]
        # The name of a topic may begin and end with underscores.
        lines += [f"| `{cells[0]}` | {' | '.join(cells[1:])} |" for cells in self._rows()]
        lines += ["", *(markdown_item(name, text) for name, text in self._items())]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, ...]]:
        shown = self.ranges[:_MAX_TABLE_ROWS]
        rows: list[tuple[str, ...]] = [
            (str(r.topic_partition), f"{r.from_offset:,}", f"{r.until_offset:,}", f"{r.size:,}") for r in shown
        ]
        if hidden := len(self.ranges) - len(shown):
            rest = self.planned_records - sum(r.size for r in shown)
            rows.append((f"... {hidden:,} more", "", "", f"{rest:,}"))
        count = f"{len(self.ranges):,} range{'s' if len(self.ranges) != 1 else ''}"
        rows.append(("total", "", count, f"{self.planned_records:,}"))
        return rows

    def _items(self) -> list[tuple[str, str]]:
        return [
            ("Target", str(self.target)),
            ("Pieces", f"{self.spark_partitions:,}"),
            ("Digest of this plan", self.digest),
            *(("Missing", text) for text in first_ten([f"{m.offset_range}: {m.reason}" for m in self.missing])),
            *(("Warning", text) for text in first_ten(self.warnings)),
        ]


def make_plan(
    resolved: ResolvedRanges,
    source: ClusterState,
    target_cluster: ClusterState,
    target: Target,
    max_records_per_partition: int | None = None,
    preserve_order: bool = True,
) -> ReplayPlan:
    """Put resolved ranges and the checked target together.

    :param target_cluster: state of the target's cluster; it holds the targets that exist.
    :raises TargetError: if the target does not exist, has too few partitions, or is a source.
    """
    names = sorted({r.topic for r in resolved.ranges})
    target_warnings = _check_targets(names, resolved.ranges, source, target_cluster, target)
    routes = target.routes(names)
    states = {name: state for name, state in target_cluster.topics.items() if name in routes}
    _check_count(resolved.ranges)
    pieces = _count_pieces(plan_spans(resolved.ranges, max_records_per_partition), preserve_order)
    return ReplayPlan(
        source_cluster_id=source.cluster_id,
        target_cluster_id=target_cluster.cluster_id,
        target=target,
        ranges=resolved.ranges,
        missing=resolved.missing,
        leaves_out=resolved.leaves_out,
        topic_ids={name: topic_id for name in names if (topic_id := source.topic(name).topic_id)},
        reached=LogEnds.of(resolved.ranges.without_empty(), source),
        partition_counts={name: source.topic(name).count for name in names},
        target_ends={
            name: {number: p.high_watermark for number, p in state.partitions.items()} for name, state in states.items()
        },
        target_ids={name: state.topic_id for name, state in states.items() if state.topic_id is not None},
        window=resolved.window,
        spark_partitions=pieces,
        warnings=(
            *resolved.warnings,
            *cost_warnings(_sizes(resolved.ranges, states, pieces)),
            *first_ten(target_warnings, "more of its targets"),
        ),
    )


def _check_targets(
    names: list[str], ranges: OffsetRanges, source: ClusterState, target_cluster: ClusterState, target: Target
) -> list[str]:
    """Check every target that is known, as :func:`check_target` does.

    :param names: the topics that are read.
    """
    if source.cluster_id == target_cluster.cluster_id and target.dead_letters in names:
        raise TargetError(
            f"dead_letter_topic must not be a topic that is read; {target.dead_letters!r} is. Choose another one, such "
            f"as {target.dead_letters + '.DLT'!r}."
        )
    by_topic, read = ranges.by_topic(), frozenset(names)
    warnings = []
    for name, sources in target.routes(names).items():
        own = {topic: by_topic[topic] for topic in sources}
        warnings += check_target(name, target, own, source, target_cluster, read)
    return warnings


def _check_count(ranges: OffsetRanges) -> None:
    if len(ranges) > MAX_RANGES:
        raise PlanTooLargeError(
            f"The plan must have at most {MAX_RANGES:,} ranges, which is what the ledger reads of a copy; it has "
            f"{len(ranges):,}. Give some of them at a time, such as those of one topic, or ranges with what lies "
            "between them."
        )


def _count_pieces(spans: Sequence[OffsetRange], preserve_order: bool) -> int:
    pieces = len(tasks_of(spans, preserve_order=preserve_order))
    if pieces > MAX_PIECES:
        raise PlanError(
            f"The plan must have at most {MAX_PIECES:,} pieces, each of which costs a transaction; it has "
            f"{pieces:,}. Raise max_records_per_partition, or keep preserve_order=True, which makes one piece of each "
            "Kafka partition; of more Kafka partitions than that, plan some topics at a time."
        )
    return pieces


def _sizes(ranges: OffsetRanges, targets: Mapping[str, TopicState], pieces: int) -> dict[str, int]:
    """As :func:`cost_warnings` takes them. Of targets that only the job knows, there are none."""
    # A group holds the progress of as many pieces as the first target has partitions.
    width = targets[min(targets)].count if targets else 0
    return {
        "Kafka partitions": sum(1 for _ in ranges.without_empty().by_partition()),
        "ranges": len(ranges),
        "source topics": len({r.topic for r in ranges}),
        "target topics": len(targets),
        "pieces": pieces,
        "consumer groups of progress": -(-pieces // width) if width else 0,
    }
