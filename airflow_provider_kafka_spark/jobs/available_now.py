"""The stream job: catch up with what is in the topics, batch by batch, from where the checkpoint stands, and stop.

``spark-submit`` starts this file with the path of a request as its only argument.

Spark's availableNow stream decides the offsets of each batch and keeps them in the checkpoint; the copy itself is that
of :mod:`jobs.batch <airflow_provider_kafka_spark.jobs.batch>`, for exactly these offsets. So a batch is committed only
when its records were counted and seen to arrive, which Spark's own streaming sink does not wait for, and there is one
way of copying.

A batch that an earlier run began and did not finish is not left to Spark, which would write all of it again, and in
some versions fail at it (``core.streams.spark_faults``): it is finished first, without what is at the target already,
and committed in Spark's own way.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    CheckpointInUseError,
    DeliveryError,
    ProtocolError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import Segment, joined
from airflow_provider_kafka_spark.core.offsets.spans import merged, plan_spans
from airflow_provider_kafka_spark.core.streams.batch_notes import KEPT_NOTES, NOTES_FOLDER, BatchNote
from airflow_provider_kafka_spark.core.streams.checkpoint import (
    MANIFEST_NAME,
    Batch,
    LatestSubmission,
    StreamManifest,
    batch_numbers,
    batch_ranges,
    commit_text,
)
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.wire.job_events import RecentRate
from airflow_provider_kafka_spark.core.wire.protocol import (
    BatchReport,
    History,
    JobReport,
    RangeReport,
    StreamJob,
    StreamRequest,
)
from airflow_provider_kafka_spark.jobs import batch, hadoop_files
from airflow_provider_kafka_spark.jobs.checkpoint_lock import checkpoint_lock
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_admin import kafka_admin
from airflow_provider_kafka_spark.jobs.progress import OverallProgress
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership, run_ownership
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.jobs.transform import check_expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def copy_stream(spark: SparkApplication, request: StreamJob) -> JobReport:
    """Finish what was begun, copy everything up to the ends that the topics have at the start, and account for it.

    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    started = time.monotonic()
    stream = request.stream
    check_expressions(spark.session, request.transform)
    of_stream = replace(request, run_id=stream.stream_id, instance=stream.stream_id)
    with checkpoint_lock(spark, stream.lock, stream.owner, stream.stale_lock), run_ownership(spark, of_stream) as run:
        _raise_if_moved(spark, stream)
        _take_number(spark, stream, request.submission.number)
        remove_notes(spark, stream)
        totals = StreamTotals.of(stream)
        if stream.unfinished_batch is not None:
            _finish(spark, request, stream.unfinished_batch, totals, run)
        _write_manifest(spark, stream)
        _stream(spark, request, totals, run)
    return JobReport(
        run_id=stream.stream_id,
        plan_digest=request.plan_digest,
        ranges=totals.ranges(),
        target_topics=totals.target_topics(request),
        target_ranges=merged(r for report in totals.reports for r in report.target_ranges),
        segments=_segments(totals.reports),
        batches_passed=sum(report.batches_passed for report in totals.reports),
        bytes_written=sum(report.bytes_written for report in totals.reports),
        target_ids={name: topic_id for report in totals.reports for name, topic_id in report.target_ids.items()},
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.sparkContext.version,
        seconds=time.monotonic() - started,
        delivered_before=sum(report.delivered_before for report in totals.reports),
        committed_before=sum(report.committed_before for report in totals.reports),
        duplicates=sum(report.duplicates for report in totals.reports),
        may_have_duplicates=any(report.may_have_duplicates for report in totals.reports),
        failed_tasks=sum(report.failed_tasks for report in totals.reports),
        batches=tuple(totals.batches),
        ui_url=spark.sparkContext.uiWebUrl,
        # Each batch may have the same.
        warnings=tuple(dict.fromkeys(warning for report in totals.reports for warning in report.warnings)),
    )


