"""A copy that is planned and not yet submitted: the plain data between the steps of an operator. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.identity import BatchForm, digest_of
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import (
    CopyJob,
    EarlierDelivery,
    History,
    How,
    StreamJob,
    StreamRequest,
    Submission,
    Transform,
)


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """All that is decided about a copy before its job is submitted. It holds no secret.

    :param run_id: goes into the provenance header; the same for all tries.
    :param instance: by which the run is found at the target's brokers, see ``core.runs.run_identity``.
    :param parameters: of the run's first try.
    :param plan: what is read and to where it goes; of a stream, from where it stands to the end of the log.
    :param transform: how each record is changed.
    :param ranges: what the job must read exactly; of a stream, those of its uncommitted batch.
    :param spans: what each Spark partition reads of them.
    :param how: how it is carried out.
    :param allow_same_topic: a topic that is read may be written to.
    :param history: what is known of the run before this try.
    :param is_lost: the run may be another one, because the task's state is lost.
    :param title: of the task, for Spark's page.
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
    ranges: OffsetRanges
    spans: tuple[OffsetRange, ...]
    how: How = field(default_factory=How)
    allow_same_topic: bool = False
    history: History = field(default_factory=History)
    is_lost: bool = False
    client_id: str = "airflow-kafka-spark"
    title: str = ""
    path: str = ""
    stream: StreamRequest | None = None
    look: LogLook | None = None

    @property
    def rules(self) -> ReadRules:
        return ReadRules(self.parameters.read_committed, self.how.fail_on_data_loss)

    @property
    def checkpoint(self) -> StreamRequest:
        """:attr:`stream`, of a stream.

        :raises ValueError: if this is a bounded copy.
        """
        if self.stream is None:
            raise ValueError("The plan of a stream must have its checkpoint.")
        return self.stream

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
    def earlier(self) -> EarlierDelivery | None:
        """What was delivered before the task was cleared, and is still in the target; None if nothing was."""
        return self.history.earlier

    @property
    def digest(self) -> str:
        """Identifies what the job is asked to deliver, and how: a report answers nothing else."""
        earlier = None if self.earlier is None else encode(self.earlier)
        spans = [span.format() for span in self.spans]
        content = [
            [self.run_id, self.instance, self.plan.digest, self.parameters.delivery, self.how.preserve_order, earlier],
            [self.ranges.format(), spans, dict(self.delivery_parts), dict(self.plan.target_ids)],
            dict(self.plan.topic_ids),
            self.how.fail_on_data_loss,
        ]
        return digest_of(content)

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

    def request(self, submission: Submission, logins: JobCredentials, progress_seconds: float) -> CopyJob:
        """The request to the job.

        :param logins: of the job, added to the options of source and sink.
        :param progress_seconds: seconds between two lines of progress.
        """
        # A stream reads in its batches what the plan has, and not only the uncommitted batch.
        read = self.spans if self.stream is None else plan_spans(self.plan.ranges)
        make = CopyJob if self.stream is None else partial(StreamJob, stream=self.stream)
        return make(
            run_id=self.run_id,
            instance=self.instance,
            submission=submission,
            history=self.history,
            plan_digest=self.plan.digest,
            ranges=self.ranges,
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
            how=self.how,
            delivery=self.parameters.delivery,
            delivery_parts=self.delivery_parts,
            source_ids=dict(self.plan.topic_ids),
            window=self.plan.window,
            forbidden_targets=self.forbidden_targets,
            progress_seconds=progress_seconds,
            title=self.title,
        )


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job whose driver does not end with its worker: how another try finds it, and what it has delivered.

    It is stored before the submission.

    :param tag: of its application, on YARN.
    :param report_uri: where its driver leaves the report.
    :param digest: of the copy, see :attr:`PlannedCopy.digest`.
    """

    tag: str
    report_uri: str
    digest: str
