"""What of the plan this driver has to copy: everything that earlier tries have not delivered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.errors import DeliveryError, TargetRecreatedError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS
from airflow_provider_kafka_spark.core.runs.run_protocol import Decision, counts_for
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.core.wire.writer_messages import Slot
from airflow_provider_kafka_spark.jobs.delivered import Delivered, find_delivered
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin, TargetTopic, login_options
from airflow_provider_kafka_spark.jobs.kafka_source import Source, open_source, read_ranges
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership
from airflow_provider_kafka_spark.jobs.run_store import TIMEOUT_OPTION
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import needs_sql

#: How long to wait for the end of another writer's transaction.
_OPEN_SECONDS = 120.0
_COMPACTED = (
    "This is a retry, and the target is compacted ({}): what an earlier try delivered may be gone from it, so whole "
    "ranges are written again, in order."
)
_NO_HEADERS = (
    "An earlier try may have delivered records, its committed progress does not tell which, and without provenance "
    "headers there is no other way to find them: all records are written, and what it has delivered is written again."
)
_CUT = (
    "{} has not what an earlier try has delivered there: another leader has cut the log. Without provenance headers "
    "nothing tells what is gone: all records are written, and what is left of the earlier ones is there once more."
)
_LATE = (
    "The job began more than an hour after its submission, and nothing tells whose records the target has got since. "
    "If another try has delivered meanwhile, and brokers have forgotten it, records are in the target more than once."
)
_UNKNOWN_SETTINGS = (
    "The login may not read the settings of the target (DESCRIBE_CONFIGS), so nothing tells whether it is compacted. "
    "What compaction has removed since an earlier try counts as missing, and is written again after newer records."
)
_UNLOOKED = (
    "The target has had another leader since this run was finished, and the task no longer knows where its "
    "records are: whether the log was cut was not looked at. An audit tells."
)
_OTHER_FORM = (
    "The run that this task has taken over has delivered by other parameters, or to other targets. What it has "
    "delivered was found by its headers and counts, in the form that it has."
)
_OTHER_SOURCE = (
    "The run that this task would have taken over has read other source topics of the same names: they were deleted "
    "and recreated since, or are of another cluster. Nothing that it has delivered counts: all is copied under a new "
    "run_id, and the target keeps the records of that run too."
)
_MAY_BE_REPEATED = (
    "A try of this run, or its next plan, could not tell what was delivered before, so records may be in the target "
    "more than once. Nothing in the target tells which."
)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What has to be copied, under a run that this driver has claimed.

    :param run: that this driver has claimed.
    :param source: the records; None if nothing is left.
    :param target_ids: ids of the targets, as far as known: the writer compares them before each commit.
    :param slots: where each piece commits its progress, by its name.
    :param is_delivered: everything was delivered; records are only counted.
    :param found: what the target had when the run was claimed.
    :param committed: offsets of the source that earlier tries had committed; they are read again, and not written.
    :param repeats: records may be in the target more than once.
    """

    run: RunOwnership
    source: Source | None
    target_ids: Mapping[str, str]
    slots: Mapping[str, Slot] = field(default_factory=dict)
    is_delivered: bool = False
    found: Delivered = field(default_factory=Delivered)
    committed: int = 0
    repeats: bool = False
    warnings: tuple[str, ...] = ()