@dataclass(slots=True)
class StreamTotals:
    """What was read and written until now, by partition and by batch."""

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    planned: int
    read: Counter[TopicPartition] = field(default_factory=Counter)
    written: Counter[TopicPartition] = field(default_factory=Counter)
    skipped: Counter[TopicPartition] = field(default_factory=Counter)
    rejected: Counter[TopicPartition] = field(default_factory=Counter)
    batches: list[BatchReport] = field(default_factory=list)
    reports: list[JobReport] = field(default_factory=list)
    recent: RecentRate = field(default_factory=lambda: RecentRate(time.monotonic()))

    @classmethod
    def of(cls, stream: StreamRequest) -> StreamTotals:
        starts = {r.topic_partition: r.from_offset for r in stream.planned}
        return cls(starts, dict(starts), stream.planned.total)

    @property
    def progress(self) -> OverallProgress:
        """How far all is, for the next batch."""
        done = sum(self.ends[p] - self.starts.get(p, 0) for p in self.ends)
        return OverallProgress(done, self.planned, self.recent)

    def add(self, number: int, report: JobReport, ends: dict[TopicPartition, int], *, replayed: bool = False) -> None:
        """Account for a batch.

        :param ends: where it ends, also where it has no records.
        """
        for r in report.ranges:
            p = r.offset_range.topic_partition
            self.read[p] += r.records_read
            self.written[p] += r.records_written
            self.skipped[p] += r.records_skipped
            self.rejected[p] += r.records_rejected
        self.ends.update(ends)
        self.reports.append(report)
        counts = report.records_read, report.records_written, report.seconds
        self.batches.append(BatchReport(number, *counts, replayed, report.delivered_before))

    def ranges(self) -> tuple[RangeReport, ...]:
        """What was done, partition by partition; one that was added meanwhile begins at 0.

        :raises DeliveryError: if the stream went back.
        """
        back = [f"{p} from {self.starts[p]} to {end}" for p, end in self.ends.items() if end < self.starts.get(p, 0)]
        if back:
            raise DeliveryError(
                f"A stream must not go back; it went {', '.join(sorted(back)[:5])}. The log was cut short while it ran."
            )
        return tuple(
            RangeReport(
                OffsetRange(p.topic, p.partition, self.starts.get(p, 0), end),
                self.read[p],
                self.written[p],
                self.skipped[p],
                self.rejected[p],
            )
            for p, end in sorted(self.ends.items())
        )

    def target_topics(self, request: StreamJob) -> tuple[str, ...]:
        known = set(request.transform.targets)
        return tuple(sorted(known | {topic for report in self.reports for topic in report.target_topics}))


def _segments(reports: Sequence[JobReport]) -> tuple[Segment, ...] | None:
    """Those of all batches; None if they are not known of one."""
    known = [report.segments for report in reports if report.segments is not None]
    return joined(s for segments in known for s in segments) if known and len(known) == len(reports) else None


def _raise_if_moved(spark: SparkApplication, stream: StreamRequest) -> None:
    """Refuse a plan that was made before another run moved the checkpoint on."""
    began = stream.unfinished_checkpoint or stream.checkpoint
    offsets = batch_numbers(hadoop_files.names(spark, f"{began}/offsets"))
    if max(offsets, default=-1) != stream.last_batch:
        raise CheckpointInUseError(
            f"Another run has moved the checkpoint on since this one was planned (from batch {stream.last_batch} to "
            f"{max(offsets, default=-1)}); a retry makes a new plan. Set max_active_runs=1 for the DAG."
        )


def _take_number(spark: SparkApplication, stream: StreamRequest, number: int) -> None:
    """Write down the number of this submission before it claims the run: the next one gets a higher number."""
    text = hadoop_files.read(spark, stream.latest_submission)
    latest = 0 if text is None else LatestSubmission.from_json(text, stream.latest_submission).number
    if latest > number:
        raise CheckpointInUseError(
            f"Only the latest submission may use the checkpoint; this is submission {number}, and submission {latest} "
            "has used it since. A retry makes a new plan. Set max_active_runs=1 for the DAG."
        )
    hadoop_files.overwrite(spark, stream.latest_submission, LatestSubmission(number).to_json())


def _finish(
    spark: SparkApplication,
    request: StreamJob,
    number: int,
    totals: StreamTotals,
    run: RunOwnership,
) -> None:
    """Finish the batch that an earlier run began, and commit it."""
    stream = request.stream
    with ExitStack() as earlier:
        if request.instance != stream.stream_id:
            # The stream begins anew, and the batch is of the generation before.
            run = earlier.enter_context(run_ownership(spark, request))
        report = batch.copy_ranges(spark, _of_its_topics(request), run, totals.progress)
    _keep_note(spark, stream, str(stream.unfinished_checkpoint), number, report)
    hadoop_files.write_whole(spark, f"{stream.unfinished_checkpoint}/commits/{number}", commit_text())
    ends = {r.offset_range.topic_partition: r.offset_range.until_offset for r in report.ranges}
    totals.add(number, report, ends, replayed=True)


def _of_its_topics(request: StreamJob) -> StreamJob:
    """The request of one batch, whose key has no targets but its own: the next run may map more topics."""
    topics = {r.topic for r in request.ranges}
    return replace(request, transform=request.transform.of_topics(topics)) if topics else request


def _write_manifest(spark: SparkApplication, stream: StreamRequest) -> None:
    uri = f"{stream.checkpoint}/{MANIFEST_NAME}"
    before = hadoop_files.read(spark, uri)
    if before is None:
        hadoop_files.write_whole(spark, uri, stream.manifest)
    elif StreamManifest.from_json(before, uri).stream_id != stream.stream_id:
        raise CheckpointInUseError(
            f"Another run has begun {stream.checkpoint} since this one was planned; a retry makes a new plan. Set "
            "max_active_runs=1 for the DAG."
        )
    elif before != stream.manifest:
        hadoop_files.overwrite(spark, uri, stream.manifest)


