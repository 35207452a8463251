"""A checkpoint and the state of the cluster -> the offsets of a stream's next run, or why it must not run. No I/O.

Spark alone does not detect these cases: with the checkpoint of another job it copies nothing, and from a topic that was
recreated it reads only the records after the old offset (3 of 40 records in a test).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import BoundError, CheckpointError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition, by_topic
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint, StreamManifest
from airflow_provider_kafka_spark.core.topics.bounds import AtTimestamp, Bound, Latest, iso
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.topics.resolve import (
    MissingRange,
    ReadRules,
    ResolvedRanges,
    check_end,
    first_left,
    open_transactions,
    raise_on_data_loss,
    resolve_window,
)
from airflow_provider_kafka_spark.core.topics.starts import GroupStart, parse_any_start


@dataclass(frozen=True, slots=True)
class Reset:
    """A request to start again.

    :param to: where, as the author wrote it.
    :param by: the DAG run that requests it; a retry of it does not reset again.
    :param group_stands_at: if ``to`` is a consumer group.
    """

    to: str
    by: str
    group_stands_at: Bound | None = None

    @property
    def start(self) -> Bound | GroupStart:
        return parse_any_start(self.to, name="reset_checkpoint_to")

    @property
    def bound(self) -> Bound:
        start = self.start
        if not isinstance(start, GroupStart):
            return start
        if self.group_stands_at is None:
            raise ValueError(f"The offsets of {start} must be known.")
        return self.group_stands_at

    def is_done(self, checkpoint: Checkpoint | None) -> bool:
        """Whether an earlier try of this DAG run has begun the new generation.

        :raises BoundError: if another DAG run has.
        """
        manifest = None if checkpoint is None else checkpoint.manifest
        if manifest is None or manifest.reset_to is None:
            return False
        # Compare the meaning: another spelling of the same moment must not copy everything again.
        if Reset(manifest.reset_to, "").start != self.start:
            return False
        if manifest.reset_by == self.by:
            return True
        raise BoundError(
            f"reset_checkpoint_to={self.to!r} was done already, by the DAG run {manifest.reset_by!r}; left in the DAG, "
            "it would copy everything again at each run. Take it out. To start again at the same place, pass another "
            "checkpoint_location."
        )


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The next run of a stream.

    :param resolved: for each partition, from where the stream stands to the end of the log.
    :param generation: number of the checkpoint's generation.
    :param manifest: of that generation, to be written by this run.
    :param is_new: whether the run starts this generation.
    :param uncommitted: ranges of an uncommitted batch, to be finished first.
    :param uncommitted_batch: number of that batch, or None.
    :param added: partitions that the previous run did not have.
    """

    resolved: ResolvedRanges
    generation: int
    manifest: StreamManifest
    is_new: bool
    uncommitted: OffsetRanges = field(default_factory=OffsetRanges)
    uncommitted_batch: int | None = None
    added: tuple[TopicPartition, ...] = ()

    def before(self, target_ends: Mapping[str, Mapping[int, int]], target_ids: Mapping[str, str]) -> StreamPlan:
        """With where the targets end before the run."""
        return replace(self, manifest=replace(self.manifest, target_ends=target_ends, target_ids=target_ids))

    @property
    def has_work(self) -> bool:
        """Whether Spark must run. A first run without records stores its position, and a permitted loss is skipped, or
        each run would report it again.
        """
        return self.is_new or self.resolved.ranges.total > 0 or any(m.offset_range.size for m in self.resolved.missing)


