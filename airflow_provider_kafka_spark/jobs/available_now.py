"""The stream job: catch up with what is in the topics, batch by batch, from where the checkpoint stands, and stop.

``spark-submit`` starts this file with the path of a request as its only argument.

A batch that an earlier run began and did not finish is not left to Spark, which would write all of it again: its exact offsets are copied by the batch job, which leaves out what is at the target
already, and it is then committed in Spark's own way. Two faults of Spark's own replay are passed by with it (``core.spark_faults``).
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.checkpoint import Generation, Unverified, commit_text, parse_offsets
from airflow_provider_kafka_spark.core.checkpoint_layout import RECORD_NAME, UNVERIFIED_NAME
from airflow_provider_kafka_spark.core.errors import CheckpointInUseError, DeliveryError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.protocol import BatchReport, JobReport, JobRequest, RangeReport, StreamOrder
from airflow_provider_kafka_spark.jobs import batch, hadoop_files
from airflow_provider_kafka_spark.jobs.checkpoint_lock import checkpoint_lock
from airflow_provider_kafka_spark.jobs.counting import count_metrics, observed_counts
from airflow_provider_kafka_spark.jobs.driver import run_job
from airflow_provider_kafka_spark.jobs.kafka_source import kafka_by_v2
from airflow_provider_kafka_spark.jobs.progress import Progress, records_read
from airflow_provider_kafka_spark.jobs.range_index import RANGE_INDEX
from airflow_provider_kafka_spark.jobs.target_growth import TargetGrowth, fitting_batches
from airflow_provider_kafka_spark.jobs.targets import check_targets, find_targets
from airflow_provider_kafka_spark.jobs.transform import KEEP, check_expressions, mark_kept, to_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_COUNTS = "counts"
#: A range index is ``number of the topic * this + partition``: partitions that are added meanwhile have one too.
_PARTITIONS_PER_TOPIC = 1 << 20
#: Batches are collected more often than Spark forgets this many of them.
_KEPT_PROGRESS = 10_000
_COLLECT_SECONDS = 1


def catch_up(spark: SparkSession, request: JobRequest) -> JobReport:
    """Finish what was begun, copy everything up to the ends that the topics have at the start, and account for it.

    :raises KafkaSparkError: if the request cannot be carried out as it stands.
    """
    started = time.monotonic()
    order = request.stream
    if order is None:
        raise ValueError("The request is of a bounded copy; jobs.batch runs those.")
    check_expressions(spark, request.transform)
    with checkpoint_lock(spark, order.lock, order.owner, order.stale_lock):
        _refuse_moved(spark, order)
        targets = _targets(spark, request, order)
        account = _Account.of(order)
        failed_tasks = duplicates = 0
        if order.unfinished_batch is not None:
            finished = _finish(spark, request, order, account)
            failed_tasks, duplicates = finished.failed_tasks, finished.duplicates
        _write_record(spark, order)
        failed_tasks += _stream(spark, request, order, account, targets)
        if failed_tasks and request.transform.provenance_headers:
            duplicates = batch.find_written(spark, replace(request, run_id=order.stream_id), targets).duplicates
    return JobReport(
        run_id=order.stream_id,
        plan_digest=request.plan_digest,
        ranges=account.ranges(),
        target_topics=targets,
        application_id=spark.sparkContext.applicationId,
        spark_version=spark.version,
        seconds=time.monotonic() - started,
        delivered_before=sum(b.delivered_before for b in account.batches),
        duplicates=duplicates,
        failed_tasks=failed_tasks,
        batches=tuple(account.batches),
        ui_url=spark.sparkContext.uiWebUrl,
    )


@dataclass(slots=True)
class _Account:
    """What was read and written until now, by partition and by batch."""

    topics: tuple[str, ...]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    read: Counter[TopicPartition] = field(default_factory=Counter)
    written: Counter[TopicPartition] = field(default_factory=Counter)
    batches: list[BatchReport] = field(default_factory=list)

    @classmethod
    def of(cls, order: StreamOrder) -> _Account:
        starts = {r.topic_partition: r.from_offset for r in order.planned_ranges}
        return cls(tuple(sorted({p.topic for p in starts})), starts, dict(starts))

    def ranges(self) -> tuple[RangeReport, ...]:
        """A partition that was added meanwhile begins at 0."""
        return tuple(
            RangeReport(p.topic, p.partition, self.starts.get(p, 0), end, self.read[p], self.written[p])
            for p, end in sorted(self.ends.items())
        )

    def index_sql(self) -> str:
        """An expression for the range index of a record."""
        cases = " ".join(f"when '{topic}' then {number}" for number, topic in enumerate(self.topics))
        return f"(case topic {cases} end) * {_PARTITIONS_PER_TOPIC} + partition"

    def partition_at(self, index: int) -> TopicPartition:
        topic, partition = divmod(index, _PARTITIONS_PER_TOPIC)
        return TopicPartition(self.topics[topic], partition)

    def add_progress(self, progress: dict[str, Any], *, drops_records: bool) -> None:
        """Account for a micro-batch that Spark reports as done."""
        number, end = progress["batchId"], progress["sources"][0].get("endOffset")
        if end:
            # Also of a batch without records: its offsets may be aborted records and markers only.
            self.ends.update(parse_offsets(end, f"the end of batch {number}"))
        if not progress["numInputRows"]:
            return
        observed = progress.get("observedMetrics", {}).get(_COUNTS)
        if observed is None:
            raise DeliveryError(
                f"Spark must count the records of every batch; it did not for batch {number} of {progress['numInputRows']:,} records. This is a fault of this package; please report it."
            )
        read, kept = observed_counts(observed, drops_records=drops_records)
        self.read.update({self.partition_at(i): count for i, count in read.items()})
        self.written.update({self.partition_at(i): count for i, count in kept.items()})
        self.batches.append(BatchReport(number, read.total(), kept.total(), progress["batchDuration"] / 1000))


def _refuse_moved(spark: SparkSession, order: StreamOrder) -> None:
    """Refuse a plan that was made before another run moved the checkpoint on."""
    began = order.unfinished_checkpoint or order.checkpoint
    offsets = [int(name) for name in hadoop_files.names(spark, f"{began}/offsets") if name.isdecimal()]
    if max(offsets, default=-1) != order.last_batch:
        raise CheckpointInUseError(
            f"Another run has moved the checkpoint on since this one was planned (from batch {order.last_batch} to {max(offsets, default=-1)}); a retry makes a new plan. Set max_active_runs=1 for the DAG."
        )


def _targets(spark: SparkSession, request: JobRequest, order: StreamOrder) -> tuple[str, ...]:
    transform, planned = request.transform, order.planned_ranges

    def kept() -> DataFrame:
        return batch.read_planned(spark, request, planned.without_empty()).where(KEEP)

    with kafka_by_v2(spark):
        targets = find_targets(spark, transform, planned, kept)
    if transform.topic_expr is not None:
        check_targets(spark, targets, transform, planned, request.sink_options, request.forbidden_targets)
    return targets


def _finish(spark: SparkSession, request: JobRequest, order: StreamOrder, account: _Account) -> JobReport:
    """Finish what an earlier run began, and commit it."""
    report = batch.copy(spark, request)
    number = order.unfinished_batch
    commit = f"{order.unfinished_checkpoint}/commits/{number}"
    if hadoop_files.read(spark, commit) is None:
        hadoop_files.write_whole(spark, commit, commit_text())
    hadoop_files.delete(spark, f"{order.unfinished_checkpoint}/{UNVERIFIED_NAME}")
    for r in report.ranges:
        p = TopicPartition(r.topic, r.partition)
        account.read[p] += r.records_read
        account.written[p] += r.records_written
        account.ends[p] = r.until_offset
    account.batches.append(
        BatchReport(
            number or 0,
            report.records_read,
            report.records_written,
            report.seconds,
            replayed=True,
            delivered_before=report.delivered_before,
        )
    )
    return report


def _write_record(spark: SparkSession, order: StreamOrder) -> None:
    uri = f"{order.checkpoint}/{RECORD_NAME}"
    before = hadoop_files.read(spark, uri)
    if before is None:
        hadoop_files.write_whole(spark, uri, order.record)
    elif Generation.from_json(before, uri).stream_id != order.stream_id:
        raise CheckpointInUseError(
            f"Another run has begun {order.checkpoint} since this one was planned; a retry makes a new plan. Set max_active_runs=1 for the DAG."
        )
    elif before != order.record:
        hadoop_files.overwrite(spark, uri, order.record)


def _stream(
    spark: SparkSession, request: JobRequest, order: StreamOrder, account: _Account, targets: Sequence[str]
) -> int:
    """Run the stream to its end, and see its records arrive.

    :return: number of Spark tasks that were lost and ran again.
    :raises DeliveryError: if the target has not grown by what was written; the next run then finishes it.
    """
    drops = request.transform.drops_records
    records = mark_kept(_source(spark, request, order), request.transform)
    bins = 2 * len(account.starts) + 64
    counted = records.selectExpr("*", f"{account.index_sql()} as {RANGE_INDEX}").observe(
        _COUNTS, *count_metrics(bins, drops_records=drops)
    )
    target = to_target(counted.where(KEEP), request.transform, order.stream_id)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_KEPT_PROGRESS))
    growth = TargetGrowth(spark, targets, request.sink_options)
    note = f"{order.checkpoint}/{UNVERIFIED_NAME}"
    _write_note(spark, note, account)
    written_before = account.written.total()
    query = (
        target.writeStream.format("kafka")
        .options(**fitting_batches(spark, targets, request.sink_options))
        .option("checkpointLocation", order.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    collected = _Collected(query, lambda progress: account.add_progress(progress, drops_records=drops))
    planned = max(0, order.planned_ranges.total - sum(b.records_read for b in account.batches))
    with Progress(planned, request.progress_seconds, lambda: collected.records + records_read(spark, unfinished=True)):
        try:
            while not query.awaitTermination(_COLLECT_SECONDS):
                if collected.collect() and growth.holds(account.written.total() - written_before):
                    _write_note(spark, note, account)
        finally:
            if query.isActive:
                query.stop()
    collected.collect()
    growth.wait_for(account.written.total() - written_before)
    hadoop_files.delete(spark, note)
    return batch.failed_tasks(spark, str(query.runId))


def _write_note(spark: SparkSession, uri: str, account: _Account) -> None:
    """Note how far all is proved, for the case that this run does not get to its end."""
    hadoop_files.overwrite(spark, uri, Unverified(account.ends, int(time.time() * 1000)).to_json())


def _source(spark: SparkSession, request: JobRequest, order: StreamOrder) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .options(**request.source_options)
        .options(**order.source)
        .option("startingOffsets", order.starting_offsets)
        .option("failOnDataLoss", str(request.fail_on_data_loss).lower())
        .option("includeHeaders", "true")
    )
    if order.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(order.max_offsets_per_trigger))
    return reader.load()


class _Collected:
    """The micro-batches that are done, each handed over once."""

    def __init__(self, query: StreamingQuery, add: Callable[[dict[str, Any]], None]) -> None:
        self._query = query
        self._add = add
        self._seen: set[tuple[int, str]] = set()
        self.records = 0

    def collect(self) -> bool:
        """Hand over what is new, and say whether there was anything."""
        before = len(self._seen)
        for progress in self._query.recentProgress:
            # A trigger that found nothing reports the number of the batch that would have been.
            key = (progress["batchId"], progress["timestamp"])
            if key not in self._seen:
                self._seen.add(key)
                self.records += progress["numInputRows"]
                self._add(json.loads(progress.json))
        return len(self._seen) > before


def main(argv: Sequence[str] | None = None) -> int:
    """Run the request in the file that the first argument names; the report says how it went."""
    return run_job(catch_up, argv)


if __name__ == "__main__":
    sys.exit(main())