def find_remaining(
    spark: SparkApplication,
    request: CopyJob,
    run: RunOwnership,
    targets: Sequence[str],
    configs: Mapping[str, Mapping[str, str]],
) -> Remaining:
    """Claim the run, and find what is left to copy. Spark tasks may write after this.

    :param targets: every topic that is written to.
    :param configs: settings of the targets, as far as known.
    :raises KafkaSparkError: if a later try has the run, or earlier deliveries cannot be read.
    """
    source = open_planned(spark, request, request.ranges.without_empty())
    described = _described(run.admin, targets)
    target_ids = {name: topic.id for name, topic in described.items()}
    compacted = _compacted(configs)
    reads_back = request.transform.provenance.in_headers and not compacted
    may_lack = may_lack_records(configs, targets)
    decision = run.claim(request, source.pieces, described, reads_back=reads_back, may_lack=may_lack)
    only_counts = decision is Decision.DELIVERED
    if decision is Decision.READ_BACK and not reads_back:
        # The target cannot say what it has. The worker knows what it got.
        only_counts = counts_for(request.earlier.key, run.key) and not run.cut
        if not only_counts and _has_got_nothing(request, run, targets):
            decision = Decision.BEGIN
    repeats = run.repeats(decision, only_counts=only_counts)
    notes = [_OTHER_SOURCE] if run.is_of_other_source else []
    warnings = (*source.warnings, *notes, *([_MAY_BE_REPEATED] if repeats else []))
    if only_counts:
        warnings = (*warnings, *([_UNLOOKED] if run.is_unlooked else []))
        return Remaining(run, source, target_ids, is_delivered=True, repeats=repeats, warnings=warnings)
    if decision is not Decision.READ_BACK:
        slots = run.open(decision, source.pieces)
        committed = 0 if decision is Decision.BEGIN else run.committed_offsets(source.pieces)
        return Remaining(run, source, target_ids, slots, committed=committed, repeats=repeats, warnings=warnings)
    if not reads_back:
        slots = run.open(decision, source.pieces)
        warning = _COMPACTED.format(", ".join(compacted[:5])) if compacted else _NO_HEADERS
        warning = warning if run.follows_another else _LATE
        warning = _CUT.format(", ".join(run.cut[:5])) if run.cut else warning
        return Remaining(run, source, target_ids, slots, repeats=True, warnings=(*source.warnings, *notes, warning))
    remaining = _read_back(spark, request, run, source, described)
    notes += [] if configs else [_UNKNOWN_SETTINGS]
    notes += [_OTHER_FORM] if run.is_of_other_form and remaining.found.ranges else []
    return replace(remaining, warnings=(*remaining.warnings, *notes))


def _read_back(
    spark: SparkApplication, request: CopyJob, run: RunOwnership, planned: Source, targets: Mapping[str, TargetTopic]
) -> Remaining:
    """What the targets do not have, which say it by the headers of their records."""
    _wait_for_open_transactions(run.admin, list(targets))
    found = find_written(spark, request, run, list(targets))
    source = _not_found(spark, request, planned, found)
    slots = run.open(Decision.READ_BACK, () if source is None else source.pieces)
    target_ids = {name: topic.id for name, topic in targets.items()}
    warnings = () if source is None else source.warnings
    return Remaining(run, source, target_ids, slots, found=found, warnings=warnings)


def _not_found(spark: SparkApplication, request: CopyJob, source: Source, found: Delivered) -> Source | None:
    """What is left of a source, where some of it was found in the target; None if nothing is."""
    planned = request.ranges.without_empty()
    pieces = planned.subtract(found.ranges)
    if not pieces or not found.ranges:
        return source if pieces else None
    remaining = {piece: planned.index_of_range_holding(piece) for piece in pieces}
    return _open(spark, request, remaining, plan_spans(pieces))


def _described(admin: KafkaAdmin, targets: Sequence[str]) -> Mapping[str, TargetTopic]:
    """:raises TargetRecreatedError: if one is not there."""
    described = admin.describe(targets)
    if missing := sorted(set(targets) - described.keys()):
        raise TargetRecreatedError(
            f"The target must exist until the job ends; {', '.join(missing[:5])} was deleted since the plan was made. "
            "Create it: a retry then writes all records to the new topic."
        )
    return described