def resolve_stream(
    checkpoint: Checkpoint | None,
    binding: Binding,
    form: BatchForm,
    selection: Selection,
    starting: Bound | None,
    reset: Reset | None,
    cluster: ClusterState,
    rules: ReadRules,
    new_stream_id: str,
) -> StreamPlan:
    """The plan of the next run.

    :param form: of the batches that the run begins.
    :param starting: where the very first run starts.
    :param cluster: state of all topics that are selected or in the checkpoint, as far as they exist; with the
        timestamps of whichever bound is used.
    :param new_stream_id: used if a generation starts.
    :raises BrokerUnavailableError: if the brokers describe fewer partitions of a topic than the checkpoint has.
    :raises BoundError: if this is the first run and ``starting`` is None, or a reset was done already by another run.
    :raises CheckpointError: if the checkpoint is not this job's, or its uncommitted batch has another form.
    :raises DataLossError: if records are gone that the stream had not read, and ``rules.fail_on_data_loss`` is set.
    :raises PlanError: if an open transaction hides records that the stream has read, or that its uncommitted batch
        reads.
    :raises UnknownTopicError: if a topic does not exist.
    """
    manifest = checkpoint.manifest if checkpoint is not None else None
    if checkpoint is not None and manifest is None:
        raise CheckpointError(
            "checkpoint_location must be empty, or hold a checkpoint of this operator; it holds one of another Spark "
            "stream. Name another folder; to go on where that stream stands, give its offsets: "
            f"starting_offsets={by_topic(checkpoint.finished)!r}."
        )
    if checkpoint is None or manifest is None:
        bound = starting if reset is None else reset.bound
        if bound is None:
            raise BoundError(
                "This is the first run with this checkpoint_location, so starting_offsets must say where to start: "
                "'earliest', 'latest', offsets such as {'orders': {'0': 23}}, or a moment; got None. (Spark would "
                "start at the latest offset and skip what is there.)"
            )
        return _begin(0, bound, reset, binding, form, selection, cluster, rules, new_stream_id)
    if reset is not None and not reset.is_done(checkpoint):
        number = checkpoint.number + 1
        return _begin(number, reset.bound, reset, binding, form, selection, cluster, rules, new_stream_id)
    differences = manifest.binding.differences(binding)
    if differences:
        raise CheckpointError(
            f"The checkpoint belongs to another job: {'; '.join(differences)}. Pass a checkpoint_location of its own. "
            "If this is the same job with a new definition, it goes on where it stands with "
            f"reset_checkpoint_to={by_topic(checkpoint.finished)!r}."
        )
    return _go_on(checkpoint, manifest, form, selection, cluster, rules, new_stream_id)


def _begin(
    number: int,
    starting: Bound,
    reset: Reset | None,
    binding: Binding,
    form: BatchForm,
    selection: Selection,
    cluster: ClusterState,
    rules: ReadRules,
    stream_id: str,
) -> StreamPlan:
    _raise_if_future(starting, reset, cluster)
    resolved = resolve_window(selection, starting, Bound.everywhere(Latest()), cluster, rules)
    manifest = StreamManifest(
        binding,
        form,
        stream_id,
        {r.topic_partition: r.from_offset for r in resolved.ranges},
        _topic_ids(resolved.ranges, cluster),
        LogEnds.of(resolved.ranges, cluster),
        reset.to if reset is not None else None,
        reset.by if reset is not None else None,
    )
    return StreamPlan(resolved, number, manifest, is_new=True)


def _raise_if_future(starting: Bound, reset: Reset | None, cluster: ClusterState) -> None:
    all_requested = [starting.default, *starting.by_partition.values()]
    future = [
        requested.epoch_ms
        for requested in all_requested
        if isinstance(requested, AtTimestamp) and requested.epoch_ms > cluster.now_ms
    ]
    if future:
        raise BoundError(
            f"{'starting_offsets' if reset is None else 'reset_checkpoint_to'} must not lie in the future, where it "
            f"would be the same as 'latest'; got {iso(future[0])}, and now it is {iso(cluster.now_ms)}."
        )


