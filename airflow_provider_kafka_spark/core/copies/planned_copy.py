"""A copy that is planned and not yet submitted: the plain data between the steps of an operator. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.copies.batch_form import BatchForm
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.core.topics.known_topics import recreated
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest, Pace, StreamRequest, Transform


@dataclass(frozen=True, slots=True)
class EarlierDelivery:
    """What this task instance delivered before it was cleared: the job proved it.

    :param key: the delivery key, see ``core.runs.run_protocol``.
    :param records: how many.
    :param target_ranges: where the target got them, as ``topic:partition:from:until``.
    :param announced: the part of ``target_ranges`` that asset events have announced.
    :param target_ids: id of each target topic then.
    :param submission: number of the latest submission that it is of.
    :param ranges: what was read, as ``topic:partition:from:until``.
    :param segments: where its records are; None if that is not known.
    :param may_have_duplicates: its records may be in the target more than once, and no header tells which.
    :param searched: what the target got while tries of this run wrote: records that a failed one of another plan has
        left are there too.
    """

    key: str
    records: int
    target_ranges: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    target_ids: Mapping[str, str] = field(default_factory=dict)
    submission: int = 0
    ranges: tuple[str, ...] = ()
    segments: tuple[Segment, ...] | None = None
    may_have_duplicates: bool = False
    searched: tuple[str, ...] = ()

    def still_there(self, target_ids: Mapping[str, str]) -> EarlierDelivery:
        """What is not in a topic that was recreated since.

        :param target_ids: of now; a topic that is not named counts as the same.
        """
        gone = recreated(self.target_ids, target_ids)
        ranges, announced, searched = (
            tuple(r.format() for r in OffsetRanges.parse(texts) if r.topic not in gone)
            for texts in (self.target_ranges, self.announced, self.searched)
        )
        return replace(self, target_ranges=ranges, announced=announced, searched=searched)

    def unannounced(self, target_ranges: Iterable[OffsetRange]) -> OffsetRanges:
        """The part that no asset event has announced."""
        return OffsetRanges(target_ranges).subtract(OffsetRanges.parse(self.announced))

    def all_targets(self, target_ranges: Iterable[OffsetRange]) -> OffsetRanges:
        """Where the target has what this try and the earlier ones delivered."""
        return OffsetRanges.parse(self.target_ranges).merge(target_ranges)


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """All that is decided about a copy before its job is submitted. It holds no secret.

    :param run_id: goes into the provenance header; the same for all tries.
    :param instance: by which the run is found at the target's brokers, see ``core.runs.run_identity``.
    :param parameters: of the run's first try.
    :param plan: what is read and to where it goes; of a stream, from where it stands to the end of the log.
    :param transform: how each record is changed.
    :param rules: how to read.
    :param ranges: what the job must read exactly; of a stream, those of its uncommitted batch.
    :param spans: what each Spark partition reads of them.
    :param preserve_order: many spans of one Kafka partition are read by one task.
    :param allow_same_topic: a topic that is read may be written to.
    :param is_retry: an earlier try of this run may have delivered records.
    :param former_run_ids: of runs of this task instance that this one takes the place of.
    :param adopts_run: the run is that of the mark at the brokers, if there is one.
    :param is_lost: because the task's state is lost, and not because an item may have had another map index.
    :param is_first_submission: no job was ever submitted under ``run_id``.
    :param earlier: what was delivered before the task was cleared, or None.
    :param audit_from: for each target topic and partition, its end before the run's first submission.
    :param audit_since_ms: when a stream's uncommitted batch was planned, in ms since 1970; None to take the time of the
        submission.
    :param pace: how fast the job may write; None for no limit.
    :param title: of the task, for Spark's page.
    :param reader: who reads the records, see ``core.copies.batch_path``; None for the default.
    :param path: how records are read, in one sentence, see ``core.copies.batch_path``.
    :param client_id: by which brokers know the job's clients, for quotas and logs.
    :param stream: the additional fields for a stream; None for a bounded copy.
    :param look: what the logs had when this try planned; None if it did not look.
    """

    run_id: str
    instance: str
    parameters: CopyParameters
    plan: ReplayPlan
    transform: Transform
    rules: ReadRules
    ranges: OffsetRanges
    spans: tuple[OffsetRange, ...]
    preserve_order: bool = True
    allow_same_topic: bool = False
    is_retry: bool = False
    former_run_ids: tuple[str, ...] = ()
    adopts_run: bool = False
    is_lost: bool = False
    is_first_submission: bool = False
    earlier: EarlierDelivery | None = None
    audit_from: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    audit_since_ms: int | None = None
    pace: Pace | None = None
    client_id: str = "airflow-kafka-spark"
    title: str = ""
    reader: str | None = None
    path: str = ""
    stream: StreamRequest | None = None
    look: LogLook | None = None

    @property
    def delivery_parts(self) -> dict[str, str]:
        """What decides which records are written and to where, as far as it is known before the job.

        A change of the plan's fingerprint makes another run; a change of the rest only makes the committed progress not
        count. The ids of source topics are in the names of their pieces, so that one more topic changes nothing for the
        others. All else of a stream is bound to its checkpoint, and so to the ``run_id``.
        """
        if self.stream is not None:
            return BatchForm.of(self.parameters).described()
        return {
            **self.plan.fingerprint_of_all(encode(self.transform)),
            "isolation_level": self.parameters.isolation_level,
        }

    @property
    def asked(self) -> str:
        """Identifies what the job is asked to deliver, and how: a report answers nothing else."""
        earlier = None if self.earlier is None else asdict(self.earlier)
        spans = [span.format() for span in self.spans]
        content = [
            [self.run_id, self.instance, self.plan.digest, self.parameters.delivery, self.preserve_order, earlier],
            [self.ranges.format(), spans, dict(self.delivery_parts), dict(self.plan.target_ids)],
            dict(self.plan.topic_ids),
            self.rules.fail_on_data_loss,
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def forbidden_targets(self) -> tuple[str, ...]:
        """Topics that ``target_topic_expr`` must not lead to."""
        same_cluster = self.plan.source_cluster_id == self.plan.target_cluster_id
        names = {r.topic for r in self.plan.ranges} if same_cluster and not self.allow_same_topic else set()
        return tuple(sorted(names))

    def evidence(
        self, target_ids: Mapping[str, str], run_id: str, *, may_have_duplicates: bool = False
    ) -> dict[str, Any]:
        """What a result has for its audit, as plain JSON.

        :param target_ids: of the report.
        :param run_id: of the result.
        :param may_have_duplicates: of the report.
        """
        plan = self.plan
        return CopyEvidence(
            transform=self.transform,
            read_committed=self.rules.read_committed,
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            target_ids=plan.targets(target_ids).topic_ids,
            target_ends=plan.target_ends,
            also_run_ids=(self.run_id,) if self.stream is not None and self.run_id != run_id else (),
            may_have_duplicates=may_have_duplicates,
        ).to_dict()

    @property
    def _proved(self) -> dict[str, Any]:
        """What the request says of a delivery that the worker has proved before the task was cleared."""
        if self.earlier is None:
            return {}
        earlier = self.earlier.still_there(self.plan.target_ids)
        found = {
            "proved_key": earlier.key,
            "proved_repeats": earlier.may_have_duplicates,
            "proved_targets": earlier.target_ranges,
            "audit_within": earlier.searched,
        }
        if not self.transform.provenance.in_segments:
            return found
        return {
            **found,
            "proved_until": earlier.submission,
            "proved_ranges": earlier.ranges,
            "proved_segments": earlier.segments,
        }

    def request(self, job: SubmittedJob, logins: JobCredentials, progress_seconds: float) -> JobRequest:
        """The request to the job.

        :param logins: of the job, added to the options of source and sink.
        :param progress_seconds: seconds between two lines of progress.
        """
        # A stream reads in its batches what the plan has, and not only the uncommitted batch.
        read = self.spans if self.stream is None else plan_spans(self.plan.ranges)
        return JobRequest(
            run_id=self.run_id,
            instance=self.instance,
            submission=job.submission,
            submitted_at_ms=job.at_ms,
            plan_digest=self.plan.digest,
            ranges=tuple(self.ranges.format()),
            spans=self.spans,
            transform=self.transform,
            source_options={
                "kafka.client.id": self.client_id,
                **source_defaults(read, read_committed=self.rules.read_committed),
                **logins.source_options(),
                **self.parameters.source_options,
            },
            sink_options={
                "kafka.client.id": self.client_id,
                **sink_defaults(),
                **logins.sink_options(),
                **self.parameters.sink_options,
            },
            report_uri="",
            fail_on_data_loss=self.rules.fail_on_data_loss,
            reader=self.reader,
            preserve_order=self.preserve_order,
            delivery=self.parameters.delivery,
            delivery_parts=self.delivery_parts,
            goes_on=self.stream is not None,
            source_ids=dict(self.plan.topic_ids),
            window=self.plan.window,
            is_retry=self.is_retry,
            former_run_ids=self.former_run_ids,
            adopts_run=self.adopts_run,
            is_first_submission=self.is_first_submission,
            untrusted_until=job.untrusted_until,
            audit_from=self.audit_from,
            audit_since_ms=job.audit_since_ms if self.audit_since_ms is None else self.audit_since_ms,
            forbidden_targets=self.forbidden_targets,
            progress_seconds=progress_seconds,
            pace=self.pace,
            stream=self.stream,
            title=self.title,
            **self._proved,
        )


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """The handle of a job. It is stored before the job can write anything, and holds no secret.

    :param submission: its number, which only grows.
    :param at_ms: when it is about to start, in ms since 1970.
    :param untrusted_until: progress that was committed under this number or a lower one does not count.
    :param audit_since_ms: when the run's first submission was about to start, in ms since 1970.
    """

    submission: int
    at_ms: int
    untrusted_until: int = 0
    audit_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job whose driver does not end with its worker: how another try finds it, and what it has delivered.

    It is stored before the submission.

    :param tag: of its application, on YARN.
    :param report_uri: where its driver leaves the report.
    :param asked: of the copy, see :attr:`PlannedCopy.asked`.
    """

    tag: str
    report_uri: str
    asked: str