def _compacted(configs: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [name for name, config in configs.items() if "compact" in config["cleanup.policy"]]


def may_lack_records(configs: Mapping[str, Mapping[str, str]], targets: Sequence[str]) -> Sequence[str]:
    """The targets from which a record may be absent that was acknowledged: by compaction, as far as is known."""
    return _compacted(configs) if configs else targets


def _has_got_nothing(request: CopyJob, run: RunOwnership, targets: Sequence[str]) -> bool:
    """Whether nobody has written to the targets since before the run's first submission.

    After a clear of what was proved, it is known only since then; of a stream it is not known.
    """
    if request.earlier.key or request.is_of_stream:
        return False
    ends = run.admin.end_offsets(targets)
    return all(
        request.history.target_starts.get(topic, {}).get(str(number)) == end for (topic, number), end in ends.items()
    )


def open_planned(spark: SparkApplication, request: CopyJob, planned: OffsetRanges) -> Source:
    """The records of the whole plan; nothing is read yet."""
    return _open(spark, request, {r: i for i, r in enumerate(planned)}, request.spans)


def _open(
    spark: SparkApplication, request: CopyJob, ranges: Mapping[OffsetRange, int], spans: Sequence[OffsetRange]
) -> Source:
    options = {**request.source_options, "failOnDataLoss": str(request.how.fail_on_data_loss).lower()}
    return open_source(
        spark,
        ranges,
        spans,
        options,
        request.source_ids,
        preserve_order=request.how.preserve_order,
        is_of_stream=request.is_of_stream,
        bundles=not needs_sql(request.transform),
        transaction_timeout_ms=int(request.sink_options.get(TIMEOUT_OPTION, TRANSACTION_TIMEOUT_MS)),
    )


def start_in_target(request: CopyJob, topic: str, number: int, end: int) -> int:
    """From which offset on a partition of a target may have records of this run.

    :param end: of the partition. If the run began beyond it, that was in a topic that has been recreated since.
    """
    start = request.history.target_starts.get(topic, {}).get(str(number), 0)
    return start if start <= end else 0


def find_written(spark: SparkApplication, request: CopyJob, run: RunOwnership, targets: Sequence[str]) -> Delivered:
    """What all tries of this run have written until now, read back from the targets by the provenance header."""
    options = {
        **login_options(request.sink_options),
        # What was aborted was not delivered.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "false",
    }
    earlier = request.earlier.searched
    # Where the part begins that the worker does not know.
    starts = {r.topic_partition: r.until_offset for r in earlier}
    is_known = bool(request.history.target_starts) and not request.history.adopts_run
    reads_rest = is_known and not run.may_be_cut
    rest = [
        # In a log that was cut, it may also be in front of where it ended before.
        OffsetRange(topic, number, start_in_target(request, topic, number, end) if reads_rest else 0, end)
        for (topic, number), end in run.admin.end_offsets(targets, committed=True).items()
    ]
    if is_known:
        starts = {r.topic_partition: r.from_offset for r in rest}
    in_front = OffsetRanges(replace(r, from_offset=0, until_offset=r.from_offset) for r in rest)
    written = read_ranges(spark.session, [*earlier.intersect(in_front), *rest], options)
    known = request.earlier.target_ranges
    return find_delivered(spark.session, written, run.run_id, starts, known, request.transform.dead_letter_topic)


def _wait_for_open_transactions(admin: KafkaAdmin, targets: Sequence[str]) -> None:
    """Return when readers of committed records see everything that is in the targets by now.

    :raises DeliveryError: if a transaction of another writer stays open.
    """
    ends, deadline = admin.end_offsets(targets), time.monotonic() + _OPEN_SECONDS
    while True:
        seen = admin.end_offsets(targets, committed=True)
        hidden = [f"{topic}[{number}]" for (topic, number), end in ends.items() if seen.get((topic, number), end) < end]
        if not hidden:
            return
        if time.monotonic() > deadline:
            raise DeliveryError(
                "What an earlier try delivered must be seen before anything is written; a transaction of another "
                f"writer has been open for {_OPEN_SECONDS:.0f} s in {', '.join(hidden[:5])}. Nothing was written. A "
                "retry looks again; the writer has to commit, or its transaction to time out "
                "(transaction.timeout.ms)."
            )
        time.sleep(0.2)