def _stream(spark: SparkApplication, request: StreamJob, totals: StreamTotals, run: RunOwnership) -> None:
    """Run the stream to its end."""
    stream = request.stream
    failures: list[Exception] = []
    _protect_callbacks(spark)

    def copy_batch(_: DataFrame, number: int) -> None:
        try:
            _copy_batch(spark, request, number, totals, run)
        except Exception as error:
            # Spark would only pass its text on.
            failures.append(error)
            raise

    query = (
        _source(spark, request)
        .writeStream.foreachBatch(copy_batch)
        .option("checkpointLocation", stream.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        if failures:
            raise failures[0] from error
        raise
    finally:
        if query.isActive:
            query.stop()


def _protect_callbacks(spark: SparkApplication) -> None:
    """Let nobody but the JVM call what is passed to ``foreachBatch``.

    That starts a server on a port that every user of the machine reaches, without a login: PySpark's JVM knows none.
    What may be called is numbered from 0; a number that cannot be guessed is as good as a password.
    """
    gateway: Any = spark.sparkContext._gateway
    gateway.gateway_property.pool.next_id += secrets.randbits(120)


def _copy_batch(
    spark: SparkApplication,
    request: StreamJob,
    number: int,
    totals: StreamTotals,
    run: RunOwnership,
) -> None:
    """Copy the offsets that Spark has written down for a batch. It commits the batch when this returns."""
    stream = request.stream
    name = f"offsets/{number}"
    uncommitted = Batch.parse(hadoop_files.read(spark, f"{stream.checkpoint}/{name}") or "", number, name)
    ranges = batch_ranges(totals.ends, uncommitted.ends)
    part = replace(
        request,
        run_id=stream.stream_id,
        instance=stream.stream_id,
        ranges=ranges,
        spans=plan_spans(ranges),
        history=_history(stream),
    )
    report = batch.copy_ranges(spark, _of_its_topics(part), run, totals.progress)
    _keep_note(spark, stream, stream.checkpoint, number, report)
    _keep_reached(spark, request, uncommitted.ends)
    totals.add(number, report, dict(uncommitted.ends))


def _history(stream: StreamRequest) -> History:
    """Of a batch that this run begins: its records come after what the targets had before the run."""
    ends = StreamManifest.from_json(stream.manifest, MANIFEST_NAME).target_ends
    return History(target_starts={name: {str(number): end for number, end in of.items()} for name, of in ends.items()})


def _keep_note(spark: SparkApplication, stream: StreamRequest, checkpoint: str, number: int, report: JobReport) -> None:
    """Say beside a batch who has finished it, and what it has copied, before it is committed: a later try of the task
    does not read the batch again.
    """
    text = BatchNote(stream.owner, report).to_json()
    hadoop_files.overwrite(spark, f"{checkpoint}/{NOTES_FOLDER}/{number}", text)


def remove_notes(spark: SparkApplication, stream: StreamRequest) -> None:
    """Remove the oldest notes, up to the first that is of this task."""
    folder = f"{stream.checkpoint}/{NOTES_FOLDER}"
    for number in sorted(batch_numbers(hadoop_files.names(spark, folder)))[:-KEPT_NOTES]:
        text = hadoop_files.read(spark, f"{folder}/{number}")
        # One that cannot be read tells nothing.
        with suppress(ProtocolError):
            if text is not None and BatchNote.from_json(text).owner == stream.owner:
                return
        hadoop_files.delete(spark, f"{folder}/{number}")


def _keep_reached(spark: SparkApplication, request: StreamJob, ends: Mapping[TopicPartition, int]) -> None:
    """Write down, before a batch is committed, how far a log has reached that goes on beyond the end of the plan, by
    which the next run knows that it was cut. That is known where the plan's leader still leads.
    """
    stream = request.stream
    from py4j.protocol import Py4JJavaError

    uri = f"{stream.checkpoint}/{MANIFEST_NAME}"
    planned = StreamManifest.from_json(stream.manifest, uri).reached.offsets
    if all(end <= planned.get(p, end) for p, end in ends.items()):
        # As most batches; the file may know of more by now, and of nothing less.
        return
    manifest = StreamManifest.from_json(hadoop_files.read(spark, uri) or "", uri)
    known = manifest.reached
    further = {p: end for p, end in ends.items() if end > known.offsets.get(p, end)}
    if not further:
        return
    leaders: Mapping[tuple[str, int], int | None] = {}
    # The batch is delivered; this note is not worth a failure.
    with suppress(Py4JJavaError, BrokerUnavailableError), kafka_admin(spark, request.source_options) as admin:
        leaders = admin.leader_epochs({p.topic for p in further})
    epochs = {p: known.epochs[p] for p in further if leaders.get((p.topic, p.partition)) == known.epochs[p]}
    if epochs:
        reached = known.and_later(LogEnds({p: further[p] for p in epochs}, epochs))
        hadoop_files.overwrite(spark, uri, replace(manifest, reached=reached).to_json())


def _source(spark: SparkApplication, request: StreamJob) -> DataFrame:
    stream = request.stream
    reader = (
        spark.session.readStream.format("kafka")
        .options(**request.source_options)
        .options(**stream.source)
        .option("startingOffsets", stream.starting_offsets)
        .option("failOnDataLoss", str(request.how.fail_on_data_loss).lower())
    )
    if stream.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(stream.max_offsets_per_trigger))
    return reader.load()


if __name__ == "__main__":
    sys.exit(run_job(copy_stream))