def _go_on(
    checkpoint: Checkpoint,
    manifest: StreamManifest,
    form: BatchForm,
    selection: Selection,
    cluster: ClusterState,
    rules: ReadRules,
    new_stream_id: str,
) -> StreamPlan:
    cluster.check_whole(sorted(checkpoint.partitions), manifest.topic_ids)
    stands = _standing(checkpoint, manifest, cluster)
    # Before the selection, which may name a deleted topic, is compared with the cluster: this error names the loss.
    raise_on_data_loss(stands.missing, rules)
    selection, absent = _still_there(selection, cluster, rules)
    partitions = selection.partitions(cluster)
    finished = checkpoint.finished
    added = tuple(p for p in partitions if p not in finished)
    starts = {**stands.starts, **{p: cluster.partition(p).log_start for p in added}}
    ranges = OffsetRanges(_unread(p, starts[p], cluster, rules, is_other=p in stands.lost) for p in partitions)
    warnings = [
        *first_ten([f"The topic {name!r} does not exist and is left out." for name in absent]),
        *open_transactions({p: cluster.partition(p) for p in partitions}, rules),
    ]
    missing = raise_on_data_loss([*stands.missing, *_aged_out(added, cluster)], rules)
    resolved = ResolvedRanges(ranges, missing, tuple(warnings))
    uncommitted = _readable([r for r in stands.batch if r.size], cluster, rules)
    number = checkpoint.uncommitted.number if checkpoint.uncommitted is not None else None
    if uncommitted:
        _raise_if_changed(checkpoint, manifest.form, form)
    now = replace(manifest, form=form, topic_ids=_topic_ids(ranges, cluster), reached=LogEnds.of(ranges, cluster))
    if not stands.lost:
        same = replace(now, topic_ids={**manifest.topic_ids, **now.topic_ids})
        return StreamPlan(resolved, checkpoint.number, same, False, uncommitted, number, added)
    # The offsets of the old topic do not apply to the new one, so Spark gets a checkpoint without them.
    after = {**starts, **{r.topic_partition: r.until_offset for r in uncommitted}}
    new = replace(now, stream_id=new_stream_id, starting={p: after[p] for p in partitions})
    return StreamPlan(resolved, checkpoint.number + 1, new, True, uncommitted, number if uncommitted else None, added)


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a stream stands in the logs as they are now.

    :param starts: the next offset of each partition that still exists.
    :param batch: what the logs still have of an uncommitted batch.
    :param missing: what is gone.
    :param lost: partitions that hold other records now, or none.
    """

    starts: Mapping[TopicPartition, int]
    batch: list[OffsetRange]
    missing: list[MissingRange]
    lost: Collection[TopicPartition]


def _standing(checkpoint: Checkpoint, manifest: StreamManifest, cluster: ClusterState) -> _Standing:
    starts: dict[TopicPartition, int] = {}
    missing: list[MissingRange] = []
    lost: set[TopicPartition] = set()
    for p, offset in sorted(checkpoint.finished.items()):
        start, gone = _start_of(p, offset, manifest.topic_ids.get(p.topic), cluster)
        missing += gone
        if start is not None:
            starts[p] = start
        if start is None or (gone and not gone[0].offset_range.size):
            lost.add(p)
    batch, cut = _uncut(checkpoint, lost, cluster)
    return _Standing(starts, batch, [*missing, *cut], lost | {m.offset_range.topic_partition for m in cut})


def _aged_out(added: Iterable[TopicPartition], cluster: ClusterState) -> Iterator[MissingRange]:
    for p in added:
        if log_start := cluster.partition(p).log_start:
            reason = f"aged out before it was read: {p} is new to the stream and its log starts at {log_start}"
            yield MissingRange(OffsetRange(p.topic, p.partition, 0, log_start), reason)


def _unread(p: TopicPartition, start: int, cluster: ClusterState, rules: ReadRules, *, is_other: bool) -> OffsetRange:
    """From the start to the end of the log.

    :param is_other: it holds other records now.
    """
    state = cluster.partition(p)
    if not is_other:
        # After a run that read uncommitted records, Spark would report lost data, or go back.
        check_end(start, p, state, rules)
    return OffsetRange(p.topic, p.partition, start, max(start, rules.end_of(state)))


def _uncut(
    checkpoint: Checkpoint, lost: Collection[TopicPartition], cluster: ClusterState
) -> tuple[list[OffsetRange], list[MissingRange]]:
    """What the log still has of an uncommitted batch, and where it was cut since the batch began.

    :param lost: partitions that hold other records now, without them.
    """
    batch, missing = [], []
    for r in checkpoint.uncommitted_ranges:
        if (p := r.topic_partition) in lost:
            continue
        cut = _cut(p, cluster)
        if r.until_offset > cut:
            reason = f"{_was_cut(p, cluster)}; an uncommitted batch was to read it up to {r.until_offset}"
            missing.append(MissingRange(OffsetRange(p.topic, p.partition, cut, cut), reason))
        batch.append(replace(r, until_offset=min(r.until_offset, cut)))
    return batch, missing


def _raise_if_changed(checkpoint: Checkpoint, begun: BatchForm, form: BatchForm) -> None:
    changes, batch = begun.changes(form), checkpoint.uncommitted
    if changes and batch is not None:
        raise CheckpointError(
            f"An uncommitted batch must be finished as it was begun; batch {batch.number} of generation "
            f"{checkpoint.number} is uncommitted, and {'; '.join(changes)}. Set it back for one run, which finishes "
            "the batch; the runs after it may have the new value. Or copy all of the batch again, whatever the target "
            f"has of it, with reset_checkpoint_to={by_topic(checkpoint.finished)!r}."
        )


def _start_of(
    p: TopicPartition, finished: int, topic_id: str | None, cluster: ClusterState
) -> tuple[int | None, list[MissingRange]]:
    """The start in a partition, None if it is gone; and the missing range before it."""
    # How much of it was unread is unknown, so the missing range is empty.
    unknown = OffsetRange(p.topic, p.partition, finished, finished)
    topic = cluster.topics.get(p.topic)
    if topic is None or p.partition not in topic.partitions:
        what = "topic" if topic is None else "partition"
        return None, [MissingRange(unknown, f"the {what} was deleted; the stream had read it up to offset {finished}")]
    state = topic.partitions[p.partition]
    if topic_id is not None and topic.topic_id is not None and topic_id != topic.topic_id:
        return state.log_start, [
            MissingRange(
                unknown,
                f"the topic was deleted and recreated (id {topic_id}, now {topic.topic_id}); the stream had read "
                f"the old one up to offset {finished}",
                topic_id,
            )
        ]
    if finished > (cut := _cut(p, cluster)):
        # With the same id it is the same topic, cut by an unclean leader election: what is left before it was read.
        is_same = p in cluster.cut_at or None not in (topic_id, topic.topic_id)
        reason = f"{_was_cut(p, cluster)}; the stream had read it up to {finished}"
        return cut if is_same else state.log_start, [MissingRange(unknown, reason)]
    return first_left(p, finished, state, state.high_watermark)


def _cut(p: TopicPartition, cluster: ClusterState) -> int:
    """Where the log was cut, or its end."""
    end = cluster.partition(p).high_watermark
    return min(end, cluster.cut_at.get(p, end))


def _was_cut(p: TopicPartition, cluster: ClusterState) -> str:
    if p in cluster.cut_at:
        return f"the log was cut at {cluster.cut_at[p]} by an unclean leader election, and other records follow"
    return f"the log ends at {cluster.partition(p).high_watermark}: it was cut short, or the topic was recreated"


def _still_there(selection: Selection, cluster: ClusterState, rules: ReadRules) -> tuple[Selection, list[str]]:
    """The selection without topics that do not exist, if loss is permitted; and those topics."""
    named = selection.topics if selection.topics is not None else list(selection.assign or {})
    absent = sorted(name for name in named if name not in cluster.topics)
    if not absent or rules.fail_on_data_loss or len(absent) == len(named):
        return selection, []
    if selection.topics is not None:
        return Selection(topics=[name for name in named if name not in absent]), absent
    return Selection(assign={name: p for name, p in (selection.assign or {}).items() if name not in absent}), absent


def _readable(uncommitted: list[OffsetRange], cluster: ClusterState, rules: ReadRules) -> OffsetRanges:
    readable = []
    for r in uncommitted:
        state = cluster.partition(r.topic_partition)
        check_end(r.until_offset, r.topic_partition, state, rules)
        readable.append(replace(r, from_offset=min(max(r.from_offset, state.log_start), r.until_offset)))
    return OffsetRanges(readable)


def _topic_ids(ranges: OffsetRanges, cluster: ClusterState) -> Mapping[str, str]:
    names = sorted({r.topic for r in ranges})
    return {name: topic_id for name in names if (topic_id := cluster.topic(name).topic_id)}
